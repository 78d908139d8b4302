"""Values of an object that one function does not read, and another function reads.

What the class compares, it compares for all functions that its objects are passed to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from retrace.model import Change, Verdict
from retrace.model.advice import LeaveOutValue, Proof
from retrace.reason.evidence import OF_VALUES, types_of
from retrace.reason.fields import field_changes

_Field: TypeAlias = tuple[str, str]
"""The type of an object, and the path of a value in it."""


def read_elsewhere(verdicts: Sequence[Verdict]) -> Iterator[tuple[int, Verdict]]:
    """Ask where advice would take a value out of a key that another function depends on.

    Args:
        verdicts: those of one recording.

    Yields:
        The index of a verdict, and the verdict with a question in place of its advice.
    """
    unread = [i for i, verdict in enumerate(verdicts) if isinstance(verdict.fix, LeaveOutValue)]
    if not unread:
        return
    readers: dict[_Field, dict[str, str]] = defaultdict(dict)
    for verdict in verdicts:
        if verdict.program_change in (None, "identical"):
            continue
        function = verdict.miss.function
        for change in verdict.changes:
            for _, field in _fields(change):
                readers[field][function.site] = function.name
    known: dict[str, dict[str, _Field]] = defaultdict(dict)
    for verdict in verdicts:
        for change in verdict.changes:
            known[verdict.miss.function.site].update(_fields(change))
    for index in unread:
        verdict = verdicts[index]
        advised, own = verdict.fix, verdict.miss.function.site
        if not isinstance(advised, LeaveOutValue):
            continue
        fields = [known[own][path] for path in advised.paths if path in known[own]]
        by = {site: name for field in fields for site, name in readers[field].items()}
        by.pop(own, None)
        if by:
            asked = advised.changed(
                read_by=tuple(dict.fromkeys(by.values())), proof=Proof.MEANING
            )
            yield index, replace(verdict, fix=asked, avoidable="maybe")


def _fields(change: Change) -> Iterator[tuple[str, _Field]]:
    """The changed values in an object, by their paths in the call and in the object."""
    if change.component not in OF_VALUES or change.path is None:
        return
    for part in field_changes(change, whole=False):
        path = str(part.path)
        yield path, (types_of(change)[1], path.removeprefix(change.path))

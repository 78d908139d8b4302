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
    unread_by: dict[str, set[_Field]] = defaultdict(set)
    changed: dict[str, list[tuple[str, set[_Field]]]] = defaultdict(list)
    known: dict[str, dict[str, _Field]] = defaultdict(dict)
    for verdict in verdicts:
        function = verdict.miss.function
        own = {path: field for change in verdict.changes for path, field in _fields(change)}
        known[function.site].update(own)
        if verdict.program_change == "identical":
            unread_by[function.site].update(own.values())
        elif verdict.program_change is not None:
            changed[function.site].append((function.name, {*own.values()}))
    readers: dict[_Field, dict[str, str]] = defaultdict(dict)
    for site, found in changed.items():
        for name, fields in found:
            for field in fields - unread_by[site] or fields:
                readers[field][site] = name
    for index in unread:
        verdict = verdicts[index]
        advised, site = verdict.fix, verdict.miss.function.site
        if not isinstance(advised, LeaveOutValue):
            continue
        by: dict[str, None] = {}
        read: list[str] = []
        for path in advised.paths:
            field = known[site].get(path)
            if names := [n for at, n in readers[field].items() if at != site] if field else []:
                read.append(path)
                by |= dict.fromkeys(names)
        if read:
            asked = advised.changed(paths=tuple(read), read_by=tuple(by), proof=Proof.MEANING)
            yield index, replace(verdict, fix=asked, avoidable="maybe")


def _fields(change: Change) -> Iterator[tuple[str, _Field]]:
    """The changed values in an object, by their paths in the call and in the object."""
    type_ = types_of(change)[1]
    if change.component not in OF_VALUES or change.path is None or type_ in _NO_CLASS:
        return
    for part in field_changes(change, whole=False):
        path = str(part.path)
        yield path, (type_, path.removeprefix(change.path))


_NO_CLASS = ("dict", "frozenset", "function", "list", "tuple")
"""Types whose values in two functions need have nothing to do with each other."""

"""Values of an object that one function does not read, and another function reads.

What the class compares, it compares for all functions that its objects are passed to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from retrace.model import Change, Verdict
from retrace.model.advice import LeaveOutValue, Proof, ToArgument
from retrace.reason.evidence import OF_VALUES, types_of
from retrace.reason.fields import field_changes
from retrace.reason.rules import in_key

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
    known, readers, sure = _read(verdicts)
    for index in unread:
        verdict = verdicts[index]
        advised, site = verdict.fix, verdict.miss.function.site
        if not isinstance(advised, LeaveOutValue):
            continue
        by: dict[str, None] = {}
        perhaps: dict[str, None] = {}
        read: list[str] = []
        for path in advised.paths:
            field = known[site].get(path)
            found = [(at, n) for at, n in readers[field].items() if at != site] if field else []
            names = [name for at, name in found if (field, at) in sure]
            if names:
                read.append(path)
                by |= dict.fromkeys(names)
            perhaps |= dict.fromkeys(name for _, name in found)
        if read:
            asked = advised.changed(paths=tuple(read), read_by=tuple(by), proof=Proof.MEANING)
            yield index, replace(verdict, fix=asked, avoidable="maybe")
        elif perhaps:
            asked = advised.changed(may_read=tuple(perhaps), proof=Proof.MEANING)
            yield index, replace(verdict, fix=asked, avoidable="maybe")


def _read(
    verdicts: Sequence[Verdict],
) -> tuple[dict[str, dict[str, _Field]], dict[_Field, dict[str, str]], set[tuple[_Field, str]]]:
    """Which values each function may read.

    Returns:
        By site, the values by their paths there; for each value the names of functions whose
        programs differ where it changed, by their sites; and which of these are known to be
        because of that, since nothing else changed.
    """
    unread_by: dict[str, set[_Field]] = defaultdict(set)
    changed: dict[str, list[tuple[Verdict, set[_Field]]]] = defaultdict(list)
    known: dict[str, dict[str, _Field]] = defaultdict(dict)
    for verdict in verdicts:
        function = verdict.miss.function
        own = {path: field for change in verdict.changes for path, field in _fields(change)}
        known[function.site].update(own)
        if verdict.program_change == "identical":
            unread_by[function.site].update(own.values())
        elif verdict.program_change is not None:
            changed[function.site].append((verdict, {*own.values()}))
    readers: dict[_Field, dict[str, str]] = defaultdict(dict)
    sure: set[tuple[_Field, str]] = set()
    for site, found in changed.items():
        for verdict, fields in found:
            own = fields - unread_by[site] or fields
            for field in own:
                readers[field][site] = verdict.miss.function.name
            if len(own) == 1 and not any(map(_is_else, in_key(verdict.changes))):
                sure |= {(field, site) for field in own}
            fix = verdict.fix
            if isinstance(fix, ToArgument) and fix.proof is Proof.CONSTANTS and not fix.computed:
                fields = known[site]
                sure |= {(fields[path], site) for path in fix.paths if path in fields}
    return known, readers, sure


def _fields(change: Change) -> Iterator[tuple[str, _Field]]:
    """The changed values in an object, by their paths in the call and in the object."""
    type_ = types_of(change)[1]
    if change.component not in OF_VALUES or change.path is None or type_ in _NO_CLASS:
        return
    for part in field_changes(change, whole=False):
        path = str(part.path)
        yield path, (type_, path.removeprefix(change.path))


def _is_else(change: Change) -> bool:
    """Whether something changed that is no value in an object, and may be why a program did."""
    return not any(True for _ in _fields(change))


_NO_CLASS = ("dict", "frozenset", "function", "list", "tuple")
"""Types whose values in two functions need have nothing to do with each other."""

"""What advice on an object means for the other functions that get it.

What the class compares, it compares for all functions that its objects are passed to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from retrace.model import Change, Component, FieldChange, Kind, Verdict
from retrace.model.advice import (
    Advice,
    LeaveOutValue,
    LoopInProgram,
    Proof,
    ToArgument,
    ToArray,
)
from retrace.reason.evidence import OF_VALUES, types_of
from retrace.reason.fields import NO_CLASS, field_changes, holder
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
    unread = [i for i, verdict in enumerate(verdicts) if _left_out(verdict.fix)]
    if not unread:
        return
    known, readers, sure = _read(verdicts)
    for index in unread:
        verdict = verdicts[index]
        advised, site = verdict.fix, verdict.miss.function.site
        by: dict[str, None] = {}
        perhaps: dict[str, None] = {}
        read: list[str] = []
        may_be: list[str] = []
        for path in _left_out(advised):
            field = known[site].get(path)
            found = [(at, n) for at, n in readers[field].items() if at != site] if field else []
            names = [name for at, name in found if (field, at) in sure]
            if names:
                read.append(path)
                by |= dict.fromkeys(names)
            if found:
                may_be.append(path)
            perhaps |= dict.fromkeys(name for _, name in found)
        if not may_be:
            continue
        if isinstance(advised, LeaveOutValue):
            asked = (
                advised.changed(paths=tuple(read), read_by=tuple(by), proof=Proof.MEANING)
                if read
                else advised.changed(may_read=tuple(perhaps), proof=Proof.MEANING)
            )
            yield index, replace(verdict, fix=asked, avoidable="maybe")
        elif isinstance(advised, ToArgument):
            types = {field[0] for path in advised.paths if (field := known[site].get(path))}
            own = {known[site].get(path) for path in (*advised.paths, *advised.unread)}
            also = any(
                field[0] in types and site in by_site and field not in own
                for field, by_site in [*readers.items()]
            )
            kept = {"needed": tuple(read or may_be), "unread": (), "type": None, "also": also}
            by_ = {"read_by": tuple(by)} if read else {"may_read": tuple(perhaps)}
            asked = advised.changed(**kept, **by_, proof=Proof.MEANING)
            yield index, replace(verdict, fix=asked, avoidable="maybe")


def leaf_elsewhere(verdicts: Sequence[Verdict]) -> Iterator[tuple[int, Verdict]]:
    """Name the other functions for which a static field becomes a leaf, as in a sum over all.

    Args:
        verdicts: those of one recording.

    Yields:
        The index of a verdict, and the verdict with the names in its advice.
    """
    to_leaf = [
        (index, verdict, verdict.fix)
        for index, verdict in enumerate(verdicts)
        if isinstance(verdict.fix, ToArray) and verdict.fix.in_tree
    ]
    if not to_leaf:
        return
    own = {verdict.miss.function.site for _, verdict, _ in to_leaf}
    takers: dict[str, dict[str, None]] = defaultdict(dict)
    for verdict in verdicts:
        function = verdict.miss.function
        if function.site not in own and function.kind is not Kind.OP and not verdict.miss.nested:
            for node in verdict.miss.key.tree:
                takers[node.type][function.name] = None
    for index, verdict, advised in to_leaf:
        nodes = [holder(path, verdict.miss.key) for path in advised.paths]
        types = {node.type for node in nodes if node is not None} - {*NO_CLASS}
        if names := {name: None for type_ in sorted(types) for name in takers[type_]}:
            yield index, replace(verdict, fix=advised.changed(leaf_of=tuple(names)))


def _left_out(advised: Advice | None) -> tuple[str, ...]:
    """What a class no longer compares if the advice is followed."""
    if isinstance(advised, LeaveOutValue):
        return advised.paths
    if isinstance(advised, ToArgument):
        return (*advised.unread, *(() if advised.type is None else advised.paths))
    return ()


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
        own = {path: at for one in verdict.changes for path, at in _fields(one, verdict)}
        known[function.site].update(own)
        fix = verdict.fix
        if isinstance(fix, ToArgument) and fix.shows:
            # The constants that differ are those of what it passes.
            unread = {own[path] for path in fix.unread if path in own}
            unread_by[function.site] |= unread
            own = {path: at for path, at in own.items() if at not in unread}
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
            # Without a change of the program, arrays that it captured are only other objects.
            differs = any(one.component is Component.PROGRAM for one in verdict.changes)
            if (
                differs
                and len(own) == 1
                and not any(_is_else(one, verdict) for one in in_key(verdict.changes))
            ):
                sure |= {(field, site) for field in own}
            if _is_shown(verdict.fix):
                named = () if verdict.fix is None else verdict.fix.paths
                sure |= {(known[site][path], site) for path in named if path in known[site]}
    return known, readers, sure


def _is_shown(advised: Advice | None) -> bool:
    """Whether the programs show that they depend on the values that advice is about."""
    if isinstance(advised, ToArgument):
        return advised.shows
    return isinstance(advised, LoopInProgram) and advised.seen


def _fields(change: Change, verdict: Verdict) -> Iterator[tuple[str, _Field]]:
    """The changed values in an object, by their paths in the call and in the object."""
    if change.component not in OF_VALUES or change.path is None:
        return
    parts = field_changes(change, whole=False)
    if isinstance(change, FieldChange):
        if (
            node := holder(change.path, verdict.miss.key)
        ) is not None and node.type not in NO_CLASS:
            for path in [str(part.path) for part in parts or (change,)]:
                yield path, (node.type, path.removeprefix(node.path))
    elif (type_ := types_of(change)[1]) not in NO_CLASS:
        for path in [str(part.path) for part in parts]:
            yield path, (type_, path.removeprefix(change.path))


def _is_else(change: Change, verdict: Verdict) -> bool:
    """Whether something changed that is no value in an object, and may be why a program did."""
    return not any(True for _ in _fields(change, verdict))

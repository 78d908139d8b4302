"""Advice on two calls of a function, held against its calls with other flags or structures.

What Python does not read in one branch it may read in another: `cfg.drop` decides nothing where
`train` is False. Two calls that show the one say nothing about the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from retrace.compare.keys import changes
from retrace.model import Change, Component, Miss, TreeChange, Verdict
from retrace.model.advice import Advice, LeaveOutValue, OneDtype, Proof, ToArgument
from retrace.model.key import Value
from retrace.reason.asked import replace_advice
from retrace.reason.evidence import OF_VALUES, is_whole, types_of, values_of
from retrace.reason.fields import field_changes, with_fields
from retrace.reason.held import is_in
from retrace.reason.traits import looks_the_same

_MAX_CALLS = 1000
"""Of one function: later ones are told what the last of these with the same advice was."""
_Values: TypeAlias = frozenset[tuple[str, Hashable]]


_Branches: TypeAlias = "dict[_Values, dict[frozenset[Hashable], dict[Hashable, set[str]]]]"


class _Call(NamedTuple):
    """How a call differs from the first one of its function."""

    program: str
    values: dict[str, Hashable]
    """Values that Python can branch on, by path."""
    rest: frozenset[Hashable]


def keep_read(history: list[Verdict]) -> None:
    """What two calls do not read, or only as a constant, calls with another flag may read."""
    if not any(_is_held_against_all(one.fix) for one in history):
        return
    calls = {one.miss.id: call for one in history[:_MAX_CALLS] for call in _call(history, one)}
    branches: dict[tuple[str, ...], _Branches] = {}
    whole: dict[tuple[str, ...], list[_Values]] = {}
    told: dict[tuple[type[Advice], tuple[str, ...]], Advice] = {}
    for index, verdict in enumerate(history):
        own, call = verdict.fix, calls.get(verdict.miss.id)
        if own is None or not _is_held_against_all(own):
            continue
        key = type(own), own.paths
        if call is not None and isinstance(own, OneDtype):
            if own.paths not in whole:
                whole[own.paths] = _with_integers(calls, history, own.paths)
            told[key] = _where_integers(whole[own.paths], call, own)
        elif call is not None and isinstance(own, LeaveOutValue | ToArgument):
            if own.paths not in branches:
                branches[own.paths] = _by_branch(calls.values(), own.paths)
            told[key] = _held_against(branches[own.paths], call, own, verdict)
        elif index < _MAX_CALLS or key not in told:
            continue
        if told[key] is not own:
            replace_advice(history, index, told[key])


def _is_held_against_all(advised: Advice | None) -> bool:
    if isinstance(advised, OneDtype):
        whole = {*map(is_whole, advised.dtypes)}
        return advised.proof is not Proof.MEANING and whole == {True, False}
    return isinstance(advised, LeaveOutValue | ToArgument)


def _with_integers(
    calls: dict[str, _Call], history: list[Verdict], paths: tuple[str, ...]
) -> list[_Values]:
    """The flags of calls that passed these arrays as integers only, which may be an index."""
    floats: dict[_Values, bool] = {}
    for verdict in history[:_MAX_CALLS]:
        if (call := calls.get(verdict.miss.id)) is not None:
            branch = frozenset(call.values.items())
            found = [one.dtype for one in verdict.miss.key.leaves if one.path in paths]
            floats[branch] = floats.get(branch, not found) or not all(map(is_whole, found))
    return [branch for branch, has_floats in floats.items() if not has_floats]


def _where_integers(whole: list[_Values], call: _Call, own: OneDtype) -> OneDtype:
    here = {*call.values.items()}
    names = {name: None for branch in whole for name, _ in sorted(branch ^ here, key=repr)}
    return own.changed(seen_with=tuple(names), proof=Proof.MEANING) if names else own


def _held_against(
    branches: _Branches, call: _Call, own: LeaveOutValue | ToArgument, verdict: Verdict
) -> Advice:
    """The advice, or what all calls allow of it."""
    read, unseen = _elsewhere(branches, call, own.paths)
    if isinstance(own, ToArgument):
        # Only Python needs integers, as lengths.
        asks = unseen and own.proof is Proof.CONSTANTS and _is_integer(verdict, own.paths)
        return own.changed(seen_with=unseen, proof=Proof.MEANING) if asks else own
    if read:
        return own.changed(read_with=read, proof=Proof.MEANING if own.in_tree else own.proof)
    return own.changed(seen_with=unseen, proof=Proof.MEANING) if unseen else own


def _is_integer(verdict: Verdict, paths: tuple[str, ...]) -> bool:
    return any(
        "int" in types_of(part)
        for change in verdict.changes
        for part in with_fields(change)
        if part.path in paths
    )


def _call(history: list[Verdict], verdict: Verdict) -> Iterator[_Call]:
    miss = verdict.miss
    if miss.program is not None and miss.raised is None:
        yield _described(history[0].miss, miss)


def _described(first: Miss, miss: Miss) -> _Call:
    assert miss.program is not None
    values: dict[str, Hashable] = {}
    rest: set[Hashable] = set()
    for change in changes(first, miss):
        if change.component is Component.PROGRAM:
            continue
        if change.component not in OF_VALUES:
            rest.add((change.component, change.path, repr(getattr(change, "new", None))))
        elif not looks_the_same(change):
            for part in field_changes(change, whole=False) or (change,):
                values[str(part.path)] = _new(part)
    return _Call(miss.program.hash, values, frozenset(rest))


def _new(change: Change) -> Hashable:
    if isinstance(change, TreeChange):
        return repr(change.new)
    new: Value | None = values_of(change)[1]
    return None if new is None else (new.type, new.text, repr(new.data))


def _by_branch(calls: Iterable[_Call], paths: tuple[str, ...]) -> _Branches:
    """The programs of calls, by what Python branched on, what else differs, and these values."""
    found: _Branches = {}
    for call in calls:
        branch, given = _split(call, paths)
        by_value = found.setdefault(branch, {}).setdefault(call.rest, defaultdict(set))
        by_value[given].add(call.program)
    return found


def _elsewhere(
    branches: _Branches, own: _Call, paths: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is different in calls that read these values, and in calls that show neither."""
    here, _ = _split(own, paths)
    read: dict[str, None] = {}
    unseen: dict[str, None] = {}
    for branch, found in branches.items():
        names = dict.fromkeys(name for name, _ in sorted(branch ^ here, key=repr))
        if not names:
            continue
        several = [list(by_value.values()) for by_value in found.values() if len(by_value) > 1]
        if any(not first & other for first, *rest in several for other in rest):
            read |= names
        elif not several:
            unseen |= names
    return tuple(read), tuple(unseen)


def _split(call: _Call, paths: tuple[str, ...]) -> tuple[_Values, Hashable]:
    """Its values but these, and these."""
    own = {path for path in call.values if is_in(path, paths)}
    return (
        frozenset((path, one) for path, one in call.values.items() if path not in own),
        frozenset((path, one) for path, one in call.values.items() if path in own),
    )

"""One history, one advice: what is said of one miss must hold for the others of its function.

Two calls that held the same value say "make it once"; a third that held another says "pass it".
Whoever follows the first freezes the value. So the advice that does for all calls is given to
all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

from retrace.model import Change, Component, HeldChange, StaticChange, Verdict
from retrace.model.advice import (
    Advice,
    BranchInProgram,
    CompareByValue,
    DefineBodyOnce,
    InjectHyperparams,
    JitAndPass,
    JitForEach,
    JitOnce,
    KeepBound,
    KeepMethod,
    KeepTraced,
    LeaveOutArray,
    LeaveOutValue,
    LoopInProgram,
    OneCallStyle,
    OneReceiver,
    OneStructure,
    OneType,
    PassHeld,
    PassTraced,
    Proof,
    ReuseObject,
    ToArgument,
    ToArray,
    TripsInProgram,
)
from retrace.reason.evidence import is_function, types_of
from retrace.reason.fields import field_changes
from retrace.reason.rules import in_key
from retrace.reason.traits import looks_equal

_Kind = TypeVar("_Kind", bound=Advice)
Rule: TypeAlias = Callable[[list[Verdict]], None]


def agree(history: list[Verdict]) -> None:
    """Give all verdicts of one function, in place, the advice that does for all of its calls."""
    rules = (_passing, _traced, _meant, _functions, _held, _compared, _types, _read, _given)
    for rule in rules:
        rule(history)


def _of(history: Iterable[Verdict], kind: type[_Kind]) -> list[_Kind]:
    return [verdict.fix for verdict in history if isinstance(verdict.fix, kind)]


def _give(history: list[Verdict], index: int, advised: Advice) -> None:
    verdict = history[index]
    worth = verdict.avoidable
    if worth == "yes" and advised.proof is Proof.MEANING:
        worth = "maybe"
    history[index] = replace(verdict, fix=advised, avoidable=worth)


def _passing(history: list[Verdict]) -> None:
    """What one call asks to pass is passed at every call; what steers one program is static."""
    _each(history)
    if each := _of(history, JitForEach):
        for index, verdict in enumerate(history):
            if isinstance(verdict.fix, JitOnce):
                _give(history, index, each[0])
    if not (found := _of(history, JitAndPass)):
        return
    traced = tuple(dict.fromkeys(name for one in found for name in one.traced))
    steers = _steering(history, traced)
    static = tuple(
        name
        for name in dict.fromkeys(name for one in found for name in one.static)
        if name in steers or name not in traced
    )
    values = _values(history)
    passed = tuple(name for name in traced if name not in static)
    one_type = tuple(name for name in passed if _several(values, name))
    inject = tuple(dict.fromkeys(name for one in found for name in one.inject))
    computed, reads = any(one.computed for one in found), any(one.reads for one in found)
    for index, verdict in enumerate(history):
        if not isinstance(verdict.fix, JitAndPass | JitOnce):
            continue
        own = verdict.fix if isinstance(verdict.fix, JitAndPass) else found[0]
        advised = replace(
            own,
            static=static,
            traced=passed,
            computed=computed,
            reads=reads,
            one_type=one_type,
            inject=inject,
        )
        _give(history, index, advised)
        named = {str(c.path) for c in verdict.changes if c.component in _HELD}
        if verdict.avoidable == "yes" and named & {*static}:
            # Each value of a static argument has a program, needed or not.
            history[index] = replace(history[index], avoidable="maybe")


def _each(history: list[Verdict]) -> None:
    """An object that looks the same in two calls, and of which a third holds other numbers.

    One function over it would keep the first numbers for all.
    """
    others = [
        name
        for one in _of(history, JitAndPass)
        for name in (*one.inject, *one.traced, *one.static)
    ]
    for index, verdict in enumerate(history):
        own = verdict.fix
        if isinstance(own, JitForEach) and all(
            any(_is_in(name, (path,)) for name in others) for path in own.paths
        ):
            advised = JitAndPass(
                name=own.name, what=own.what, traced=own.traced, static=own.static
            )
            _give(history, index, advised)


def _steering(history: list[Verdict], traced: tuple[str, ...]) -> set[str]:
    """What made another program where it changed.

    Where two things changed at once, one of which was but a constant of the program between
    other calls, it is the other that steers. What did not change tells nothing.
    """
    found: set[str] = set()
    for verdict in history:
        if not isinstance(verdict.fix, JitAndPass):
            continue
        changed = tuple(str(one.path) for one in (*verdict.changes, *verdict.reads) if one.path)
        own = {name for name in verdict.fix.static if _is_in(name, changed)}
        found |= own.difference(traced) or own
    return found


_HELD = (Component.CLOSURE, Component.DEFAULTS)


def _traced(history: list[Verdict]) -> None:
    """A function that is only traced, and holds another value in one call."""
    if not (found := _of(history, PassTraced)):
        return
    for index, verdict in enumerate(history):
        if isinstance(verdict.fix, KeepTraced):
            _give(history, index, found[0])


def _meant(history: list[Verdict]) -> None:
    """One object for all, where objects differ in one call: that is asked of all."""
    kinds = (OneReceiver, KeepBound, KeepMethod, DefineBodyOnce)
    asked: dict[tuple[str, ...], Advice] = {}
    for verdict in history:
        if isinstance(verdict.fix, kinds) and verdict.fix.proof is Proof.MEANING:
            asked.setdefault(_bodies(verdict), verdict.fix)
    for index, verdict in enumerate(history):
        if isinstance(verdict.fix, kinds) and (bodies := _bodies(verdict)) in asked:
            _give(history, index, asked[bodies])


def _bodies(verdict: Verdict) -> tuple[str, ...]:
    """The bodies of an eager loop: all loops of a program are one function of JAX's."""
    return tuple(body.site for body in verdict.miss.bodies)


def _functions(history: list[Verdict]) -> None:
    """A function that is passed, made again over the same value and over another."""
    held: dict[str, list[PassHeld | ToArgument]] = defaultdict(list)
    for one in _of(history, PassHeld):
        for path in one.paths:
            held[path].append(one)
    for one in _of(history, ToArgument):
        if one.function is not None:
            held[one.function].append(one)
    for path, change in _differing(history).items():
        if path not in held and is_function(change):
            # A function of another value where it steers: none can stand for all.
            names = tuple(str(one.path).rpartition(".")[2] for one in field_changes(change))
            held[path].append(PassHeld(paths=(path,), held=names, proof=Proof.MEANING))
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if isinstance(advised, ReuseObject | PassHeld):
            path = next((path for path in advised.paths if path in held), None)
        elif isinstance(advised, ToArgument):
            path = advised.function
        else:
            continue
        if path is None or path not in held:
            continue
        asked = [one for one in held[path] if isinstance(one, PassHeld)]
        if isinstance(advised, ReuseObject) or (asked and isinstance(advised, ToArgument)):
            _give(history, index, (asked or held[path])[0])


def _held(history: list[Verdict]) -> None:
    """An object that looks the same in two calls, and of which a third holds another number.

    Made once it would keep the first number for all.
    """
    kinds = (InjectHyperparams, ToArray, OneStructure)
    others = [verdict.fix for verdict in history if isinstance(verdict.fix, kinds)]
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if not isinstance(advised, ReuseObject | CompareByValue) or not others:
            continue
        for other in others:
            if any(_is_in(path, advised.paths) for path in other.paths):
                _give(history, index, other)
                break


def _compared(history: list[Verdict]) -> None:
    """An object that looks the same in two calls and holds something else in a third."""
    differing = _differing(history)
    unread = _of(history, LeaveOutValue)
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if not isinstance(advised, CompareByValue) or not differing.keys() & {*advised.paths}:
            continue
        within = [one for one in unread if all(_is_in(path, advised.paths) for path in one.paths)]
        _give(history, index, within[0] if within else replace(advised, varies=True))


def _differing(history: list[Verdict]) -> dict[str, Change]:
    """The static values of which one call passed another than an earlier one, by path."""
    return {
        change.path: change
        for verdict in history
        for change in verdict.changes
        if change.component is Component.STATIC
        and change.path is not None
        and not looks_equal(change)
    }


def _is_in(path: str, outer: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in outer)


def _types(history: list[Verdict]) -> None:
    """One value in two types, and other values of which all share a program."""
    kinds = (ToArgument, LoopInProgram, TripsInProgram)
    if not any(isinstance(verdict.fix, (*kinds, OneType)) for verdict in history):
        return
    values = _values(history)
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if isinstance(advised, kinds) and any(_several(values, one) for one in advised.paths):
            history[index] = replace(verdict, fix=replace(advised, one_type=True))
    by_path: dict[str, Advice] = {
        path: replace(one, one_type=True)
        for one in _of(history, ToArgument)
        for path in one.paths
    }
    by_path |= {path: one for one in _of(history, LeaveOutValue) for path in one.paths}
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if isinstance(advised, BranchInProgram) and _is_of_type(verdict, advised, by_path):
            # The other program may be but the conversion of a number of another type.
            _give(history, index, replace(by_path[advised.paths[0]], proof=Proof.MEANING))
            history[index] = replace(history[index], avoidable="maybe")
        if not isinstance(advised, OneType):
            continue
        if (path := advised.paths[0]) in by_path:
            _give(history, index, by_path[path])
        elif advised.type is not None and len(values.get(path, ())) > _TWO:
            # What holds True and 1 does not hold 2.0.
            _give(history, index, replace(advised, type=None, proof=Proof.MEANING))


_TWO = 2


def _is_of_type(
    verdict: Verdict, advised: BranchInProgram, by_path: Mapping[str, Advice]
) -> bool:
    """Whether one value, which others only pass, came in another type as well."""
    changes = [change for change in verdict.changes if isinstance(change, StaticChange)]
    return len(changes) == 1 == len(advised.paths) and all(
        isinstance(by_path.get(change.path), ToArgument) and len({*types_of(change)}) > 1
        for change in changes
    )


_Values: TypeAlias = dict[str, set[tuple[str, str]]]


def _several(values: _Values, path: str) -> bool:
    """Whether the calls gave a value in several types: an array is made of each."""
    return len({type_ for type_, _ in values.get(path, ())}) > 1


def _values(history: list[Verdict]) -> _Values:
    """All values that the calls passed for static arguments, with their types, by path."""
    found: _Values = {}
    for verdict in history:
        for change in verdict.changes:
            if isinstance(change, StaticChange | HeldChange):
                sides = [side for side in (change.old, change.new) if side is not None]
                own = found.setdefault(change.path, set())
                own |= {(side.type, side.text) for side in sides}
    return found


def _read(history: list[Verdict]) -> None:
    """What one pair of calls does not use, and another pair does."""
    for kind, component in ((LeaveOutValue, None), (LeaveOutArray, Component.SHAPE)):
        used: dict[str, Advice] = {}
        for verdict in history:
            changed = {str(change.path) for change in in_key(verdict.changes)}
            advised = verdict.fix
            if advised is None or isinstance(advised, (kind, OneType, CompareByValue)):
                continue
            if component is None or len(changed) == 1:
                used |= {path: advised for path in advised.paths if path not in used}
        for index, verdict in enumerate(history):
            advised = verdict.fix
            if isinstance(advised, kind) and (path := advised.paths[0]) in used:
                _give(history, index, used[path])
                if verdict.avoidable == "yes" and used[path].sure != "clear":
                    history[index] = replace(history[index], avoidable="maybe")


def _given(history: list[Verdict]) -> None:
    """What stands for None where it is left out is not to be given there."""
    optional = {
        path for one in _of(history, OneStructure) if one.way == "omitted" for path in one.paths
    }
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if isinstance(advised, OneCallStyle) and optional & {*advised.paths}:
            _give(history, index, replace(advised, optional=True))

"""One history, one advice: what is advised for one miss must suit all calls of its function.

Two calls with the same value suggest "create it once"; a third with another value suggests
"pass it". Following the first advice would freeze the value. So advice that suits all calls is
given to all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from retrace.model import Component, Verdict
from retrace.model.advice import (
    Advice,
    BranchInProgram,
    FewValues,
    JitAndPass,
    JitForEach,
    JitOnce,
    KeepBound,
    KeepTraced,
    LeaveOutValue,
    LoopInProgram,
    OneCallStyle,
    OneStructure,
    OneType,
    PassTraced,
    Proof,
    ToArgument,
    TripsInProgram,
)
from retrace.model.parts import OF_ARGUMENTS
from retrace.reason.asked import ask_for_all, keep_to_few, replace_advice
from retrace.reason.calls import always_new, has_several_types, lists_of_calls, values_of_calls
from retrace.reason.evidence import named_changes, types_of
from retrace.reason.fields import with_fields
from retrace.reason.held import is_in
from retrace.reason.objects import (
    advice_of_kind,
    ask_for_kept,
    keep_compared,
    keep_others,
    leave_constants,
    pass_held,
    pass_same,
)
from retrace.reason.placements import place_alike
from retrace.reason.remade import held_beside, jit_for_remade, remade_with, with_arrays
from retrace.reason.static_functions import unify_functions
from retrace.reason.steering import needed_static, steering
from retrace.reason.traits import looks_equal
from retrace.reason.unread import keep_used, leave_unread
from retrace.reason.variants import keep_read
from retrace.reason.weak import as_arrays, proved_for_all

Rule: TypeAlias = Callable[[list[Verdict]], None]


def agree(history: list[Verdict]) -> None:
    """Replace the advice on a function's misses, in place, by advice that suits all its calls."""
    rules = (
        _unify_passing,
        remade_with,
        jit_for_remade,
        _pass_traced,
        ask_for_all,
        keep_to_few,
        unify_functions,
        pass_held,
        keep_others,
        pass_same,
        keep_compared,
        _unify_types,
        proved_for_all,
        as_arrays,
        keep_used,
        leave_unread,
        _pass_beside,
        keep_read,
        leave_constants,
        _keep_optional,
        ask_for_kept,
        _read_too,
        place_alike,
        _name_alike,
    )
    for rule in rules:
        rule(history)


def _unify_passing(history: list[Verdict]) -> None:
    """What one call should pass, every call passes; what changes the program is static."""
    _not_one_for_each(history)
    if each := advice_of_kind(history, JitForEach):
        passing = [one for one in advice_of_kind(history, JitAndPass) if not one.inject]
        for_all = _for_each_call(history, each, passing)
        if for_all.same and _holds_others(history, for_all.paths):
            for_all = for_all.changed(same=False)
        for index, verdict in enumerate(history):
            own = verdict.fix
            # A call with the same object passes what others pass, but to the function of it.
            joins = isinstance(own, JitAndPass) and own in passing and not for_all.same
            if joins or isinstance(own, JitOnce | JitForEach):
                replace_advice(history, index, for_all)
    if not (found := advice_of_kind(history, JitAndPass)):
        return
    traced = with_arrays(history, [name for one in found for name in one.traced])
    steers = steering(history, traced)
    static = needed_static(found, traced, steers)
    static += tuple(name for name in held_beside(history) if name not in (*static, *traced))
    values = values_of_calls(history)
    # No array can be a static argument, whatever a number of other calls would be best as.
    arrays = tuple(one for one in static if any(t == "array" for t, _ in values.get(one, ())))
    static = tuple(name for name in static if name not in arrays)
    passed = (*(name for name in traced if name not in (*static, *arrays)), *arrays)
    one_type = tuple(name for name in passed if has_several_types(values, name))
    inject = tuple(dict.fromkeys(name for one in found for name in one.inject))
    computed, reads = any(one.computed for one in found), any(one.reads for one in found)
    resized = any(one.resized for one in found)
    unexplained = any(one.unexplained for one in found)
    were_lists = lists_of_calls(history)
    lists = tuple(name for name in static if name in were_lists)
    new = always_new(values, len(history), static)
    dtypes = {one.dtype for one in found}
    dtype = dtypes.pop() if len(dtypes) == 1 else ""
    for index, verdict in enumerate(history):
        if not isinstance(verdict.fix, JitAndPass | JitOnce | KeepBound):
            continue
        own = verdict.fix if isinstance(verdict.fix, JitAndPass) else found[0]
        advised = own.changed(
            static=static,
            lists=lists,
            traced=passed,
            computed=computed,
            reads=reads,
            resized=resized,
            one_type=one_type,
            inject=inject,
            dtype=dtype,
            unexplained=unexplained,
            always_new=new,
        )
        if arrays:
            advised = advised.changed(proof=Proof.MEANING)
        replace_advice(history, index, advised)
        held = (one for one in verdict.changes if one.component in _HELD)
        named = {str(part.path) for one in held for part in with_fields(one)}
        if verdict.avoidable == "yes" and named & {*static}:
            # Each value of a static argument has its own program, needed or not.
            history[index] = replace(history[index], avoidable="maybe")


def _holds_others(history: list[Verdict], paths: tuple[str, ...]) -> bool:
    """Whether one of these objects holds something else in a call, whatever that call is told."""
    return any(
        is_in(str(change.path), paths) and not looks_equal(change)
        for verdict in history
        for change in verdict.changes
        if change.component in _HELD
    )


def _for_each_call(
    history: list[Verdict], found: list[JitForEach], passing: list[JitAndPass]
) -> JitForEach:
    """One function for each object that any call holds, with all that any call should pass."""
    passed = [name for one in (*found, *passing) for name in one.traced]
    traced = with_arrays(history, passed)
    static = needed_static((*found, *passing), traced, steering(history, traced))
    passed = (*static, *(name for name in traced if name not in static))
    paths = dict.fromkeys(path for one in found for path in one.paths)
    # What holds something that is passed is created from it, within the function.
    kept = tuple(one for one in paths if not any(is_in(name, (one,)) for name in passed))
    least = min(found, key=lambda one: _PROOFS.index(one.proof))
    return found[0].changed(
        paths=kept or tuple(paths),
        same=all(one.same for one in found),
        reads=any(one.reads for one in (*found, *passing)),
        unexplained=any(one.unexplained for one in (*found, *passing)),
        computed=any(one.computed for one in (*found, *passing)),
        traced=tuple(name for name in traced if name not in static),
        static=static,
        proof=least.proof,
    )


_PROOFS = (Proof.MEANING, Proof.KEY, Proof.UNUSED, Proof.CONSTANTS, Proof.PROGRAM)
"""The weakest first."""


def _not_one_for_each(history: list[Verdict]) -> None:
    """Objects that look the same in two calls, while a third call holds other numbers.

    A single function over such an object would keep the first numbers for all calls.
    """
    others = [
        name
        for one in advice_of_kind(history, JitAndPass)
        for name in (*one.inject, *one.traced, *one.static)
    ]
    for index, verdict in enumerate(history):
        own = verdict.fix
        if isinstance(own, JitForEach) and all(
            any(is_in(name, (path,)) for name in others) for path in own.paths
        ):
            advised = JitAndPass(
                name=own.name,
                what=own.what,
                traced=own.traced,
                static=own.static,
                by_type=own.by_type,
                dtype=own.dtype,
            )
            replace_advice(history, index, advised)


_HELD = (Component.CLOSURE, Component.DEFAULTS)


def _pass_traced(history: list[Verdict]) -> None:
    """A function that is only traced, but holds a different value in one call."""
    if not (found := advice_of_kind(history, PassTraced)):
        return
    for index, verdict in enumerate(history):
        if isinstance(verdict.fix, KeepTraced):
            replace_advice(history, index, found[0])


def _unify_types(history: list[Verdict]) -> None:
    """One value that came in two types, while its other values share a program."""
    kinds = (ToArgument, LoopInProgram, TripsInProgram)
    if not any(isinstance(verdict.fix, (*kinds, OneType)) for verdict in history):
        return
    values = values_of_calls(history)
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if isinstance(advised, kinds) and any(
            has_several_types(values, one) for one in advised.paths
        ):
            history[index] = replace(verdict, fix=advised.changed(one_type=True))
    by_path: dict[str, Advice] = {
        path: one.changed(one_type=True)
        for one in advice_of_kind(history, ToArgument)
        for path in one.paths
    }
    by_path |= {path: one for one in advice_of_kind(history, LeaveOutValue) for path in one.paths}
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if isinstance(advised, BranchInProgram) and _differs_in_type(verdict, advised, by_path):
            # The other program may only differ by converting a number of another type.
            replace_advice(history, index, by_path[advised.paths[0]].changed(proof=Proof.MEANING))
            history[index] = replace(history[index], avoidable="maybe")
        if not isinstance(advised, OneType):
            continue
        if (path := advised.paths[0]) in by_path:
            replace_advice(history, index, by_path[path])
        elif advised.type is not None and len(values.get(path, ())) > _MAX_TYPES:
            # A type that can hold True and 1 cannot hold 2.0.
            replace_advice(history, index, advised.changed(type=None, proof=Proof.MEANING))


_MAX_TYPES = 2


def _differs_in_type(
    verdict: Verdict, advised: BranchInProgram, by_path: Mapping[str, Advice]
) -> bool:
    """Whether a value that is otherwise just passed also came in another type."""
    changes = named_changes(verdict.changes, OF_ARGUMENTS)
    return len(changes) == 1 == len(advised.paths) and all(
        isinstance(by_path.get(change.path), ToArgument) and len({*types_of(change)}) > 1
        for change in changes
    )


def _pass_beside(history: list[Verdict]) -> None:
    """Constants that follow from one value, as another call shows, where others changed, too."""
    passed = [one for one in advice_of_kind(history, ToArgument) if one.proof is Proof.CONSTANTS]
    known = {one.paths: one for one in passed}
    unread: dict[tuple[str, ...], dict[str, None]] = {}
    for index, verdict in enumerate(history if known else ()):
        own = verdict.fix
        computed = isinstance(own, ToArgument) and own.texts
        if own is None or verdict.program_change not in _OF_ONE_PROGRAM:
            continue
        if not isinstance(own, FewValues) and not computed:
            continue
        named = (*own.paths, *(path for path, what in own.others if what == "static"))
        if len(named) < len(own.paths) + len(own.others):
            continue
        for one in known.values():
            rest = tuple(path for path in named if path not in one.paths)
            if {*one.paths} <= {*named} and all(is_in(path, one.outside) for path in rest):
                unread.setdefault(one.paths, {}).update(dict.fromkeys(rest))
                replace_advice(history, index, one)
                break
    for index, verdict in enumerate(history if unread else ()):
        own = verdict.fix
        if isinstance(own, ToArgument) and (rest := unread.get(own.paths)):
            besides = tuple(dict.fromkeys((*own.unread, *rest)))
            replace_advice(history, index, own.changed(unread=besides, proof=Proof.MEANING))


_OF_ONE_PROGRAM = ("constants-only", "identical")


def _read_too(history: list[Verdict]) -> None:
    """What one call of several with the same advice saw change besides, all of them name."""
    found: dict[tuple[type[Advice], tuple[str, ...]], dict[str, bool]] = defaultdict(dict)
    for verdict in history:
        if (own := verdict.fix) is not None:
            for name in own.read_too:
                asked = own.proof is Proof.MEANING
                known = found[type(own), own.paths]
                known[name] = known.get(name, False) or asked
    for index, verdict in enumerate(history if found else ()):
        own = verdict.fix
        if own is not None and (names := found.get((type(own), own.paths))):
            proof = Proof.MEANING if any(names.values()) else own.proof
            replace_advice(history, index, own.changed(read_too=tuple(names), proof=proof))


def _name_alike(history: list[Verdict]) -> None:
    """What is told about the same arguments names them in one order."""
    first: dict[tuple[type[Advice], frozenset[str]], tuple[str, ...]] = {}
    for index, verdict in enumerate(history):
        if (own := verdict.fix) is not None and len(own.paths) > 1:
            paths = first.setdefault((type(own), frozenset(own.paths)), own.paths)
            if paths != own.paths:
                history[index] = replace(verdict, fix=own.changed(paths=paths))


def _keep_optional(history: list[Verdict]) -> None:
    """A parameter whose omission means None should not be passed there."""
    optional = {
        path
        for one in advice_of_kind(history, OneStructure)
        if one.way == "omitted"
        for path in one.paths
    }
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if isinstance(advised, OneCallStyle) and optional & {*advised.paths}:
            replace_advice(history, index, advised.changed(optional=True))

"""Questions about objects and loop bodies: if one call has to ask, all of its function do."""

from __future__ import annotations

from dataclasses import replace

from retrace.model import Verdict
from retrace.model.advice import (
    Advice,
    DefineBodyOnce,
    FewValues,
    JitOnce,
    KeepBound,
    KeepMethod,
    OneReceiver,
    Proof,
    ToArgument,
    ToArray,
)
from retrace.reason.fields import with_fields
from retrace.reason.held import is_below


def replace_advice(history: list[Verdict], index: int, advised: Advice) -> None:
    """Replace the advice on a miss, which is only perhaps avoidable if it asks."""
    verdict = history[index]
    worth = verdict.avoidable
    if advised.others:
        # What changed beside it in one call may not have changed in another.
        changed = {str(part.path) for one in verdict.changes for part in with_fields(one)}
        others = tuple(one for one in advised.others if one[0] in changed)
        advised = advised.changed(others=others)
    if worth == "yes" and advised.proof is Proof.MEANING:
        worth = "maybe"
    history[index] = replace(verdict, fix=advised, avoidable=worth)


def ask_for_all(history: list[Verdict]) -> None:
    """If the objects differ in one call, asking for one object is a question for all calls."""
    kinds = (OneReceiver, JitOnce, KeepBound, KeepMethod, DefineBodyOnce)
    asked: dict[tuple[str, ...], Advice] = {}
    for verdict in history:
        if isinstance(verdict.fix, kinds) and verdict.fix.proof is Proof.MEANING:
            bodies = _bodies(verdict)
            asked[bodies] = _for_both(asked.get(bodies), verdict.fix)
    for index, verdict in enumerate(history):
        if isinstance(verdict.fix, kinds) and (bodies := _bodies(verdict)) in asked:
            asks = asked[bodies]
            if isinstance(verdict.fix, JitOnce) and isinstance(asks, JitOnce):
                asks = verdict.fix.changed(
                    renames=asks.renames,
                    calls_back=asks.calls_back,
                    unknown=asks.unknown,
                    proof=asks.proof,
                )
            replace_advice(history, index, asks)


def keep_to_few(history: list[Verdict]) -> None:
    """What decides sizes between two calls cannot be traced in any: JAX needs it as a number."""
    few: dict[str, FewValues] = {}
    for verdict in history:
        own = verdict.fix
        # Of several that changed, only one may decide them.
        if isinstance(own, FewValues) and own.why == "shapes" and len(own.paths) == 1:
            few[own.paths[0]] = own
    for index, verdict in enumerate(history):
        own = verdict.fix
        if not isinstance(own, ToArgument | ToArray) or own.proof is Proof.CONSTANTS:
            continue
        if few.keys().isdisjoint(own.paths):
            continue
        rest = tuple(path for path in own.paths if path not in few)
        also = [(path, "static") for path in own.paths if path in few]
        advised = (
            own.changed(paths=rest, others=(*own.others, *also))
            if rest
            else few[own.paths[0]].changed(paths=own.paths, others=own.others)
        )
        replace_advice(history, index, advised)


def _bodies(verdict: Verdict) -> tuple[str, ...]:
    """The bodies of an eager loop: JAX uses one function for all loops of a program."""
    return tuple(body.site for body in verdict.miss.bodies)


def _for_both(first: Advice | None, other: Advice) -> Advice:
    """What two calls ask. Where more than numbers differed once, a function is made for each."""
    if not isinstance(first, DefineBodyOnce) or not isinstance(other, DefineBodyOnce):
        return other if first is None else first
    each = tuple(dict.fromkeys((*first.each, *other.each)))
    made = tuple(name for name in dict.fromkeys((*first.made, *other.made)) if name not in each)
    numbers = dict.fromkeys((*first.numbers, *other.numbers))
    return first.changed(
        holds=tuple(dict.fromkeys((*first.holds, *other.holds))),
        each=each,
        made=made,
        numbers=tuple(name for name in numbers if is_below(name, made)),
    )

"""Functions that are new besides another cause, and what they hold in these calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from retrace.model import Component, Verdict
from retrace.model.advice import JitAndPass, JitForEach, JitOnce, Proof
from retrace.reason.asked import replace_advice
from retrace.reason.held import Held, is_below
from retrace.reason.objects import advice_of_kind


def remade_with(history: list[Verdict]) -> None:
    """What other calls of a function pass is passed, too, where it is only new besides."""
    found = advice_of_kind(history, JitAndPass)
    remade = [one.fix for one in history if one.fix is not None and one.fix.remade is not None]
    static = dict.fromkeys(name for one in found for name in one.static)
    static |= dict.fromkeys(name for one in remade for name in one.reading)
    traced = dict.fromkeys(name for one in found for name in one.traced)
    traced |= dict.fromkeys(name for one in remade for name in one.holding)
    calling = dict.fromkeys(name for one in remade for name in one.calling)
    asked = any(one.proof is Proof.MEANING for one in remade)
    for index, verdict in enumerate(history):
        own = verdict.fix
        if own is None or own.remade is None or not (static or traced or calling):
            continue
        known = {*own.calling, *own.reading}
        # What any call needs as a static value is none that is passed.
        held = tuple(dict.fromkeys((*own.holding, *traced)))
        advised = own.changed(
            reading=(*own.reading, *(name for name in static if name not in known)),
            holding=tuple(name for name in held if name not in known and name not in static),
            calling=(*own.calling, *(name for name in calling if name not in {*known, *held})),
            proof=Proof.MEANING if asked else own.proof,
        )
        replace_advice(history, index, advised)


def held_beside(history: list[Verdict]) -> tuple[str, ...]:
    """Captured numbers and texts that any two calls have others of: static, these always work."""
    remade = [one.fix for one in history if one.fix is not None and one.fix.remade is not None]
    found = dict.fromkeys(name for one in remade for name in one.reading)
    for held in _held(history):
        inner = tuple(held.optimizers)  # whose state holds their numbers
        known = (*inner, *held.alike, *_OF_TRANSFORMS)
        named = (name for name in (*held.numbers, *held.plain) if name not in known)
        found |= dict.fromkeys(name for name in named if not is_below(name, inner))
    return tuple(found)


_OF_TRANSFORMS = ("argnums", "axis_name", "axis_size", "in_axes", "out_axes", "has_aux")
"""What a transformed function was made with, which it is not passed."""


def with_arrays(history: list[Verdict], names: Iterable[str]) -> tuple[str, ...]:
    """What is passed, with all captured arrays that any two calls have others of.

    A call may hold others that is told about something else: one function for all calls would
    go on with those of the first.
    """
    found = dict.fromkeys(names)
    for held in _held(history):
        found |= dict.fromkeys(name for name in held.arrays if name not in held.alike)
    return tuple(found)


def _held(history: list[Verdict]) -> Iterator[Held]:
    """What calls with other advice hold of what another one holds otherwise."""
    for verdict in history:
        if isinstance(verdict.fix, JitAndPass | JitForEach):
            continue  # which says so itself
        if any(change.component in _CAPTURED for change in verdict.changes):
            yield Held(verdict.changes)


_CAPTURED = (Component.CLOSURE, Component.DEFAULTS)


def jit_for_remade(history: list[Verdict]) -> None:
    """A function to jit once that held something else in a call with another cause."""
    if not any(isinstance(verdict.fix, JitOnce) for verdict in history):
        return
    objects: dict[str, None] = {}
    traced: dict[str, None] = {}
    static: dict[str, None] = {}
    for verdict in history:
        if verdict.fix is None or verdict.fix.remade is None:
            continue
        held = Held(verdict.changes)
        other = [name for name in held.names if name not in held.alike]
        objects |= dict.fromkeys(name for name in other if name in held.objects)
        traced |= dict.fromkeys(n for n in other if n in (*held.arrays, *held.numbers))
        static |= dict.fromkeys(name for name in other if name in held.plain)
    for index, verdict in enumerate(history):
        own = verdict.fix
        if not isinstance(own, JitOnce) or not (objects or traced or static):
            continue
        passing = JitAndPass(
            name=own.name,
            what=own.what,
            mapped=own.mapped,
            traced=tuple(traced),
            static=tuple(static),
        )
        for_each = JitForEach(
            name=own.name,
            what=own.what,
            mapped=own.mapped,
            paths=tuple(objects),
            same=False,
            traced=passing.traced,
            static=passing.static,
        )
        replace_advice(history, index, for_each if objects else passing)

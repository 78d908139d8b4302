"""Whether two programs of one function compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrace.auditing import constants
from retrace.capture.objects import content_hash
from retrace.capture.programs import transcript
from retrace.failure import asked
from retrace.jax_internals import retracing
from retrace.jax_internals.jaxprs import transcribe
from retrace.jax_internals.literals import literal_arrays
from retrace.jax_internals.transcript import Transcript


def computes_same(one: Any, other: Any) -> bool | None:
    """Whether two jaxprs compute the same, ignoring their custom rules."""
    first, second = (transcribe(jaxpr, with_rules=False) for jaxpr in (one, other))
    return first.program.hash == second.program.hash and captured_same(first, second)


def differ_in_nothing_computed(one: Any, other: Any) -> bool:
    """Whether two jaxprs differ at most in what XLA does not see.

    That is names of functions, what nothing uses, and digits that a dtype does not hold.
    """
    first, second = (
        transcript(live, with_callbacks=True, with_names=False, with_unused=False)
        for live in map(_without_dead, (one, other))
    )
    return first.program.hash == second.program.hash and captured_same(first, second) is True


def changed_in_place(jaxpr: Any, before: tuple[str, ...], now: tuple[str, ...]) -> bool:
    """Whether a program computes with a host array that was changed since its trace.

    Such an array is changed in the jaxpr that JAX keeps, too, so comparing it shows nothing.

    Args:
        jaxpr: the program that JAX keeps.
        before: its host arrays, by content, when it was traced.
        now: the same as they are.
    """
    if len(before) != len(now):
        return True
    changed = {after for old, after in zip(before, now, strict=True) if old != after}
    return bool(changed) and not changed.isdisjoint(
        transcript(_without_dead(jaxpr), with_unused=False).host
    )


def literal_changed_in_place(jaxpr: Any, again: Any, contents: frozenset[str]) -> bool:
    """Whether a program computes with a host array without axes that was changed since its trace.

    JAX writes it as a literal, but keeps the array itself, so the literal changes with it.

    Args:
        jaxpr: the program that JAX keeps.
        again: the program of a later trace, which takes the same array.
        contents: what arrays that the function reads hold now, where that has changed.
    """
    changed = [
        array for array in literal_arrays(_without_dead(jaxpr)) if content_hash(array) in contents
    ]
    return bool(changed) and any(
        np.shares_memory(one, other) for other in literal_arrays(again) for one in changed
    )


def _without_dead(jaxpr: Any) -> Any:
    return asked(retracing.without_dead, jaxpr) or jaxpr


def differ_in_callbacks(one: Any, other: Any) -> bool:
    """Whether two jaxprs that differ are the same, what their host callbacks hold aside."""
    first, second = (transcript(jaxpr) for jaxpr in (one, other))
    return first.program.hash == second.program.hash and captured_same(first, second) is True


def captured_same(one: Transcript, other: Transcript) -> bool | None:
    return constants.same((*one.arrays, *one.large), (*other.arrays, *other.large))

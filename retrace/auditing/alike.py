"""Whether two programs of one function compute the same."""

from __future__ import annotations

from typing import Any

from retrace.auditing import constants
from retrace.capture.programs import transcript
from retrace.failure import asked
from retrace.jax_internals import retracing
from retrace.jax_internals.jaxprs import transcribe
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
        for live in [asked(retracing.without_dead, each) or each for each in (one, other)]
    )
    return first.program.hash == second.program.hash and captured_same(first, second) is True


def differ_in_callbacks(one: Any, other: Any) -> bool:
    """Whether two jaxprs that differ are the same, what their host callbacks hold aside."""
    first, second = (transcript(jaxpr) for jaxpr in (one, other))
    return first.program.hash == second.program.hash and captured_same(first, second) is True


def captured_same(one: Transcript, other: Transcript) -> bool | None:
    return constants.same((*one.arrays, *one.large), (*other.arrays, *other.large))

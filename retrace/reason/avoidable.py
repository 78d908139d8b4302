"""Whether a miss was avoidable."""

from __future__ import annotations

from retrace.causes import Cause
from retrace.reason.cards import card
from retrace.reason.cards.card import Avoidable
from retrace.reason.evidence import Evidence
from retrace.reason.precedence import cause_alone, others
from retrace.reason.traits import (
    is_new_as_well,
    is_of_another_model,
    of_library,
    passing_library,
)


def avoidable(cause: Cause, evidence: Evidence) -> Avoidable:
    """Whether the fix for the cause was seen to work and applies to this miss.

    It does not where a library passes something else that changed, which would still miss.
    """
    worth = _of_cause(cause, evidence)
    if worth == "yes" and any(
        passing_library(other, evidence.miss)
        for other in map(cause_alone, others(evidence.changes, cause))
    ):
        return "maybe"
    return worth


def _of_cause(cause: Cause, evidence: Evidence) -> Avoidable:
    miss, program = evidence.miss, evidence.program
    own = card(cause)
    if (settled := own.settled(evidence)) is not None:
        return settled
    if is_of_another_model(cause, evidence):
        return "no"
    wasted = program is not None and program.is_wasted
    of_library_bodies = miss.bodies and all(one.in_library for one in miss.bodies)
    if cause is Cause.CONTROL_FLOW_RECREATED and of_library_bodies:
        return "maybe"
    if miss.function.in_library and is_new_as_well(cause, evidence):
        return "maybe"
    if (miss.nested and miss.function.in_library) or passing_library(cause, miss):
        return "maybe"  # a library passes what changed: the user may be unable to change it
    if of_library(cause, miss) and (miss.nested or not wasted):
        return "maybe"
    if wasted:
        # Why an operation with an equal program ran again is unknown: a cleared cache, or a
        # different `vmap` around it.
        return "maybe" if cause is Cause.EAGER_OP else "yes"
    return own.avoidable(evidence)

"""Causes that lie in the function object: nothing else in the key changed."""

from __future__ import annotations

from retrace.model import Kind
from retrace.reason import functions, rules, values
from retrace.reason.cards.card import Avoidable, Card
from retrace.reason.evidence import Evidence


def _recreated_avoidable(evidence: Evidence) -> Avoidable:
    """Whether a new function object was avoidable if its program differs."""
    if (decided := values.avoidable(evidence.changes, evidence.program)) is not None:
        return decided
    # Creating the same function again is wasteful. One created over other values
    # needs them as arguments, which is not always possible.
    if rules.holds_other(evidence.changes):
        return "maybe"
    # If nothing else changed, the program differs because of a global that it reads.
    return "yes" if evidence.program is None else "maybe"


def _edit_avoidable(evidence: Evidence) -> Avoidable:
    return values.avoidable(evidence.changes, evidence.program) or "no"


FUNCTION_REDEFINED = Card(
    kinds=(Kind.DEF,),
    avoidable=_recreated_avoidable,
    advice=functions.made_again,
)
LAMBDA_RECREATED = Card(
    kinds=(Kind.LAMBDA,),
    avoidable=_recreated_avoidable,
    advice=functions.made_again,
)
PARTIAL_RECREATED = Card(
    kinds=(Kind.PARTIAL,),
    avoidable=_recreated_avoidable,
    advice=functions.made_again,
)
TRANSFORM_RECREATED = Card(
    kinds=(Kind.TRANSFORM,),
    avoidable=_recreated_avoidable,
    advice=functions.made_again,
)
METHOD_REBOUND = Card(
    kinds=(Kind.METHOD, Kind.CALLABLE),
    avoidable=_recreated_avoidable,
    advice=functions.rebound,
)
# Applies to any kind of function: `reason/precedence` compares the code first.
SOURCE_CHANGED = Card(avoidable=_edit_avoidable, advice=None)

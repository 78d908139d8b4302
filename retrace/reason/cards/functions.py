"""The causes that lie in the function object: nothing in the key differs but the function."""

from __future__ import annotations

from retrace.model import Kind
from retrace.reason import functions, values
from retrace.reason.cards.card import Avoidable, Card
from retrace.reason.evidence import Evidence


def _made_again(evidence: Evidence) -> Avoidable:
    """Of a function object that is new, and whose program is another one."""
    if (decided := values.avoidable(evidence.changes, evidence.program)) is not None:
        return decided
    # The same function made again is wasted; one made over other values needs
    # them as arguments, which is not always possible.
    if functions.holds_other(evidence.changes):
        return "maybe"
    # With nothing else changed, another program comes from a global that it reads.
    return "yes" if evidence.program is None else "maybe"


def _edited(evidence: Evidence) -> Avoidable:
    return values.avoidable(evidence.changes, evidence.program) or "no"


FUNCTION_REDEFINED = Card(
    kinds=(Kind.DEF,),
    avoidable=_made_again,
    advice=functions.made_again,
)
LAMBDA_RECREATED = Card(
    kinds=(Kind.LAMBDA,),
    avoidable=_made_again,
    advice=functions.made_again,
)
PARTIAL_RECREATED = Card(
    kinds=(Kind.PARTIAL,),
    avoidable=_made_again,
    advice=functions.made_again,
)
TRANSFORM_RECREATED = Card(
    kinds=(Kind.TRANSFORM,),
    avoidable=_made_again,
    advice=functions.made_again,
)
METHOD_REBOUND = Card(
    kinds=(Kind.METHOD, Kind.CALLABLE),
    avoidable=_made_again,
    advice=functions.rebound,
)
# Of any kind of function: `reason/precedence` compares the code first.
SOURCE_CHANGED = Card(avoidable=_edited, advice=None)

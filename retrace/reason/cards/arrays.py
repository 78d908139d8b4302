"""Causes that lie in the arrays passed to a function."""

from __future__ import annotations

from retrace.model import Component, ShardingChange
from retrace.reason import arrays, placements, weak
from retrace.reason.cards.card import Avoidable, Card, perhaps
from retrace.reason.evidence import Evidence
from retrace.reason.traits import is_placed_later


def _shape_avoidable(evidence: Evidence) -> Avoidable:
    own = evidence.resized
    if own.are_unused:
        return "yes"
    return "no" if own.is_another_model and own.are_multiplied else "maybe"


def _weak_type_avoidable(evidence: Evidence) -> Avoidable:
    if weak.is_returned_by_library(evidence):
        return "maybe"
    return "yes" if weak.keeps_types(evidence.program) else "maybe"


def _placement_settled(evidence: Evidence) -> Avoidable | None:
    """Maybe, because one program for each device may be intended.

    No, if the array was uncommitted on the first call: it could have been placed there from the
    start.
    """
    own = [change for change in evidence.changes if isinstance(change, ShardingChange)]
    return None if all(map(is_placed_later, own)) else "maybe"


SHAPE_CHANGED = Card(
    components=(Component.SHAPE,),
    avoidable=_shape_avoidable,
    advice=arrays.shape,
)
DTYPE_CHANGED = Card(
    components=(Component.DTYPE,),
    avoidable=perhaps,
    advice=arrays.dtype,
)
WEAK_TYPE_CHANGED = Card(
    components=(Component.WEAK_TYPE,),
    avoidable=_weak_type_avoidable,
    advice=weak.weak_type,
)
SHARDING_CHANGED = Card(
    components=(Component.SHARDING,),
    settled=_placement_settled,
    avoidable=perhaps,
    advice=placements.sharding,
)

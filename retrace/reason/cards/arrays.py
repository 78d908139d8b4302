"""The causes that lie in the arrays that a function is called with."""

from __future__ import annotations

from retrace.model import Component, ShardingChange
from retrace.reason import arrays, weak
from retrace.reason.cards.card import Avoidable, Card, perhaps
from retrace.reason.evidence import Evidence
from retrace.reason.traits import another_model, are_unused, is_placed_later
from retrace.reason.weights import are_multiplied


def _of_shapes(evidence: Evidence) -> Avoidable:
    miss, changes = evidence.miss, evidence.changes
    if are_unused(miss, changes, evidence.program):
        return "yes"
    rightly = another_model(miss, changes) and are_multiplied(miss, changes, evidence.program)
    return "no" if rightly else "maybe"


def _of_weak_types(evidence: Evidence) -> Avoidable:
    return "yes" if weak.keeps_types(evidence.program) else "maybe"


def _of_placement(evidence: Evidence) -> Avoidable | None:
    """Perhaps, since one program for each device may be wanted.

    Not so where the array was uncommitted on the first call: it could have been placed there too.
    """
    own = [change for change in evidence.changes if isinstance(change, ShardingChange)]
    return None if all(map(is_placed_later, own)) else "maybe"


SHAPE_CHANGED = Card(
    components=(Component.SHAPE,),
    avoidable=_of_shapes,
    advice=arrays.shape,
)
DTYPE_CHANGED = Card(
    components=(Component.DTYPE,),
    avoidable=perhaps,
    advice=arrays.dtype,
)
WEAK_TYPE_CHANGED = Card(
    components=(Component.WEAK_TYPE,),
    avoidable=_of_weak_types,
    advice=weak.weak_type,
)
SHARDING_CHANGED = Card(
    components=(Component.SHARDING,),
    settled=_of_placement,
    avoidable=perhaps,
    advice=arrays.sharding,
)

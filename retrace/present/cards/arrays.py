"""Words for the causes that lie in the arrays that a function is called with."""

from __future__ import annotations

from retrace.model import Component
from retrace.present.cards.card import Told, Words
from retrace.present.changes import of_arrays, of_component


def _shape(told: Told) -> str:
    what = of_arrays(told.verdict, Component.SHAPE)
    return f"{told.again} because shapes differ from those of {told.before}: {what}."


def _dtype(told: Told) -> str:
    what = of_arrays(told.verdict, Component.DTYPE)
    return f"{told.again} because dtypes differ from those of {told.before}: {what}."


def _weak_type(told: Told) -> str:
    return (
        f"{told.again} because weak types differ from those of {told.before}: "
        f"{of_arrays(told.verdict, Component.WEAK_TYPE)}. A Python number is weakly typed; an "
        "array with an explicit dtype is not."
    )


def _sharding(told: Told) -> str:
    what = of_component(told.changes, Component.SHARDING) or "the placement differs"
    return f"{told.again} because arrays are placed differently from {told.before}: {what}."


SHAPE_CHANGED = Words(meaning="An array has another shape.", sentence=_shape, because=None)
DTYPE_CHANGED = Words(meaning="An array has another dtype.", sentence=_dtype, because=None)
WEAK_TYPE_CHANGED = Words(
    meaning=(
        "A Python number was passed where an array was passed before, or the other way round."
    ),
    sentence=_weak_type,
    because=None,
)
SHARDING_CHANGED = Words(
    meaning="An array is on another device, or its sharding or committedness differs.",
    sentence=_sharding,
    because=None,
)

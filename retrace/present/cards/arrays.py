"""The wording of causes that lie in a function's arrays."""

from __future__ import annotations

from retrace.model import Component
from retrace.present.cards.card import Case, Words
from retrace.present.changes import of_arrays


def _shape(case: Case) -> str:
    what = of_arrays(case.verdict, Component.SHAPE)
    return f"{case.again} because shapes differ from those of {case.before}: {what}."


def _dtype(case: Case) -> str:
    what = of_arrays(case.verdict, Component.DTYPE)
    return f"{case.again} because dtypes differ from those of {case.before}: {what}."


def _weak_type(case: Case) -> str:
    return (
        f"{case.again} because weak types differ from those of {case.before}: "
        f"{of_arrays(case.verdict, Component.WEAK_TYPE)}. A Python number is weakly typed; an "
        "array with an explicit dtype is not."
    )


def _sharding(case: Case) -> str:
    what = case.own or "the placement differs"
    return f"{case.again} because arrays are placed differently from {case.before}: {what}."


SHAPE_CHANGED = Words(meaning="An array has another shape.", sentence=_shape, because=None)
DTYPE_CHANGED = Words(meaning="An array has another dtype.", sentence=_dtype, because=None)
WEAK_TYPE_CHANGED = Words(
    meaning=(
        "An array is weakly typed, as a Python number is, and was not before, or the other way "
        "round."
    ),
    sentence=_weak_type,
    because=None,
)
SHARDING_CHANGED = Words(
    meaning="An array is on another device, or its sharding or committedness differs.",
    sentence=_sharding,
    because=None,
)

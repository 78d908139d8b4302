"""The numbers that a function was given or reads, under the user's names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from retrace.model import JSON, Miss, Value
from retrace.model.parts import passed
from retrace.regex import regex

_NUMBER = regex(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)", re.IGNORECASE)
_TOLERANCE = 1e-6
"""Relative tolerance: a Python number becomes a float32 in the program."""
_MAX_NAMES = 64
"""Maximum number of names kept for one function."""
_SAME: tuple[Callable[[float], float], ...] = (
    lambda value: value,
    # A step of gradient descent uses the rate with the opposite sign.
    lambda value: -value,
)
_DERIVED: tuple[Callable[[float], float], ...] = (
    # A moving average uses both weights, and softmax divides by its temperature.
    lambda value: 1 - value,
    lambda value: 1 / value if value else math.nan,
)


def number(text: str) -> float | None:
    """The number in a constant such as `0.1` or `0.1:f32[]`; None for anything else."""
    text = text.partition(":")[0]
    return float(text) if _NUMBER.fullmatch(text) else None


def stand_for(numbers: Sequence[str], values: Sequence[float], *, derived: bool = False) -> bool:
    """Whether a constant of several programs follows the value of one name.

    Args:
        numbers: the constant in each program.
        values: the value of the name when each was traced.
        derived: whether `1 - value` and `1 / value` count as well.
    """
    known = [number(text) for text in numbers]
    ways = (*_SAME, *_DERIVED) if derived else _SAME
    return any(
        all(
            one is not None and math.isclose(one, way(value), rel_tol=_TOLERANCE)
            for one, value in zip(known, values, strict=True)
        )
        for way in ways
    )


def texts(value: Value | None) -> dict[str, str]:
    """The texts of a value and of its fields, by the suffix to add to its name."""
    return {} if value is None else {"": value.text, **_fields(value.data)}


def _fields(data: JSON) -> dict[str, str]:
    if not isinstance(data, dict):
        return {}
    return {
        f".{name}": repr(value)
        for name, value in cast(dict[str, Any], data).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def named(miss: Miss) -> dict[str, float]:
    """All numbers that the function of a miss was given or reads, by name."""
    found: dict[str, float] = {}
    for name, value in _values(miss):
        for within, said in (("", _said(value)), *_fields(value.data).items()):
            if len(found) < _MAX_NAMES and (known := number(said)) is not None:
                found.setdefault(f"{name}{within}", known)
    return found


def _said(value: Value) -> str:
    # `np.float32(0.1)` is not written as a number but holds one.
    data = value.data
    is_number = isinstance(data, int | float) and not isinstance(data, bool)
    return repr(data) if is_number else value.text


def _values(miss: Miss) -> Iterator[tuple[str, Value]]:
    key, function = miss.key, miss.function
    yield from passed(key)
    yield from function.closure
    yield from function.bound
    yield from function.defaults
    yield from function.reads
    for node in key.tree:
        for name, value in node.meta:
            yield f"{node.path}.{name}", value

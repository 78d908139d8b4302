"""The numbers that a function was given or reads, by the names that its user gave them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from retrace.model import JSON, Miss, Value

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)", re.IGNORECASE)
_CLOSE = 1e-6
"""Relative: a number of Python's stands in a program as a float32."""
_MAX_NAMES = 64
"""Maximum number of names kept for one function."""
_SAME: tuple[Callable[[float], float], ...] = (
    lambda value: value,
    # A step downhill has the rate with the other sign.
    lambda value: -value,
)
_DERIVED: tuple[Callable[[float], float], ...] = (
    # What an average keeps, and what it takes in; a temperature is divided by.
    lambda value: 1 - value,
    lambda value: 1 / value if value else math.nan,
)


def number(text: str) -> float | None:
    """The number that a constant is: `0.1`, `0.1:f32[]`; None for anything else."""
    text = text.partition(":")[0]
    return float(text) if _NUMBER.fullmatch(text) else None


def stand_for(numbers: Sequence[str], values: Sequence[float], *, derived: bool = False) -> bool:
    """Whether constants of several programs are the values of one name there.

    Args:
        numbers: the constant in each program.
        values: the value of the name at the trace of each.
        derived: whether `1 - value` and `1 / value` count as well.
    """
    known = [number(text) for text in numbers]
    ways = (*_SAME, *_DERIVED) if derived else _SAME
    return any(
        all(
            one is not None and math.isclose(one, way(value), rel_tol=_CLOSE)
            for one, value in zip(known, values, strict=True)
        )
        for way in ways
    )


def texts(value: Value | None) -> dict[str, str]:
    """What a value says, and what its fields do, by what to write behind its name."""
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
    # `np.float32(0.1)` says no number, and has one.
    data = value.data
    is_number = isinstance(data, int | float) and not isinstance(data, bool)
    return repr(data) if is_number else value.text


def _values(miss: Miss) -> Iterator[tuple[str, Value]]:
    key, function = miss.key, miss.function
    yield from key.static
    yield from function.closure
    yield from function.bound
    yield from function.defaults
    yield from function.reads
    for node in key.tree:
        for name, value in node.meta:
            yield f"{node.path}.{name}", value

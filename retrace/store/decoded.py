"""Checks and converts values from a recording's lines; raises TypeError or ValueError."""

from __future__ import annotations

import json
from typing import Any, cast

from retrace.model import Class, Value

NONSENSE = (TypeError, ValueError, LookupError, AttributeError, OverflowError)
"""What decoding raises on a line that is JSON but not valid in a recording."""

_raw_decode = json.JSONDecoder().raw_decode
_SPACE = " \t\r\n"
_MAX_DEPTH = 64
"""Maximum nesting of a value's data."""


def decoded(text: str) -> Any:
    """What `json.loads` returns, in two thirds of the time."""
    text = text.strip(_SPACE)
    found, end = _raw_decode(text)
    if end < len(text):
        raise ValueError("more than one value")
    return found


def value(row: Any) -> Value:
    """Decode a value."""
    type_, shown, token, exact, data, *later = row
    _check_depth(data, _MAX_DEPTH)
    classes = tuple(map(class_, later[0])) if later else ()
    is_leaf = len(later) > 1 and bool(later[1])
    token = text_or_none(token)
    return Value(text(type_), text(shown), token, bool(exact), data, classes, is_leaf)


def class_(row: Any) -> Class:
    """Decode a class of the user."""
    name, index, file, line = row
    return Class(text(name), number(index), text_or_none(file), number_or_none(line))


def text(given: Any) -> str:
    """Check that it is a string."""
    if not isinstance(given, str):
        raise TypeError(f"text expected, not {type(given).__name__}")
    return given


def text_or_none(given: Any) -> str | None:
    """Check that it is a string or None."""
    return None if given is None else text(given)


def texts(given: Any) -> tuple[str, ...]:
    """Check that these are strings."""
    return tuple(map(text, given))


def named_values(rows: Any) -> tuple[tuple[str, Value], ...]:
    """Decode values with their names."""
    return tuple((text(name), value(row)) for name, row in rows)


def number(given: Any) -> int:
    """Check that it is an integer in range."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"a whole number expected, not {type(given).__name__}")
    if not -(1 << 63) <= given < 1 << 63:
        raise ValueError("a number out of range")
    return given


def number_or_none(given: Any) -> int | None:
    """Check that it is an integer in range, or None."""
    return None if given is None else number(given)


def seconds(given: Any) -> float:
    """Check that it is a point in time or a duration."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"seconds expected, not {type(given).__name__}")
    # Excludes NaN and times that cannot be converted to dates.
    if not -6e10 < given < 2.5e11:
        raise ValueError("seconds out of range")
    return float(given)


def _check_depth(data: Any, levels: int) -> None:
    if isinstance(data, list | dict):
        if not levels:
            raise ValueError("nested too deep")
        node = cast(list[Any] | dict[str, Any], data)
        for child in node.values() if isinstance(node, dict) else node:
            _check_depth(child, levels - 1)

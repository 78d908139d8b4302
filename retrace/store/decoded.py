"""What stands in a line of a recording, checked: each raises TypeError or ValueError."""

from __future__ import annotations

from typing import Any, cast

from retrace.model import Class, Value

NONSENSE = (TypeError, ValueError, LookupError, AttributeError, OverflowError)
"""What decoding raises on a line that is JSON and not ours."""

_DEEPEST = 64
"""Levels of nesting that a reader takes in a value's data."""


def value(row: Any) -> Value:
    """A value."""
    type_, shown, token, exact, data, *later = row
    _check_depth(data, _DEEPEST)
    classes = tuple(map(class_, later[0])) if later else ()
    return Value(text(type_), text(shown), text_or_none(token), bool(exact), data, classes)


def class_(row: Any) -> Class:
    """A class of the user's."""
    name, index, file, line = row
    return Class(text(name), number(index), text_or_none(file), number_or_none(line))


def text(given: Any) -> str:
    """A text."""
    if not isinstance(given, str):
        raise TypeError(f"text expected, not {type(given).__name__}")
    return given


def text_or_none(given: Any) -> str | None:
    """A text, or None."""
    return None if given is None else text(given)


def texts(given: Any) -> tuple[str, ...]:
    """Texts."""
    return tuple(map(text, given))


def named_values(rows: Any) -> tuple[tuple[str, Value], ...]:
    """Values, each with its name."""
    return tuple((text(name), value(row)) for name, row in rows)


def number(given: Any) -> int:
    """A whole number."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"a whole number expected, not {type(given).__name__}")
    if not -(1 << 63) <= given < 1 << 63:
        raise ValueError("a number out of range")
    return given


def number_or_none(given: Any) -> int | None:
    """A whole number, or None."""
    return None if given is None else number(given)


def seconds(given: Any) -> float:
    """A time, or a length of time."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"seconds expected, not {type(given).__name__}")
    # Neither NaN nor a time that has no date.
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

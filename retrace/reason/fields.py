"""Changes of a config object, told as changes of its fields."""

from __future__ import annotations

import re
from typing import cast

from retrace.compare.values import differences, places
from retrace.model import JSON, Change, Value, ValueChange
from retrace.reason.evidence import values_of

_UNTOLD = re.compile(
    r"<lambda>| \.\.\.>$|<(?!function |class |built-in |PjitFunction )|^\w+\[[\d,]*\]$",
    re.IGNORECASE,
)
"""What two values may differ in though it is written alike: a lambda made again, a function
that holds more than was taken, an object of which no more than the type is known, an array."""
_FUNCTION = ("<function ", "<bound method ", "<PjitFunction ")


def field_changes(change: Change) -> tuple[ValueChange, ...]:
    """The fields of a value that changed, each as a change with a path of its own.

    Args:
        change: of a static argument, a tree's metadata, or what a function holds.

    Returns:
        `cfg.optim.lr`, `cfg['steps']`; none where the value has no fields, where fields
        came or went, or where more may differ than was recorded.
    """
    old, new = values_of(change)
    if not isinstance(change, ValueChange) or old is None or new is None:
        return ()
    if not (_is_told(old) and _is_told(new)):
        return ()
    found = differences(old, new)
    if any(one.kind != "changed" or not one.path for one in found):
        return ()
    return tuple(
        change._replace(
            path=f"{change.path}{one.path}", old=_side(one.old), new=_side(one.new), exact=True
        )
        for one in found
    )


def held_functions(change: Change) -> list[str | None]:
    """The paths of the functions that a value holds, each equal to itself alone."""
    _, new = values_of(change)
    found = () if new is None else places(new, is_function)
    return [f"{change.path or ''}{path}" for path in found if path]


def is_function(text: object) -> bool:
    """Whether a value was written as a function is: `<function scale at train.py:3>`."""
    return isinstance(text, str) and text.startswith(_FUNCTION)


def _is_told(value: Value) -> bool:
    return value.data is not None and (value.exact or not _is_untold(value.data))


def _is_untold(data: JSON) -> bool:
    if isinstance(data, dict):  # of a function, `$type` is where it was written
        parts = cast(dict[str, JSON], data)
        return any(_is_untold(part) for name, part in parts.items() if name != "$type")
    if isinstance(data, list):
        return any(map(_is_untold, cast(list[JSON], data)))
    return isinstance(data, str) and _UNTOLD.search(data) is not None


def _side(content: JSON) -> Value:
    return Value(_type(content), str(content), None, True, content)


def _type(content: JSON) -> str:
    if content is None:
        return "NoneType"
    if isinstance(content, list):
        return "tuple"
    if isinstance(content, dict):
        return str(cast(dict[str, JSON], content).get("$type", "dict"))
    # A function or class inside a value is written as a text.
    is_named = isinstance(content, str) and content.startswith("<")
    return "object" if is_named else type(content).__name__

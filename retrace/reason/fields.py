"""Changes of a config object, split into changes of its fields."""

from __future__ import annotations

import re
from typing import Any, cast

from retrace.compare.values import Difference, differences, of_array, places
from retrace.model import ENCLOSING, JSON, Change, HeldChange, Key, Node, Value, ValueChange
from retrace.reason.evidence import is_array_type, values_of
from retrace.regex import regex

_INCOMPLETE = regex(
    r"<lambda>| \.\.\.>$|^\w+\[[\d,]*\]$|"
    r"<(?!function |class |built-in |module |object>|PjitFunction )",
    re.IGNORECASE,
)
"""Ways in which values that print alike may still differ: a recreated lambda, a function that
holds more than was recorded, an object of which only the type is known, an array. An `object()`
has no contents."""
_OF_HOST = "['array']"
_FUNCTION = ("<function ", "<bound method ", "<PjitFunction ")


def field_changes(change: Change, *, whole: bool = True) -> tuple[ValueChange, ...]:
    """The changed fields of a value, each as a change with its own path.

    Args:
        change: of a static argument, of tree metadata, or of what a function captures.
        whole: whether nothing else may differ. Otherwise these are the changes that are known.

    Returns:
        `cfg.optim.lr`, `cfg['steps']`. Empty if the value has no fields, if fields were added or
        removed, or if there may be more differences than were recorded.
    """
    old, new = values_of(change)
    if not isinstance(change, ValueChange) or old is None or new is None:
        return ()
    if whole and not (is_complete(old) and is_complete(new)):
        return ()
    found = differences(old, new)
    if any(one.kind != "changed" or not one.path for one in found):
        return ()
    return tuple([_field(change, one, old, new) for one in found])


def with_fields(change: Change) -> tuple[Change, ...]:
    """A change, and those of its fields that are known to differ."""
    return (change, *field_changes(change, whole=False))


def _field(change: ValueChange, found: Difference, old: Value, new: Value) -> ValueChange:
    """The change of one field, with a host array as a whole."""
    path = of_array(found.path, found.old, found.new)
    sides = _side(found.old), _side(found.new)
    if path != found.path:
        sides = _array(old.data, found.place[:-1]), _array(new.data, found.place[:-1])
    return change._replace(path=f"{change.path}{path}", old=sides[0], new=sides[1], exact=True)


def known_fields(change: HeldChange) -> tuple[HeldChange, ...]:
    """The fields of a captured object that are known to differ, arrays as a whole."""
    old, new = change.old, change.new
    if old is None or new is None or is_function(old.text) or "array" in _dict(old.data):
        return ()
    found: dict[str, HeldChange] = {}
    for one in differences(old, new):
        if one.kind != "changed" or not one.path:
            return ()
        path = of_array(one.path, one.old, one.new)
        sides = _side(one.old), _side(one.new)
        if path != one.path:
            sides = _array(old.data, one.place[:-1]), _array(new.data, one.place[:-1])
        a, b = sides
        found[path] = change._replace(path=f"{change.path}{path}", old=a, new=b, is_read=True)
    return tuple(found.values())


def _array(data: JSON, place: tuple[str | int, ...]) -> Value:
    """A host array inside a value."""
    for name in place:
        inner: Any = data
        data = inner[name if isinstance(data, list) else str(name)]
    return Value("numpy.ndarray", str(_dict(data).get("array")), None, False, data)


def _dict(data: JSON) -> dict[str, JSON]:
    return cast(dict[str, JSON], data) if isinstance(data, dict) else {}


def held_functions(change: Change) -> list[str | None]:
    """Paths of the functions inside a value; a function only equals itself."""
    _, new = values_of(change)
    found = () if new is None else places(new, is_function)
    return [f"{change.path or ''}{path}" for path in found if path]


def held_arrays(change: Change) -> tuple[str, ...]:
    """Paths of the arrays inside a value: they have no hash, and `==` of them no truth value."""
    _, new = values_of(change)
    found = () if new is None else places(new, is_array_type)
    return tuple([f"{change.path or ''}{path.removesuffix(_OF_HOST)}" for path in found if path])


def holds_itself(change: Change) -> bool:
    """Whether an object holds itself, as one with a jitted method of its own does."""
    _, new = values_of(change)
    return new is not None and bool(places(new, ENCLOSING.__eq__))


def is_function(text: object) -> bool:
    """Whether the value is printed like a function: `<function scale at train.py:3>`."""
    return isinstance(text, str) and text.startswith(_FUNCTION)


def is_complete(value: Value) -> bool:
    """Whether values of which this was recorded can only differ where it differs."""
    return value.data is not None and (value.exact or not _is_incomplete(value.data))


def _is_incomplete(data: JSON) -> bool:
    if isinstance(data, dict):  # for a function, `$type` is where it is defined
        parts = cast(dict[str, JSON], data)
        if "array" in parts and parts.get("content") is not None:
            return False
        return any(_is_incomplete(part) for name, part in parts.items() if name != "$type")
    if isinstance(data, list):
        return any(map(_is_incomplete, cast(list[JSON], data)))
    return isinstance(data, str) and _INCOMPLETE.search(data) is not None


def _side(content: JSON) -> Value:
    return Value(_type(content), str(content), None, True, content)


def _type(content: JSON) -> str:
    if content is None:
        return "NoneType"
    if isinstance(content, list):
        return "tuple"
    if isinstance(content, dict):
        return str(cast(dict[str, JSON], content).get("$type", "dict"))
    # A function or class inside a value is recorded as text.
    is_named = isinstance(content, str) and content.startswith("<")
    return "object" if is_named else type(content).__name__


_FIELD_NAME = regex(r"\.(\w+)")


def fields_of_function(change: Change) -> tuple[str, ...]:
    """The names of the values that a function holds and that are known to differ."""
    old, new = values_of(change)
    if old is None or new is None:
        return ()
    found = [_FIELD_NAME.match(one.path) for one in differences(old, new)]
    return tuple(dict.fromkeys(one[1] for one in found if one))


def holder(path: str, key: Key) -> Node | None:
    """The container in a call's arguments that has a static field."""
    holders = [one for one in key.tree if path.startswith(one.path)]
    return max(holders, key=lambda one: len(one.path), default=None)


NO_CLASS = ("dict", "frozenset", "function", "list", "tuple")
"""Types whose values in two functions need have nothing to do with each other."""

"""Turns a live value into a `Value`: bounded, without user code, device access or references."""

from __future__ import annotations

import enum
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any, cast

import numpy as np
from jax.tree_util import all_leaves

from retrace.capture.classes import CLASSES
from retrace.capture.named import class_text, is_content, named_text, scalar_base
from retrace.capture.objects import (
    ARRAYS,
    DTYPES,
    array_type,
    content_hash,
    derives,
    dtype_text,
    fields,
    function_text,
    kind_of,
    own,
    text_and_holds,
    tuple_fields,
    type_name,
    wrapper_holds,
)
from retrace.jax_internals.listed import is_listed
from retrace.model import ENCLOSING, JSON, Class, Value

_MAX_TEXT = 200
_MAX_DATA = 2000
_MAX_HELD = 1200
"""Limit for the content held by one function, roughly in characters."""
_MAX_DEPTH = 5
_MAX_CONTENT_DEPTH = 12
"""Deep enough for optax optimizers, which are functions over tuples of functions."""
_MAX_SORTED = 200
_MAX_CLASSES = 8
_MARKS = ("[", "$")
"""How names in `data` begin that are no plain text."""
_CONTAINERS = frozenset((tuple, list, dict, set, frozenset))
_COUNTED = "FlaxId"
"""The class of the `_id` with which flax counts its modules: nothing depends on that."""

_PLAIN = frozenset((int, str, bytes))
_AS_REPR = frozenset((bool, float, complex, type(None), type(...), type(NotImplemented), range))


class _Cut(Exception):
    """The limit was reached before the whole value was written."""


def snapshot(
    value: object, token: Callable[[object], str | None], most: int = _MAX_DATA
) -> Value:
    """Describe a static argument, closure cell, default or option for a record.

    In plain content, tuples and lists become arrays. Named tuples and objects become
    objects, whose entry `$type` names their type if they are inside another value.

    Args:
        value: the live object; no reference to it is kept.
        token: returns its equality token (`Tokens.static`, `Tokens.metadata`).
        most: the limit for its content, roughly in characters.
    """
    kind = kind_of(value)
    if kind is bool or value is None:  # most values that functions hold
        return Value(kind.__name__, repr(value), token(value), True, cast(JSON, value), ())
    text = _Text()
    try:
        text.write(value, 0)
    except _Cut:
        text.whole = False
    printed = "".join(text.parts)
    if len(printed) > _MAX_TEXT:
        printed = printed[: _MAX_TEXT - 3] + "..."
    content = _Content(most)
    try:
        data = content.plain(value, 0)
        exact = content.whole
    except _Cut:
        data = None
        exact = text.whole
    is_leaf = type(data) is dict and kind is not dict and _is_leaf(value, kind)
    again = tuple(content.classes)
    return Value(type_name(kind), printed, token(value), exact, data, again, is_leaf)


def _is_leaf(value: object, kind: type) -> bool:
    return not derives(kind, np.ndarray) and all_leaves((value,))


class _Text:
    """Writes the text of a value up to a limit."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.whole = True
        """Whether the text describes the whole value."""
        self._room = _MAX_TEXT
        self._open: list[int] = []

    def _put(self, text: str) -> None:
        self.parts.append(text)
        self._room -= len(text)
        if self._room < 0:
            raise _Cut

    def write(self, value: Any, depth: int) -> None:
        kind = kind_of(value)
        if kind is FunctionType:
            self.whole = False
            self._put(function_text(value))
        elif is_listed(kind, DTYPES):
            self.whole = False
            self._put(dtype_text(value))
        elif is_listed(kind, ARRAYS) and (array := array_type(value)) is not None:
            self.whole = False
            self._put(array)
        elif is_listed(kind, _AS_REPR):
            self._put(repr(value))
        elif is_listed(kind, _PLAIN):
            self._put(self._scalar(value, kind))
        elif derives(kind, type):
            self.whole = False
            self._put(class_text(value))
        elif not (is_listed(kind, _CONTAINERS) or is_content(kind)) and self._put_plain(
            value, kind
        ):
            pass
        elif depth >= _MAX_DEPTH or (key := id(value)) in self._open:
            self.whole = False
            self._put("...")
        else:
            self._open.append(key)
            self._container(value, kind, depth)
            self._open.pop()

    def _put_plain(self, value: Any, kind: type) -> bool:
        """Write the text of a value that is not a container; False if it is one."""
        if derives(kind, enum.Enum):
            self._put(f"{own(kind, '__name__')}.{(fields(value) or {}).get('_name_')}")
        elif derives(kind, np.generic):
            self._put(f"np.{own(kind, '__name__')}({self._numpy_scalar(value, kind)})")
        elif (base := scalar_base(kind)) is not None:
            text = self._scalar(value, base)
            self._put(text if kind is base else f"{own(kind, '__name__')}({text})")
        elif (named := named_text(value)) is not None:
            self.whole = False
            self._put(named)
        else:
            return False
        return True

    def _numpy_scalar(self, value: Any, kind: type) -> str:
        if derives(kind, np.void, np.object_):
            self.whole = False
            return "..."
        return str(value)[:_MAX_TEXT]

    def _scalar(self, value: Any, base: Any) -> str:
        if base is int:
            # Converting a huge int to decimal takes quadratic time, and Python refuses it.
            return (
                int.__repr__(value)
                if int.bit_length(value) < 600
                else int.__format__(value, "#x")
            )
        if base is not float and base is not complex:
            if base.__len__(value) > _MAX_TEXT:
                self.whole = False
            return base.__repr__(base.__getitem__(value, slice(_MAX_TEXT)))
        return base.__repr__(value)

    def _container(self, value: Any, kind: type, depth: int) -> None:
        if kind is tuple:
            self._sequence("(", value, depth)
            self._put(",)" if tuple.__len__(value) == 1 else ")")
            return
        name = str(own(kind, "__name__"))
        if not is_listed(kind, _CONTAINERS) and (pairs := _pairs(value, kind)) is not None:
            self._put(f"{name}(")
            for number, (field, item) in enumerate(pairs):
                self._put(", " if number else "")
                self._put(f"{field}=" if field else "")
                self.write(item, depth + 1)
            self._put(")")
        elif derives(kind, tuple):
            self._sequence(f"{name}((", _items(value, tuple), depth)
            self._put(",))" if tuple.__len__(value) == 1 else "))")
        elif derives(kind, list):
            self._sequence("[" if kind is list else f"{name}([", _items(value, list), depth)
            self._put("]" if kind is list else "])")
        elif derives(kind, dict):
            self._put("{" if kind is dict else f"{name}({{")
            for number, (key, item) in enumerate(_entries(value)):
                self._put(", " if number else "")
                self.write(key, depth + 1)
                self._put(": ")
                self.write(item, depth + 1)
            self._put("}" if kind is dict else "})")
        elif derives(kind, set, frozenset):
            self._sequence(f"{name}({{", iter(_sorted(value)), depth)
            self._put("})")
        else:
            self.whole = False
            self._put(f"<{type_name(kind)}>")

    def _sequence(self, opening: str, items: Iterable[object], depth: int) -> None:
        self._put(opening)
        for number, item in enumerate(items):
            self._put(", " if number else "")
            self.write(item, depth + 1)


class _Content:
    """Builds the plain content of a value up to a limit."""

    def __init__(self, most: int) -> None:
        self.whole = True
        """Whether the content describes the whole value."""
        self.classes: dict[Class, None] = {}
        """Classes that were redefined, in order of appearance."""
        self._room = most
        self._open: list[int] = []
        """The objects around what is described now, by `id`."""

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise _Cut

    def plain(self, value: Any, depth: int) -> JSON:
        kind = kind_of(value)
        if depth > _MAX_CONTENT_DEPTH:
            raise _Cut
        self._room -= 4  # not by a call: this runs for every function that a function holds
        if self._room < 0:
            raise _Cut
        if kind is FunctionType:
            return self._function(value, depth)
        if kind is bool or value is None:
            return value
        if kind is tuple:
            return [self.plain(item, depth + 1) for item in value]
        if kind is float:
            return value if math.isfinite(value) else repr(value)
        if kind is str:
            self._take(len(value))
            return value
        if kind is int:
            self._take(int.bit_length(value) // 3)
            return value
        if kind is dict:
            return self._mapping(_entries(value), depth)
        if is_listed(kind, _CONTAINERS):
            return self._container(value, kind, depth)
        if is_listed(kind, DTYPES) or (is_listed(kind, ARRAYS) and kind is not np.ndarray):
            return self._text(value)
        if derives(kind, np.number, np.bool):
            number = value.item()
            if kind_of(number) is not kind:  # Python has no number of some precisions
                return self.plain(number, depth)
        self._meet(value if derives(kind, type) else kind)
        return self._other(value, kind, depth)

    def _other(self, value: Any, kind: type, depth: int) -> JSON:
        """The content of anything but numbers, strings and built-in containers."""
        if derives(kind, type):
            return self._text(value)
        if is_content(kind):
            return self._container(value, kind, depth)
        if derives(kind, np.ndarray):
            self.whole = False
            return {"array": array_type(value), "content": content_hash(value)}
        if derives(kind, enum.Enum) or scalar_base(kind) is not None:
            return self._text(value)
        if derives(kind, dict):
            return self._mapping(_entries(value), depth)
        if (named := named_text(value)) is not None:
            held = wrapper_holds(value)
            return self._holding(named, held, depth) if held else self._text(value)
        return self._container(value, kind, depth)

    def _function(self, value: FunctionType, depth: int) -> JSON:
        """Where a function is defined and what it holds, which may be all that changed."""
        return self._holding(*text_and_holds(value), depth)

    def _holding(self, named: str, held: list[tuple[str, object]], depth: int) -> JSON:
        self.whole = False
        self._take(len(named))
        if not held:
            return named
        room, open_ = self._room, len(self._open)
        self._room = min(room, _MAX_HELD)
        try:
            found = {"$type": named, **self._mapping(held, depth)}
        except _Cut:
            self._room = room - len(named)
            del self._open[open_:]
            return f"{named[:-1]} ...>"  # it holds more than fits
        self._room += room - min(room, _MAX_HELD)
        return found

    def _meet(self, kind: type) -> None:
        known = CLASSES.of(kind)
        if known is not None and known.number > 1 and len(self.classes) < _MAX_CLASSES:
            self.classes[known] = None

    def _mapping(self, entries: Iterable[tuple[object, object]], depth: int) -> dict[str, JSON]:
        found: dict[str, JSON] = {}
        for key, item in entries:
            if type(key) is str and key[:1] not in _MARKS:
                name = key
                self._room -= len(name)  # `plain` compares it with zero
            else:
                name = f"[{self._text(key)}]"
                self._take(len(name))
            found[name] = self.plain(item, depth + 1)
        return found

    def _container(self, value: Any, kind: type, depth: int) -> JSON:
        if (pairs := _pairs(value, kind)) is not None:
            if (key := id(value)) in self._open:
                return ENCLOSING
            self._open.append(key)
            found: dict[str, JSON] = {"$type": type_name(kind)} if depth else {}
            for number, (name, item) in enumerate(pairs):
                name = name or f"[{number}]"
                self._take(len(name))
                found[name] = self.plain(item, depth + 1)
            self._open.pop()
            return found
        if derives(kind, tuple):
            return [self.plain(item, depth + 1) for item in _items(value, tuple)]
        if derives(kind, list):
            self.whole = False  # only the text distinguishes it from a tuple
            return [self.plain(item, depth + 1) for item in _items(value, list)]
        if derives(kind, set, frozenset):
            return [self.plain(item, depth + 1) for item in _sorted(value)]
        return self._text(value)

    def _text(self, value: object) -> str:
        text = _Text()
        text.write(value, 1)
        self.whole = self.whole and text.whole
        written = "".join(text.parts)
        self._take(len(written))
        return written


def _entries(value: dict[object, object]) -> Iterable[tuple[object, object]]:
    return dict.items(value)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _items(value: object, base: Any) -> Iterator[object]:
    """The items of a tuple or list, bypassing what a subclass overrides."""
    return base.__iter__(value)


def _pairs(value: Any, kind: type) -> Iterable[tuple[str, object]] | None:
    """The fields of a named tuple, a partial or an object; None if there are none."""
    if derives(kind, functools.partial):
        arguments = [("", item) for item in (value.func, *value.args)]
        return [*arguments, *value.keywords.items()]
    if (names := tuple_fields(kind)) is not None:
        return zip(names, _items(value, tuple), strict=False)
    if derives(kind, tuple, list, dict, set, frozenset):
        return None
    if kind is slice:
        return [("", value.start), ("", value.stop), ("", value.step)]
    found = fields(value)
    if found is not None and own(kind_of(found.get("_id")), "__name__") == _COUNTED:
        del found["_id"]
    return None if found is None else found.items()


def _sorted(value: Iterable[object]) -> list[object]:
    """A set in an order that does not depend on the process's string hashes."""
    texts: list[tuple[str, object]] = []
    base = set if derives(kind_of(value), set) else frozenset
    for item in itertools.islice(_items(value, base), _MAX_SORTED):
        text = _Text()
        try:
            text.write(item, 1)
        except _Cut:
            pass
        texts.append(("".join(text.parts), item))
    return [item for _, item in sorted(texts, key=lambda pair: pair[0])]

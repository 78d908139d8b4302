"""What functions can reach outside themselves, before and after they are traced again.

Their bytecode shows what they write. What the methods of objects in a list write, a decorator, a
hook or a class that counts its instances shows only once it has happened: then it is told, random
number generators are put back, and caches that would keep values of the trace are emptied.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import sys
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from random import Random
from types import BuiltinMethodType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, TypeAlias, cast

import numpy as np

from retrace.auditing.effects import outside_values
from retrace.auditing.iterators import defaults
from retrace.capture.objects import (
    attributes_of,
    defined,
    derives,
    fields,
    kind_of,
    mro_attributes,
    own,
    package,
)
from retrace.capture.place import Owner, owner
from retrace.jax_internals.names_values import TRACER

_MAX_OBJECTS = 2_000
_MAX_ITEMS = 256
"""Maximum number of items that are looked at in one container."""
_MAX_TEXT = 200
_MAX_REFERENTS = 5_000
_INSIDE = ("builtins", "functools")
_SCALARS = frozenset(map(id, (bool, int, float, complex, str, type(None))))
"""By `id`: a metaclass may define how its classes compare."""
_SEQUENCES: tuple[Any, ...] = (list, tuple, deque)
_BYTES: tuple[Any, ...] = (bytearray, array)
_GENERATORS = (Random, np.random.Generator, np.random.RandomState)
_CACHE = type(functools.lru_cache(lambda: None))
_Mark: TypeAlias = tuple[object, object]
"""Stands for a value: a number or text for itself, anything else for the object."""
_State: TypeAlias = dict[str, _Mark]


class ChangedError(Exception):
    """A trace changed something, which the message names."""


class Reach:
    """All that some functions reach, up to a limit, as it is now."""

    def __init__(self, functions: list[tuple[Any, Any]], given: list[tuple[str, Any]]) -> None:
        """Look at what functions reach.

        Args:
            functions: each with the object bound to its first parameter, or None.
            given: static arguments, with their names.
        """
        self.generators: list[Any] = []
        """The random number generators."""
        self._caches: list[tuple[Any, str]] = []
        """The caches of `functools`, with their names."""
        self._missed: dict[int, int] = {}
        """How often each had missed, by `id`."""
        self._empty: set[int] = set()
        """The `id` of each that held nothing."""
        self._filled: dict[str, None] = {}
        self._begun = False
        self._states: list[tuple[str, Any, _State]] = []
        self._seen: dict[int, Any] = {}
        """By `id`; kept alive, so that none is reused."""
        self._waiting: deque[tuple[str, Any]] = deque()
        for function, receiver in functions:
            self._names_in(function, receiver)
        self._waiting.extend(given)
        while self._waiting and len(self._seen) < _MAX_OBJECTS:
            self._visit(*self._waiting.popleft())

    def begin(self) -> None:
        """Begin a trace; raises ChangedError if an earlier one changed something.

        This one would change it once more.
        """
        self.empty_caches()
        caches = {name for _, name in self._caches}  # whose contents are reached by that name
        if self._begun and (changed := [one for one in self._changed() if one not in caches]):
            raise ChangedError(changed[0])
        self._begun = True

    def empty_caches(self) -> None:
        """Take what a trace computed out of the caches of `functools`, properties included.

        A cache that held something before is only emptied of values of the trace itself, since
        it cannot be emptied in part.
        """
        for name, thing, before in self._states:
            for part in _computed(thing):
                if f".{part}" not in before:
                    is_traced = _holds_traced(attributes_of(thing)[part])
                    del attributes_of(thing)[part]
                    if is_traced:
                        self._filled[f"{name}.{part}"] = None
        for cache, name in self._caches:
            if cache.cache_info().misses != self._missed[id(cache)]:
                is_traced, was_empty = _holds_traced(cache), id(cache) in self._empty
                if is_traced or not was_empty:
                    self._filled[name] = None
                if is_traced or was_empty:
                    cache.cache_clear()
                self._missed[id(cache)] = cache.cache_info().misses

    def changed(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """The names of what differs now, after those that are known to; these hold some of it."""
        self.empty_caches()
        found = self._filled | self._changed()
        below = tuple([f"{one}{mark}" for one in known for mark in ".["])
        more = [name for name in found if name not in known and not name.startswith(below)]
        return (*known, *more)

    def _changed(self) -> dict[str, None]:
        """What differs now, besides the contents of caches."""
        found: dict[str, None] = {}
        for name, thing, before in self._states:
            after = _state(thing)
            if len(after) != len(before):
                found[name] = None
            elif after != before:
                found |= dict.fromkeys(
                    name + part for part, mark in after.items() if before.get(part) != mark
                )
        return found

    def _names_in(self, function: FunctionType, receiver: Any = None) -> None:
        for place, value in outside_values(function, receiver):
            self._waiting.append((str(place), value))
        for place, value in defaults(function):
            self._waiting.append((f"{function.__name__}({place})", value))

    def _visit(self, name: str, value: Any) -> None:
        kind = kind_of(value)
        if id(kind) in _SCALARS or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if derives(kind, *_GENERATORS):
            self.generators.append(value)
        elif kind is _CACHE:
            self._caches.append((value, name))
            self._missed[id(value)] = value.cache_info().misses
            if not value.cache_info().currsize:
                self._empty.add(id(value))
            self._visit(name, value.__wrapped__)
            self._waiting.extend((name, inner) for inner in _results(value))
        elif kind is FunctionType:
            if owner(value.__code__.co_filename) is Owner.USER:
                self._names_in(value)
                self._states.append((name, value, _state(value)))
                self._waiting.extend((name + part, inner) for part, inner in _parts(value))
        elif (through := _through(value, kind)) is not None:
            self._waiting.extend((name, inner) for inner in through)
        else:
            self._take(name, value, kind)

    def _take(self, name: str, value: Any, kind: type) -> None:
        is_class = derives(kind, type)
        if is_class:
            self._waiting.extend(
                (str(own(base, "__name__")), base) for base in own(value, "__mro__")[1:-1]
            )
        if _is_users(kind):  # a metaclass, of a class
            self._visit(str(own(kind, "__name__")), kind)
        if is_class and _is_users(value):
            # Python itself calls some: to enter a `with`, to format, to look up what is missing.
            self._waiting.extend((name, method) for method in _methods(value))
        if is_class or derives(kind, dict, *_SEQUENCES, *_BYTES) or _is_users(kind):
            self._states.append((name, value, _state(value)))
            self._waiting.extend((name + part, inner) for part, inner in _parts(value))


def _through(value: Any, kind: type) -> list[Any] | None:
    """What is reached by calling, unwrapping or reading something; None if it is no wrapper."""
    if kind is MethodType:
        return [value.__self__, value.__func__]
    if kind is BuiltinMethodType and type(value.__self__) is not ModuleType:
        return [value.__self__]  # `log.append`
    if kind is functools.partial:
        return [value.func, *value.args, *value.keywords.values()]
    if kind is ContextVar:
        with suppress(LookupError):  # neither set nor with a default
            return [value.get()]
        return []
    if kind is MappingProxyType:
        return gc.get_referents(value)
    if package(kind) == "jaxlib" and (wrapped := getattr(value, "__wrapped__", None)) is not None:
        return [wrapped]  # a jitted function
    return None


def _results(cache: Any) -> list[Any]:
    """The results that a cache of `functools` holds."""
    # With a limit, it holds them in links, which the garbage collector passes through.
    held = gc.get_referents(cache)[:_MAX_ITEMS]
    return held + [item for one in held if type(one) is dict for _, item in _items(one)]


def _state(value: Any) -> _State:
    return {name: _mark(part) for name, part in _parts(value)}


def _mark(value: Any) -> _Mark:
    kind = kind_of(value)
    if id(kind) in _SCALARS and (kind is not str or len(value) <= _MAX_TEXT):
        return kind, repr(value)
    return object, id(value)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The items and attributes of a container or of an object of the user's."""
    kind = kind_of(value)
    if derives(kind, type):
        if _is_users(value):
            held = list(own(value, "__dict__").items())
            yield from ((f".{k}", v) for k, v in held if k[:2] != "__" and not _is_code(v))
        return
    if kind is FunctionType:
        yield from ((f".{key}", item) for key, item in list(attributes_of(value).items()))
        return
    if derives(kind, dict):
        yield from ((f"[{_key(key)}]", item) for key, item in _items(value))
    elif (base := next((one for one in _SEQUENCES if derives(kind, one)), None)) is not None:
        items = list(base.__iter__(value))[:_MAX_ITEMS]
        yield from ((f"[{place}]", item) for place, item in enumerate(items))
    elif derives(kind, *_BYTES):
        yield "", hashlib.sha256(value).hexdigest()
    if _is_users(kind):
        yield from ((f".{key}", item) for key, item in (fields(value) or {}).items())


def _methods(kind: type) -> Iterator[FunctionType]:
    """The functions that a class defines, those of its properties included."""
    for value in list(own(kind, "__dict__").values()):
        of = kind_of(value)
        if derives(of, property):
            held = [value.fget, value.fset, value.fdel]
        elif derives(of, staticmethod, classmethod):
            held = [value.__func__]
        elif of is not FunctionType and defined(of, "__get__") is not None:
            held = list(attributes_of(value).values())  # `cached_property`, `partialmethod`
        else:
            held = [value]
        yield from (one for one in held if type(one) is FunctionType)


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(cast(Any, dict).items(value))[:_MAX_ITEMS]


def _computed(value: Any) -> list[str]:
    """The attributes of an object that are kept values of properties."""
    kind = kind_of(value)
    if derives(kind, type) or not _is_users(kind):
        return []
    classes = mro_attributes(kind)
    return [
        name
        for name in attributes_of(value)
        if any(type(each.get(name)) is functools.cached_property for each in classes)
    ]


def _key(key: Any) -> str:
    return repr(key) if id(kind_of(key)) in _SCALARS else f"<{id(key)}>"


def _is_code(value: Any) -> bool:
    return derives(kind_of(value), FunctionType, staticmethod, classmethod, property)


def _is_users(kind: type) -> bool:
    """Whether the user wrote a class."""
    module = sys.modules.get(str(own(kind, "__module__")))
    file = getattr(module, "__dict__", {}).get("__file__")
    if type(file) is not str:
        return own(kind, "__module__") == "__main__"
    return owner(file) is Owner.USER


def _holds_traced(thing: Any) -> bool:
    """Whether something holds values of a trace, which are of no use outside it."""
    tracer = TRACER.get()
    if tracer is not None and derives(kind_of(thing), tracer):
        return True
    waiting, seen = [thing], set[int]()
    while waiting and tracer is not None and len(seen) < _MAX_REFERENTS:
        for each in gc.get_referents(waiting.pop()):
            if derives(kind := kind_of(each), tracer):
                return True
            if id(each) not in seen and own(kind, "__module__") in _INSIDE:
                seen.add(id(each))
                if not derives(kind, FunctionType, ModuleType, type):
                    waiting.append(each)
    return False

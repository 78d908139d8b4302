"""Definition sites: which function objects are the same function to the user.

A definition site is the place of the `def` or `lambda`, together with the places of the functions
that it closes over or that a callable object holds, two levels deep. So one decorator applied to
two functions gives two functions, and a factory called twice with one function gives one.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, NamedTuple

from retrace.capture.definition import Definitions
from retrace.capture.held import contents, held, is_partial
from retrace.capture.notebook_cells import line_of
from retrace.capture.objects import defined, derives, fields, kind_of, package, type_name
from retrace.capture.place import Owner, call_site, owner
from retrace.capture.tokens import Tokens

_MAX_DEPTH = 2
_MAX_WRAPPERS = 8
_MAX_FIELDS = 32
_MAX_LENGTH = 400
_NUMERIC = ("jax", "jaxlib", "numpy")


class ClosedOver(NamedTuple):
    """The functions that a function closes over."""

    site: str
    """Their part of its definition site; empty if it closes over none."""
    names: tuple[str, ...]
    """Names of the functions in its own cells."""


class Sites:
    """The part of definition sites that does not follow from the code object alone."""

    def __init__(self, tokens: Tokens, definitions: Definitions) -> None:
        self._tokens = tokens
        self._definitions = definitions
        # A cell may hold another function later, but the function object stays the same.
        self._around: dict[int, ClosedOver] = {}
        self._jit_lines: dict[int, str] = {}
        tokens.tables += [self._around, self._jit_lines]

    def around(self, function: FunctionType) -> ClosedOver:
        """The functions that `function` closed over when it was first seen."""
        if not function.__closure__:
            return _NOTHING
        number = self._tokens.number(function) or 0
        found = self._around.get(number)
        if found is None:
            found = self._around[number] = _described(self._inside(function, _MAX_DEPTH))
        return found

    def within(self, receiver: Any) -> ClosedOver:
        """The user's functions that a callable instance held when it was first seen.

        A decorator may be a class; applied to two functions it gives two functions.
        """
        number = self._tokens.number(receiver)
        found = None if number is None else self._around.get(number)
        if found is None:
            found = _described(self._held(receiver, _MAX_DEPTH))
            if number is not None:
                self._around[number] = found
        return found

    def called_at(self, number: int) -> str:
        """The line that called `jit` on a function object, or `?` if it was not seen."""
        return self._jit_lines.get(number, "?")

    def jitted(self, function: Any, base: FunctionType | None, frame: FrameType) -> None:
        """Remember the line that called `jit`, for a closure made by a library."""
        if base is None or not base.__closure__:
            return
        if owner(base.__code__.co_filename) is Owner.LIBRARY:
            site = call_site(frame)
            number = self._tokens.number(function)
            if site is not None and number is not None:
                self._jit_lines[number] = line_of(site)

    def _inside(self, function: FunctionType, depth: int) -> list[tuple[str, str]]:
        """Sites and names of what a function closes over."""
        held = [one for content in contents(function) for one in _callables(content)]
        return [found for one in held if (found := self._of(one, depth - 1))[0]]

    def _held(self, receiver: Any, depth: int) -> list[tuple[str, str]]:
        """Sites and names of the user's functions among the attributes of an object."""
        values = islice((fields(receiver) or {}).values(), _MAX_FIELDS)
        held = [one for value in values for one in _members(value)]
        asked = [one for one in held if _is_users(one) or (depth > 1 and _is_instance(one))]
        return [found for one in asked if (found := self._of(one, depth - 1))[0]]

    def _of(self, thing: Any, depth: int) -> tuple[str, str]:
        """The site and the name of an object in a cell; empty if it is not a function."""
        receiver, kind = "", kind_of(thing)
        for _ in range(_MAX_WRAPPERS):
            kind = kind_of(thing)
            if kind is FunctionType:
                if "__wrapped__" in thing.__dict__:
                    thing = thing.__dict__["__wrapped__"]
                    continue
                site = self._definitions.site_of(thing.__code__) + receiver
                if depth:
                    inner = "; ".join([site for site, _ in self._inside(thing, depth)])
                    site += f" [{inner}]" if inner else ""
                return site, thing.__name__
            if kind is MethodType:
                receiver = f" of {type_name(kind_of(thing.__self__))}"
                thing = thing.__func__
            elif kind is BuiltinFunctionType:
                if kind_of(thing.__self__) not in (ModuleType, NoneType):
                    break
                return f"{thing.__module__}.{thing.__qualname__}", thing.__name__
            elif (inner := _wrapped(thing)) is not None:
                thing = inner
            else:
                break
        if package(kind) in _NUMERIC and not derives(kind, type):
            name = getattr(thing, "__name__", None)  # `jnp.add`, `np.add`
            if type(name) is str:
                return f"{package(kind)}.{name}", name
        elif depth and _is_instance(thing) and (inside := self._held(thing, depth)):
            return f"{type_name(kind)} [{'; '.join([site for site, _ in inside])}]", inside[0][1]
        return "", ""


def _described(held: list[tuple[str, str]]) -> ClosedOver:
    """Join sites and names into a part of a definition site."""
    text = "; ".join([site for site, _ in held])
    if len(text) > _MAX_LENGTH:
        digest = blake2b(text.encode(), digest_size=8).hexdigest()
        text = f"{len(held)} functions {digest}"
    return ClosedOver(text, tuple(dict.fromkeys([name for _, name in held])))


def _members(value: Any) -> Iterator[Any]:
    """The functions in an attribute, also inside a partial or a tuple."""
    if derives(kind_of(value), tuple):
        for one in islice(tuple.__iter__(value), _MAX_FIELDS):
            yield from _callables(one)
    else:
        yield from _callables(value)


def _is_instance(thing: Any) -> bool:
    """Whether it is an instance of a user class with `__call__`."""
    call = defined(kind_of(thing), "__call__")
    return type(call) is FunctionType and owner(call.__code__.co_filename) is Owner.USER


def _is_users(thing: Any) -> bool:
    """Whether it is a function that the user wrote, after removing wrappers."""
    for _ in range(_MAX_WRAPPERS):
        kind = kind_of(thing)
        if kind is MethodType:
            thing = thing.__func__
        elif kind is FunctionType and "__wrapped__" in thing.__dict__:
            thing = thing.__dict__["__wrapped__"]
        elif kind is FunctionType:
            return owner(thing.__code__.co_filename) is Owner.USER
        elif (thing := _wrapped(thing)) is None:
            break
    return False


def _callables(content: Any) -> Iterator[Any]:
    """The function in a cell, or those bound in a partial there."""
    if is_partial(content):
        for one in (content.func, *content.args, *content.keywords.values()):
            if is_partial(one):
                yield from _callables(one)
            elif callable(one):
                yield one
    elif callable(content):
        yield content


def _wrapped(thing: Any) -> Any:
    """The function inside a wrapper made by JAX, functools, Equinox or Flax."""
    if (inner := held(thing)) is not None:
        return inner
    if package(kind_of(thing)) in ("functools", "equinox", "flax"):
        inner = getattr(thing, "__wrapped__", None)
        return inner if callable(inner) else None
    return None


_NOTHING = ClosedOver("", ())

"""Definition sites: what makes several function objects one function to the user.

It is the place of the `def` or `lambda`, and the places of the functions that it closes
over, two levels deep: what one decorator makes of two functions is two functions, and
what a factory makes of one function twice is one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from hashlib import blake2b
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, NamedTuple

from retrace.capture.cell import line_of
from retrace.capture.definition import Definitions
from retrace.capture.held import contents, held
from retrace.capture.objects import derives, kind_of, package, type_name
from retrace.capture.place import Owner, call_site, owner
from retrace.capture.tokens import Tokens

_DEEPEST = 2
_MOST_WRAPPERS = 8
_LONGEST = 400
_NUMERIC = ("jax", "jaxlib", "numpy")


class Around(NamedTuple):
    """The functions that a function closes over."""

    site: str
    """Their part of its definition site; empty where it closes over none."""
    names: tuple[str, ...]
    """Of those that stand in its own cells."""


class Sites:
    """The part of definition sites that the code object alone does not tell."""

    def __init__(self, tokens: Tokens, definitions: Definitions) -> None:
        self._tokens = tokens
        self._definitions = definitions
        # A cell may hold another function later; the function object is the same all the same.
        self._around: dict[int, Around] = {}
        self._jit_lines: dict[int, str] = {}
        tokens.tables += [self._around, self._jit_lines]

    def around(self, function: FunctionType) -> Around:
        """The functions that `function` held when it was first asked about."""
        if not function.__closure__:
            return _NOTHING
        number = self._tokens.number(function) or 0
        found = self._around.get(number)
        if found is None:
            sites, names = self._inside(function, _DEEPEST)
            text = "; ".join(sites)
            if len(text) > _LONGEST:
                digest = blake2b(text.encode(), digest_size=8).hexdigest()
                text = f"{len(sites)} functions {digest}"
            found = self._around[number] = Around(text, tuple(dict.fromkeys(names)))
        return found

    def called_at(self, number: int) -> str:
        """The line that called `jit` on a function object, where that was seen."""
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

    def _inside(self, function: FunctionType, depth: int) -> tuple[list[str], list[str]]:
        sites: list[str] = []
        names: list[str] = []
        for content in contents(function):
            for one in _callables(content):
                site, name = self._of(one, depth - 1)
                if site:
                    sites.append(site)
                    names.append(name)
        return sites, names

    def _of(self, thing: Any, depth: int) -> tuple[str, str]:
        """The site and the name of something in a cell; empty where it is no function."""
        receiver, kind = "", kind_of(thing)
        for _ in range(_MOST_WRAPPERS):
            kind = kind_of(thing)
            if kind is FunctionType:
                if "__wrapped__" in thing.__dict__:
                    thing = thing.__dict__["__wrapped__"]
                    continue
                site = self._definitions.site_of(thing.__code__) + receiver
                if depth:
                    inner, _ = self._inside(thing, depth)
                    site += f" [{'; '.join(inner)}]" if inner else ""
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
        return "", ""


def _callables(content: Any) -> Iterator[Any]:
    """A function that stands in a cell, and those that are bound in a partial there."""
    if derives(kind_of(content), functools.partial):
        for one in (content.func, *content.args, *content.keywords.values()):
            if derives(kind_of(one), functools.partial):
                yield from _callables(one)
            elif callable(one):
                yield one
    elif callable(content):
        yield content


def _wrapped(thing: Any) -> Any:
    """What an object that JAX, functools or Equinox made around a function wraps."""
    if (inner := held(thing)) is not None:
        return inner
    if package(kind_of(thing)) in ("functools", "equinox", "flax"):
        inner = getattr(thing, "__wrapped__", None)
        return inner if callable(inner) else None
    return None


_NOTHING = Around("", ())

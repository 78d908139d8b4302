"""Takes a function object apart: partials, methods, wrappers and transforms around the user's."""

from __future__ import annotations

import functools
from types import CodeType, FunctionType, MethodType
from typing import Any

from retrace.capture.held import held, is_partial
from retrace.capture.place import Owner, owner
from retrace.capture.wrappers import (
    bound,
    decorator,
    first_bound,
    transform_name,
    users_argument,
    users_function,
)
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.linear import made
from retrace.jax_internals.pmap import mapped
from retrace.model import Kind

_MAX_WRAPPERS = 32
_MAX_SEARCH_DEPTH = 4
_USER, _JAX = Owner.USER, Owner.JAX
_JITTED = {"pjitfunction": "jit", "pmapfunction": "pmap"}
"""The lowercase names of the classes whose objects `jit` and `pmap` return."""


class Unwrapped:
    """A function object taken apart, down to the user's own function."""

    def __init__(self) -> None:
        self.kind: Kind | None = None
        self.wrappers: list[str] = []
        self.decorators: list[str] = []
        self.layers: list[FunctionType] = []
        """The user-defined wrappers that the decorators returned, which may hold state."""
        self.bound: list[tuple[str, Any]] = []
        self.receiver: Any = None
        self.has_receiver = False
        self.base: FunctionType | None = None
        self.transforms: list[FunctionType] = []
        """What JAX's transforms returned, outermost first."""
        self.maker: FunctionType | None = None
        """The installed package's outermost function that holds the user's."""

    @property
    def receivers(self) -> tuple[Any, ...]:
        """The object that is its first parameter, if that is known."""
        if self.has_receiver:
            return (self.receiver,)
        return first_bound(self.base, self.bound) if self.bound and self.base else ()

    def through(self, kind: Kind | None, wrapper: str, outer: Any = None) -> None:
        # The outermost wrapper is what a new call recreates, so it determines the kind.
        if self.kind is None:
            self.kind = kind
        if kind is None and self.maker is None:
            self.maker = outer
        if kind is Kind.TRANSFORM and type(outer) is FunctionType:
            self.transforms.append(outer)
        self.wrappers.append(wrapper)


def unwrap(function: Any) -> Unwrapped:
    """Unwrap partials, methods, wrappers and transforms down to the user's function."""
    found = Unwrapped()
    if type(function) is FunctionType and not (function.__closure__ or function.__dict__):
        found.base = function  # it cannot wrap anything
    else:
        _look_through(function, found)
    return found


def _look_through(function: Any, found: Unwrapped) -> None:
    current: Any = function
    for _ in range(_MAX_WRAPPERS):
        if is_partial(current):
            python = isinstance(current, functools.partial)
            found.through(Kind.PARTIAL, "functools.partial" if python else "equinox.Partial")
            user = users_argument(current)
            if user is None:
                found.bound += bound(current)
            current = current.func if user is None else user
        elif isinstance(current, MethodType) and (inner := held(current.__self__)) is not None:
            found.through(Kind.TRANSFORM, "pmap")
            current = inner
        elif isinstance(current, MethodType):
            if not found.has_receiver:
                found.receiver, found.has_receiver = current.__self__, True
            found.through(Kind.METHOD, "method")
            current = current.__func__
        elif (inner := _inner(current)) is not None:
            outer, (kind, wrapper, current) = current, inner
            if wrapper:
                found.through(kind, wrapper, outer)
            elif made := decorator(outer):
                found.decorators.append(made)
                if type(outer) is FunctionType and owner(outer.__code__.co_filename) is _USER:
                    found.layers.append(outer)
        elif isinstance(current, FunctionType):
            found.base = current
            break
        elif (inner := held(current)) is not None:
            found.through(Kind.TRANSFORM, type(current).__name__)
            current = inner
        else:
            method = getattr(type(current), "__call__", None)  # noqa: B004 - what is called
            if not isinstance(method, FunctionType) and not hasattr(method, "__wrapped__"):
                break
            found.receiver, found.has_receiver = current, True
            found.through(Kind.CALLABLE, "callable")
            current = method


def _inner(current: Any) -> tuple[Kind | None, str, Any] | None:
    """Remove one layer: the kind and name of the wrapper, and the object it wraps."""
    if (inner := mapped(current)) is not None:
        return Kind.TRANSFORM, "pmap", inner
    wrapped = getattr(current, "__wrapped__", None)
    code = getattr(current, "__code__", None)
    file = code.co_filename if isinstance(code, CodeType) else None
    if callable(wrapped):
        if file is None:
            of_jax = type(current).__module__.partition(".")[0] in ("jax", "jaxlib")
            name = type(current).__name__.lower()
            name = _JITTED.get(name, name)
            return (Kind.TRANSFORM, name, wrapped) if of_jax else (None, "", wrapped)
        if owner(file) is _JAX:
            name = transform_name(current, wrapped)
            return (Kind.TRANSFORM if name else None, name, wrapped)
        return None, "", wrapped
    if isinstance(current, FunctionType) and current.__closure__ and file is not None:
        match owner(file):
            case Owner.JAX:
                if (user := users_function(current, _MAX_SEARCH_DEPTH)) is not None:
                    return Kind.TRANSFORM, current.__qualname__.split(".")[0], user
            case Owner.LIBRARY:
                if (user := users_function(current, _MAX_SEARCH_DEPTH)) is not None:
                    return None, current.__qualname__, user
            case _:
                pass
    return None


def is_internal(function: Any, found: Unwrapped | None = None) -> bool:
    """Whether a function is defined inside the jax package, not derived from a user function."""
    if type(function) is FunctionType and "__wrapped__" not in function.__dict__:
        if owner(function.__code__.co_filename) is not _JAX:
            return False
        if not function.__closure__ or at.PRIMITIVE.of(function, False):
            return True
    elif made(function) is not None:
        return False
    found = found or unwrap(function)
    return found.base is None or owner(found.base.__code__.co_filename) is _JAX

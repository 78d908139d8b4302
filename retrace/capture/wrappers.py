"""Looks through wrappers of the user's function: JAX transforms, library closures, decorators."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

from retrace.capture.held import contents, held, is_partial
from retrace.capture.objects import ARRAYS, array_type, attributes_of, kind_of
from retrace.capture.place import Owner, owner
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.listed import is_listed

_MAX_WRAPPERS = 32
_HOLD_NONE = frozenset((type(None), bool, int, float, str, tuple, list, dict))
"""Classes of objects that are no function and wrap none."""


def decorator(wrapper: Any) -> str:
    """Name of the decorator that made a wrapper around another function; empty if none did."""
    code = getattr(wrapper, "__code__", None)
    if not isinstance(code, CodeType) or owner(code.co_filename) is Owner.JAX:
        return ""
    made, _, name = code.co_qualname.rpartition(".<locals>.")
    return (made or name).rpartition(".<locals>.")[2]


def transform_name(wrapper: Any, wrapped: Any) -> str:
    """Name of the transform that made a JAX wrapper; empty for the boundary around JAX's API."""
    code: CodeType = wrapper.__code__
    name = code.co_qualname.split(".")[0]
    if name != at.API_BOUNDARY.where.rpartition(".")[2]:
        return name
    if at.BOUNDARY_FUN.name not in code.co_freevars:
        return ""
    # The boundary shortens tracebacks around everything JAX exports, including transforms.
    cell = wrapper.__closure__[code.co_freevars.index(at.BOUNDARY_FUN.name)]
    inner = cell.cell_contents
    return "" if inner is wrapped else inner.__qualname__.split(".")[0]


def users_argument(partial: functools.partial[Any]) -> Any:
    """The user's function that a partial binds to a library's function, or None."""
    function = unwrap_plain(partial.func)
    if function is None or owner(function.__code__.co_filename) is not Owner.LIBRARY:
        return None
    for content in partial.args:
        base = unwrap_plain(content)
        if base is not None and owner(base.__code__.co_filename) is Owner.USER:
            return content
    return None


def users_function(function: FunctionType, depth: int) -> Any:
    """The user's function that a library's closure closes over, or None."""
    for content in contents(function):
        kind = kind_of(content)
        if is_listed(kind, _HOLD_NONE) or is_listed(kind, ARRAYS):
            continue
        if kind is not FunctionType:
            if is_partial(content):
                content = content.func
            content = held(content) or content
        base = unwrap_plain(content)
        if base is None:
            continue
        match owner(base.__code__.co_filename):
            case Owner.USER:
                return content
            case Owner.LIBRARY | Owner.JAX if depth > 1 and base.__closure__:
                if (found := users_function(base, depth - 1)) is not None:
                    return found
            case _:
                pass
    return None


def unwrap_plain(content: Any) -> FunctionType | None:
    """The plain function behind methods and `functools.wraps`, or None."""
    for _ in range(_MAX_WRAPPERS):
        if isinstance(content, MethodType):
            content = content.__func__
        elif isinstance(content, FunctionType) and "__wrapped__" not in content.__dict__:
            return content
        elif isinstance(content, FunctionType):
            content = content.__dict__["__wrapped__"]
        else:
            return None
    return None


def bound(partial: functools.partial[Any]) -> Iterator[tuple[str, Any]]:
    """The arguments that a partial binds, by the names of the parameters if they are known."""
    inner = unwrap_plain(partial.func) or getattr(partial.func, "__wrapped__", None)
    code = getattr(inner, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if isinstance(code, CodeType) else ()
    if isinstance(partial.func, MethodType) or isinstance(inner, MethodType):
        names = names[1:]
    for index, value in enumerate(partial.args):
        yield (names[index] if index < len(names) else f"args[{index}]"), value
    yield from partial.keywords.items()


def first_bound(base: FunctionType, found: Sequence[tuple[str, Any]]) -> tuple[Any, ...]:
    """The object that a partial binds to the first parameter, which makes a function a method.

    Args:
        base: the user's own function.
        found: the arguments that its partials bind, by parameter (`bound`).
    """
    code = base.__code__
    if not found or not code.co_argcount or found[0][0] != code.co_varnames[0]:
        return ()
    value = found[0][1]
    return (value,) if attributes_of(value) and array_type(value) is None else ()


def jax_name_of(function: Any) -> str:
    """JAX's name for a function."""
    if isinstance(function, functools.partial):
        return jax_name_of(function.func)
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else "<unnamed function>"

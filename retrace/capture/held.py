"""What functions hold in their closures, and the function inside a JAX object."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FunctionType
from typing import Any, cast

from retrace.capture.objects import derives, kind_of, package
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.names_values import CUSTOM, WRAPPED

_MAX_CELLS = 32


def cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables that a function closes over, with their current values."""
    held = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars[:_MAX_CELLS], held, strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not assigned yet


def all_cells(base: FunctionType, layers: Iterable[FunctionType]) -> dict[str, Any]:
    """The same, with those of the wrappers that decorators put around a function."""
    found = dict(cells(base))
    for layer in layers:
        for name, content in cells(layer):
            # The wrapped function has already been unwrapped.
            if name not in found and content is not layer.__dict__.get("__wrapped__"):
                found[name] = content
    return found


def defaults(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The parameters of a function that have a default, with it."""
    if given := function.__defaults__:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount][-len(given) :]
        yield from zip(names, given, strict=False)
    if named := function.__kwdefaults__:
        yield from named.items()


def contents(function: FunctionType) -> Iterator[Any]:
    """The values that a function closes over, with tuples split into their members."""
    for _, content in cells(function):
        # Tuples of functions, for example an optimizer or a transformed model.
        if derives(kind_of(content), tuple):
            yield from islice(tuple.__iter__(cast(tuple[Any, ...], content)), _MAX_CELLS)
        else:
            yield content


def is_partial(thing: Any) -> bool:
    """Whether it is a partial, of Python's or of Equinox's, which have the same attributes.

    Equinox returns one too for a method of a module that was jitted in its class.
    """
    kind = kind_of(thing)
    if derives(kind, functools.partial):
        return True
    return kind.__name__ == "Partial" and package(kind) == "equinox"


def held(thing: Any) -> Any:
    """The function that a JAX object wraps, or None."""
    kind = kind_of(thing)
    if package(kind) not in ("jax", "jaxlib") or derives(kind, functools.partial):
        return None
    for name in ("__wrapped__", WRAPPED.name, CUSTOM.name, at.JITTED_FUN.name):
        inner = getattr(thing, name, None)
        if callable(inner):
            return inner
    return None

"""What functions hold in their closures, and the function that an object is made around."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice
from types import FunctionType
from typing import Any, cast

from retrace.capture.objects import derives, kind_of, package
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.names_values import CUSTOM, WRAPPED

_MOST_CELLS = 32


def cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables that a function closes over, and what they hold now."""
    held = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars[:_MOST_CELLS], held, strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not assigned yet


def contents(function: FunctionType) -> Iterator[Any]:
    """What a function closes over, the members of tuples one by one."""
    for _, content in cells(function):
        # Pairs of functions, such as an optimizer or a transformed model.
        if derives(kind_of(content), tuple):
            yield from islice(tuple.__iter__(cast(tuple[Any, ...], content)), _MOST_CELLS)
        else:
            yield content


def held(thing: Any) -> Any:
    """The function that one of JAX's own objects around functions holds, or None."""
    kind = kind_of(thing)
    if package(kind) not in ("jax", "jaxlib") or derives(kind, functools.partial):
        return None
    for name in ("__wrapped__", WRAPPED.name, CUSTOM.name, at.JITTED_FUN.name):
        inner = getattr(thing, name, None)
        if callable(inner):
            return inner
    return None

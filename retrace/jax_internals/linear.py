"""Functions that JAX creates from a trace: a pullback, a linearized or transposed function.

They hold a program but no user function. The program knows which function it was traced
from, and that is the one that the user has in mind.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any, NamedTuple, cast

import jax

from retrace.jax_internals.names_values import (
    CLOSED,
    DEBUG_INFO,
    HOLDS_PROGRAM,
    JAXPR,
    MAKERS,
    SHIM,
    SOURCE_OF_PROGRAM,
    VJP,
)
from retrace.jax_internals.row import code_of

_MAX_DEPTH = 5
_MAX_PARTS = 32


class Made(NamedTuple):
    """A function that JAX created from a trace."""

    by: str
    """The public name of the transform."""
    source: str | None
    """The function it was traced from: "step at train.py:41"; None if JAX did not keep it."""


def made(thing: Any) -> Made | None:
    """How JAX created a function from a trace; None for any other function."""
    # Many of JAX's internal partials and closures hold programs; only these two classes are
    # returned to the user.
    if type(thing) is jax.tree_util.Partial:
        function: Any = thing
        for _ in range(_MAX_DEPTH):
            function = getattr(
                function, "func", function
            )  # JAX also wraps its own functions in one
        code = code_of(function)
        for name, row in MAKERS.items():
            if code is not None and code is row.get():
                return Made(name, _source(thing, _MAX_DEPTH))
    elif type(thing) is VJP.get():
        return Made("vjp", _source(thing, _MAX_DEPTH))
    return None


def _source(thing: Any, depth: int) -> str | None:
    if isinstance(thing, tuple([kind for row in (JAXPR, CLOSED) if (kind := row.get())])):
        source = SOURCE_OF_PROGRAM.of(DEBUG_INFO.of(getattr(thing, "jaxpr", thing)))
        return source if isinstance(source, str) else None
    if not depth:
        return None
    inside: tuple[Any, ...] = ()
    if isinstance(thing, functools.partial):
        inside = (SHIM.of(thing.func, thing.func), *thing.args)
    elif type(thing) is tuple:
        inside = cast(tuple[Any, ...], thing)
    elif isinstance(thing, FunctionType):
        inside = tuple(cell.cell_contents for cell in thing.__closure__ or ())
    elif type(thing) is VJP.get():
        inside = (HOLDS_PROGRAM.of(thing),)
    for one in inside[:_MAX_PARTS]:
        if (found := _source(one, depth - 1)) is not None:
            return found
    return None

"""Functions that JAX has made of a trace: a pullback, a linearized or transposed function.

They hold a program and no function of the user's. The program knows which one it was
traced from, and that is the function that the user means by them.
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

_DEEPEST = 5
_MAX_PARTS = 32


class Made(NamedTuple):
    """What JAX has made of a trace."""

    by: str
    """The public name of the transform."""
    source: str | None
    """What it was traced from: "step at train.py:41"; None where JAX did not keep it."""


def made(thing: Any) -> Made | None:
    """What a function of JAX's was made of; None of all others."""
    # Of JAX's own partials and closures many hold programs; these two classes are what it
    # hands to the user.
    if type(thing) is jax.tree_util.Partial:
        function: Any = thing
        for _ in range(_DEEPEST):
            function = getattr(function, "func", function)  # JAX has one around its own as well
        code = code_of(function)
        for name, row in MAKERS.items():
            if code is not None and code is row.get():
                return Made(name, _source(thing, _DEEPEST))
    elif type(thing) is VJP.get():
        return Made("vjp", _source(thing, _DEEPEST))
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

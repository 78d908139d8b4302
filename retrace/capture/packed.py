"""Wrappers that pack the user's arguments before they call `jax.jit`.

`equinox.filter_jit` splits them into arrays and the rest, and jits one function
of its own for all. What the user called stands in a frame of the wrapper's.
`flax.linen.jit` puts the module and its variables before the user's arguments.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from retrace.jax_internals.calls import Call

_NEAR = 4
"""The wrapper's frame is so few frames outside JAX's at most."""


class Packed(NamedTuple):
    """A call as the user made it, before a wrapper packed its arguments."""

    function: Any
    signature: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_array: Callable[[Any], bool] | None
    """The wrapper's test of what stays a dynamic argument; None where `jit` decides."""


def unpack(call: Call) -> Packed | None:
    """The user's own call, where a wrapper is known to have packed it."""
    if (found := _linen(call)) is not None:
        return found
    equinox = sys.modules.get("equinox")
    if equinox is None:
        return None
    frame: FrameType | None = call.frame.f_back
    for _ in range(_NEAR):
        if frame is None:
            return None
        if frame.f_code.co_name == "_call" and frame.f_globals.get("__name__") == "equinox._jit":
            return _equinox(frame, equinox)
        frame = frame.f_back
    return None


def _equinox(frame: FrameType, equinox: Any) -> Packed | None:
    local = frame.f_locals
    wrapper = local["jit_wrapper"]
    signature = wrapper._signature  # noqa: SLF001 - what it binds its arguments with
    # Equinox binds first: positional or by keyword is the same to it.
    bound = signature.bind(*local["args"], **local["kwargs"])
    return Packed(wrapper.__wrapped__, signature, bound.args, bound.kwargs, equinox.is_array)


def _linen(call: Call) -> Packed | None:
    function = call.function
    if (
        type(function) is not FunctionType
        or function.__code__.co_qualname != "jit.<locals>.jitted"
        or function.__globals__.get("__name__") != "flax.core.lift"
    ):
        return None
    own = list(call.info.fun_signature.parameters.values())
    given = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
        for name in ("self", "variables", "rngs")
    ]
    # The module itself goes in as a fingerprint, with what may be changed in it.
    own = [p for p in own[1:] if p.name not in ("variables", "rngs")]
    return Packed(function, inspect.Signature([*given, *own]), call.args, call.kwargs, None)

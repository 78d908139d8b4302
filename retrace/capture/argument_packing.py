"""Wrappers that pack the user's arguments before they call `jax.jit`.

`equinox.filter_jit` splits them into arrays and everything else, and jits one internal
function for all calls; the user's own call is found in a frame of the wrapper.
`flax.linen.jit` puts the module and its variables before the user's arguments.
`jax.pmap` flattens them.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from retrace.capture.objects import fields
from retrace.capture.snapshot import snapshot
from retrace.capture.unwrapped import unwrap
from retrace.jax_internals.calls import Call
from retrace.jax_internals.names_values import SIGNATURE
from retrace.jax_internals.pmap import mapped, pmapped
from retrace.model import Kind

_BITS = (1 << 64) - 1
_MAX_FRAMES = 4
"""How many frames outside JAX are searched for that of the wrapper."""
_MAX_FRAMES_PMAP = 8
"""The same, with `pmap` in between."""
_EQUINOX_PMAP = "equinox._vmap_pmap"
_BOUND = (Kind.CALLABLE, Kind.METHOD)
"""What a module is, and a method of one."""
_POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY


class Packed(NamedTuple):
    """A call as the user made it, before a wrapper packed its arguments."""

    function: Any
    signature: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_array: Callable[[Any], bool] | None
    """The wrapper's test for dynamic arguments; None if `jit` decides."""
    receiver: str | None = None
    """Describes what the first argument represents, if the argument itself cannot be read."""
    info: Any = None
    """The wrapper's own options, if it derives those of `jit` from them."""
    options: tuple[tuple[str, Any], ...] = ()
    """Options that `jit` does not have."""
    kept: Any = None
    """What the user keeps, if it creates the function again at each call."""
    binds_first: bool = False
    """Whether the first argument is the object that the function is bound to."""


def unpack(call: Call) -> Packed | None:
    """The call as the user made it, if a known wrapper packed its arguments."""
    if "flax" in sys.modules and (found := _linen(call)) is not None:
        return found
    equinox = sys.modules.get("equinox")
    if equinox is not None and (found := _equinox_pmap(call, equinox)) is not None:
        return found
    if (found := _pmap(call)) is not None or equinox is None:
        return found
    frame: FrameType | None = call.frame.f_back
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return None
        if frame.f_code.co_name == "_call" and frame.f_globals.get("__name__") == "equinox._jit":
            return _equinox(frame, equinox)
        frame = frame.f_back
    return None


def _equinox(frame: FrameType, equinox: Any) -> Packed | None:
    local = frame.f_locals
    wrapper = local["jit_wrapper"]
    signature = wrapper._signature  # noqa: SLF001 - it binds its arguments with this
    # Equinox binds first: positional and keyword arguments are the same to it.
    bound = signature.bind(*local["args"], **local["kwargs"])
    function, args, is_array = wrapper.__wrapped__, bound.args, equinox.is_array
    if not isinstance(function, equinox.Module):
        return Packed(function, signature, args, bound.kwargs, is_array)
    found = unwrap(function)
    if found.base is None or found.kind not in _BOUND or not found.base.__code__.co_argcount:
        # It holds modules in pieces, the arrays apart from everything else.
        return Packed(function, signature, args, bound.kwargs, is_array, kept=wrapper)
    # The pieces of a module are compared like those of an argument: an equal one is a hit.
    first = inspect.Parameter(found.base.__code__.co_varnames[0], _POSITIONAL_ONLY)
    signature = inspect.Signature([first, *signature.parameters.values()])
    args = (found.receiver, *args)
    return Packed(function, signature, args, bound.kwargs, is_array, binds_first=True)


def _equinox_pmap(call: Call, equinox: Any) -> Packed | None:
    given = mapped(call.function) or call.function
    if type(given) is not FunctionType or call.ahead:
        return None
    if given.__globals__.get("__name__") != _EQUINOX_PMAP:
        return None
    frame: FrameType | None = call.frame.f_back
    for _ in range(_MAX_FRAMES_PMAP):
        if frame is None:
            return None
        if frame.f_code.co_name == "_call" and frame.f_globals.get("__name__") == _EQUINOX_PMAP:
            break
        frame = frame.f_back
    else:
        return None
    function = frame.f_locals["self"].__wrapped__
    made = pmapped(call.frame)
    return Packed(
        function,
        inspect.signature(function),
        frame.f_locals["args"],
        {},
        equinox.is_array,
        info=None if made is None else made.info,
    )


def _pmap(call: Call) -> Packed | None:
    made = pmapped(call.frame)
    if made is None:
        return None
    try:
        signature = inspect.signature(made.function)
    except (TypeError, ValueError):
        signature = None
    return Packed(
        made.function, signature, made.args, made.kwargs, None, info=made.info, options=made.axes
    )


def _linen(call: Call) -> Packed | None:
    function = call.function
    if (
        type(function) is not FunctionType
        or function.__code__.co_qualname != "jit.<locals>.jitted"
        or function.__globals__.get("__name__") != "flax.core.lift"
    ):
        return None
    given = [inspect.Parameter(name, _POSITIONAL_ONLY) for name in ("self", "variables", "rngs")]
    method = unwrap(function).base
    signature = SIGNATURE.of(call.info) if method is None else inspect.signature(method)
    # Further parameters: Flax's internal version of the method takes scopes and a hash.
    taken = ("scopes", "module_hash") if method is None or _is_core(method) else ("self",)
    own = [
        p for p in signature.parameters.values() if p.name not in (*taken, "variables", "rngs")
    ]
    parameters = inspect.Signature([*given, *own])
    return Packed(function, parameters, call.args, call.kwargs, None, _module(call.args[0]))


def _is_core(function: FunctionType) -> bool:
    return function.__globals__.get("__name__") == "flax.linen.transforms"


def _module(fingerprint: Any) -> str | None:
    """Describe a module, given the fingerprint that Flax passes to `jit` in its place."""
    try:
        mutable, proxy = fingerprint
        module, hashed = proxy.module_ref(), proxy.hash_key
    except (TypeError, ValueError, AttributeError):
        return None
    held = fields(module) or {}
    own = [
        f"{one.name}={_text(held.get(one.name))}"
        for one in dataclasses.fields(module)
        if one.init and one.name not in ("parent", "name")
    ]
    what = f"{type(module).__name__}({', '.join(own)})"
    may_change = _text(mutable)
    return f"{what}, mutable {may_change}, fingerprint {hashed & _BITS:x}"


def _text(value: object) -> str:
    return snapshot(value, lambda _: None).text

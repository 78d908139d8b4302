"""Eager operations: their name, their parameters, and the functions of their body."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from retrace.capture.place import Owner, owner
from retrace.capture.unwrapped import is_internal
from retrace.capture.wrappers import unwrap_plain
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.calls import marked
from retrace.jax_internals.config import is_jit_disabled
from retrace.jax_internals.names_values import CLOSED, JAXPR, OF_JAXPR
from retrace.jax_internals.picking import is_by_mask
from retrace.model import CallSite, Function
from retrace.model.miss_fields import MissFields

_JAX, _OURS = Owner.JAX, Owner.OURS


def at_line(
    function: Function, site: CallSite | None, bodies: Iterable[Function] = ()
) -> Function:
    """Give an operation the line that ran it, and the name of its body if it has one."""
    where = "?" if site is None else f"{site.file}:{site.line}"
    function = function._replace(site=f"{function.site} at {where}")
    for body in bodies:
        return function._replace(
            name=body.name, qualname=body.qualname, file=body.file, line=body.line
        )
    return function


def parameters(function: Any) -> Iterator[tuple[str, Any]]:
    """The parameters of a primitive that are compiled into it, without jaxprs."""
    found = _cell(function, at.PRIMITIVE_PARAMS.name)
    if not isinstance(found, dict) or not at.PRIMITIVE.of(function, False):
        return
    for name, value in sorted(found.items()):
        if not _holds_jaxpr(value):
            yield name, value


def fields_of(function: Function, given: Any, frame: FrameType) -> MissFields:
    """The fields of an operation that takes elements with a mask, or ran with `jit` disabled."""
    fields: MissFields = {}
    if at.PRIMITIVE.of(given, False) and is_jit_disabled(frame):
        fields["disabled"] = True
    if function.jax_name == "gather":
        interface = interface_frame(frame)
        if interface is not None and is_by_mask(interface):
            fields["picked"] = "mask"
    return fields


def has_body(function: Any) -> bool:
    """Whether the operation runs jaxprs, like `scan` and `cond`."""
    found = _cell(function, at.PRIMITIVE_PARAMS.name)
    return isinstance(found, dict) and any(_holds_jaxpr(value) for value in found.values())


def interface_frame(frame: FrameType | None) -> FrameType | None:
    """The frame around `frame` of the JAX function that the user called."""
    outermost: FrameType | None = None
    boundary = at.API_BOUNDARY.get()
    while frame is not None:
        if owner(frame.f_code.co_filename) not in (_JAX, _OURS):
            break
        if frame.f_code is not boundary:
            outermost = frame
        frame = frame.f_back
    return outermost


def operation_around(frame: FrameType | None) -> int | None:
    """The number of the operation around `frame` whose body was traced before its call."""
    while frame is not None:
        if (interface := interface_frame(frame)) is None:
            frame = frame.f_back
            continue
        if (number := marked(interface)) is not None:
            return number
        frame = interface.f_back
    return None


def body_functions(interface: FrameType) -> tuple[Any, ...]:
    """The user's functions among the arguments of a JAX function."""
    code = interface.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    local = interface.f_locals
    found: list[Any] = []
    names = list(code.co_varnames[:count])
    if code.co_flags & 0x04:  # *args
        names.append(code.co_varnames[count])
    for name in names:
        value = local.get(name)
        # `switch` takes a sequence of branches, `cond` takes `*args`.
        items: tuple[Any, ...] = tuple(value) if isinstance(value, list | tuple) else (value,)
        found += [
            item
            for item in items
            if callable(item) and _is_function(item) and not is_internal(item)
        ]
    return tuple(found)


def _is_function(value: Any) -> bool:
    """Whether it is a function, not a callable module whose arrays a loop carries."""
    while type(value) is functools.partial:
        value = value.func
    return unwrap_plain(at.JITTED_FUN.of(value, value)) is not None


def _cell(function: Any, name: str) -> Any:
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None)
    if code is None or not cells or name not in code.co_freevars:
        return None
    try:
        return cells[code.co_freevars.index(name)].cell_contents
    except ValueError:
        return None


def _holds_jaxpr(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(_holds_jaxpr(item) for item in value)
    kind = type(value)
    # Recognized by name or by content: with only one of the two, a renaming in JAX would make
    # a loop look like an operation without a body.
    return kind.__name__ in (CLOSED.name, JAXPR.name) or (
        kind.__module__.startswith("jax.") and OF_JAXPR["eqns"].of(value) is not None
    )

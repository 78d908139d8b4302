"""Find the user's call that a stage of JAX belongs to, from the Python stack.

A call that misses runs in a JAX frame whose locals are the function, the
options of `jit` and the arguments. A mark among that frame's locals identifies
the call: frames cannot be weakly referenced, and their `id()` is reused
immediately. The mark dies with the frame and keeps nothing alive.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum, auto
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import jax

from retrace.jax_internals import names_frames as at
from retrace.jax_internals.names_hooks import LOWER
from retrace.jax_internals.names_values import CLEAN, CONTEXT, SOURCE_OF_PROGRAM, STAGING
from retrace.jax_internals.pmap import prepared
from retrace.jax_internals.row import code_of, looked_up
from retrace.jax_internals.traces import Trace, TraceProxy

_FOLDER = os.path.dirname(jax.__file__) + os.sep
_LAX = os.path.join(os.path.dirname(jax.__file__), "_src", "lax") + os.sep
_INFO, _FUN = at.CALL_INFO.name, at.CALL_FUN.name
_ARGS, _KWARGS = at.CALL_ARGS.name, at.CALL_KWARGS.name
_JAXPR = at.LOWERING_JAXPR.name
_MARK = "__retrace_miss__"
_INNER = "__retrace_inner__"


class Role(Enum):
    """What a JAX frame does for the call it serves."""

    CALL = auto()
    AHEAD = auto()
    PROGRAM = auto()
    LOWERED = auto()
    TRACED = auto()
    BOUNDARY = auto()
    LOWERING = auto()
    BINDING = auto()


class Call(NamedTuple):
    """A call in progress, read from its frame."""

    frame: FrameType
    function: Any
    info: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    ahead: bool
    number: int | None
    """The number of the miss, if `mark` was called. Little else is read then: it is known."""


class Site(NamedTuple):
    """What the stack around a stage shows."""

    call: Call | None
    derived: str | None
    """How JAX derived the program being lowered from the program of the call."""
    program: FrameType | None
    """The frame that runs a derived program: `jaxpr`, `name`, `args`."""
    lowered: FrameType | None
    """The frame of `Lowered.compile`: `self`, `compiler_options`."""
    jaxpr: Any
    traced: bool = False
    """Whether the call has been traced and its program is now being processed."""
    lowering: FrameType | None = None
    """The frame that lowers the program."""


_SERVING = frozenset((Role.CALL, Role.AHEAD, Role.PROGRAM, Role.LOWERED, Role.TRACED))
_ROLES: dict[str, list[tuple[CodeType, Role]]] = {}
"""The roles of code objects by qualified name. Hashing code hashes all of it, and `id` calls the
program's audit hooks, if it has any."""


def _learn() -> None:
    codes = [
        (Role.CALL, at.CALL.get()),
        (Role.CALL, at.PMAP_CALL.get()),
        (Role.AHEAD, at.AHEAD_TRACE.get()),
        (Role.AHEAD, at.AHEAD_LOWER.get()),
        (Role.AHEAD, at.AHEAD_SHAPE.get()),
        (Role.PROGRAM, at.DERIVED.get()),
        (Role.LOWERED, at.LOWERED.get()),
        (Role.TRACED, code_of(LOWER.get())),
        (Role.BOUNDARY, TraceProxy.__call__.__code__),
        (Role.BINDING, at.BINDING.get()),
        (Role.LOWERING, at.LOWERING.get()),
    ]
    for role, code in codes:
        if code is not None:
            _ROLES.setdefault(code.co_qualname, []).append((code, role))


_learn()


def _role(code: CodeType) -> Role | None:
    for one, role in _ROLES.get(code.co_qualname, ()):
        if one is code:
            return role
    return None


_TRANSFORMS = {
    at.TRANSPOSE_BEFORE: "backward",
    at.TRANSPOSE: "backward",
    at.BACKWARD: "backward",
    at.BACKWARD_FANCY: "backward",
    at.LINEARIZE_BEFORE: "forward",
    at.LINEARIZE: "forward",
    at.PARTIAL_EVAL: "forward",
    at.JVP: "jvp",
    at.BATCH: "batched",
}
_DERIVED = {id(code): how for row, how in _TRANSFORMS.items() if (code := row.get()) is not None}


def find(frame: FrameType | None) -> Site:
    """Find the call that the stage in `frame` belongs to, up to the enclosing trace."""
    derived: str | None = None
    program: FrameType | None = None
    jaxpr: Any = None
    lowered: FrameType | None = None
    lowering: FrameType | None = None
    traced = False
    while frame is not None:
        code = frame.f_code
        role = _role(code) if code.co_qualname in _ROLES else None
        if role is None:
            if program is not None:
                if not code.co_filename.startswith(_FOLDER):
                    break
                if derived is None:
                    derived = _DERIVED.get(id(code))
        elif role is Role.CALL or role is Role.AHEAD:
            call = _call(frame, role, briefly=True)
            return Site(call, derived, program, lowered, jaxpr, traced, lowering)
        elif role is Role.BOUNDARY:
            break
        elif role is Role.BINDING:
            traced = True
        elif role is Role.LOWERING:
            lowering = frame
            jaxpr = frame.f_locals.get(_JAXPR)
        elif role is Role.PROGRAM:
            program = program or frame
        elif role is Role.LOWERED:
            lowered = frame
            break
        frame = frame.f_back
    return Site(None, derived, program, lowered, jaxpr, lowering=lowering)


def transformed(frame: FrameType | None, is_internal: Callable[[Any], bool]) -> Call | None:
    """Find the call whose program JAX is transforming around `frame`, before lowering it.

    Under an eager transform JAX interprets the program of a call, and may trace internal
    functions for that, possibly nested.
    """
    bound = False
    while frame is not None:
        role = _role(frame.f_code)
        if role is Role.BINDING:
            bound = True
        elif role is Role.CALL:
            call = _call(frame, role)
            if not is_internal(call.function):
                return call if bound else None
            bound = False
        frame = frame.f_back
    return None


def derived_from(trace: Trace) -> str | None:
    """The source of a program that JAX derives (a jvp, a transpose) by tracing its own function.

    Such programs come from an existing trace and keep the name of its function, which does not
    run again. It does run if an operation with a body wraps it: `fori_loop`, `map`,
    `reduce_window`; None for these.
    """
    function = trace.function
    if type(function) is not FunctionType or "__wrapped__" in function.__dict__:
        return None
    code = function.__code__
    if not code.co_filename.startswith(_FOLDER) or is_of_lax(code):
        return None
    own = f" at {code.co_filename}:{code.co_firstlineno}"
    for given in trace.given or ():
        source = SOURCE_OF_PROGRAM.of(given)
        if isinstance(source, str) and not source.endswith(own):
            return source
    return None


def is_of_lax(code: CodeType) -> bool:
    """Whether the code belongs to `jax.lax`, whose operations take functions as bodies."""
    return code.co_filename.startswith(_LAX)


def is_served(frame: FrameType | None) -> bool:
    """Whether JAX is serving another call around `frame`, which is itself the frame of a call."""
    frame = frame.f_back if frame is not None else None
    while frame is not None:
        if _role(frame.f_code) in _SERVING:
            return True
        frame = frame.f_back
    return False


def read_again(call: Call) -> Call:
    """A call with its function, options and arguments, which `find` leaves out once marked."""
    return call if call.ahead or call.number is None else _call(call.frame, Role.CALL)


def _call(frame: FrameType, role: Role, *, briefly: bool = False) -> Call:
    local = frame.f_locals
    number = local.get(_MARK)
    if briefly and number is not None and role is Role.CALL:
        return Call(frame, None, None, (), {}, False, number)
    if role is Role.CALL:
        info, function = local.get(_INFO), local.get(_FUN)
        if function is None and (prepare := at.PMAP_PREPARE.among(local)) is not None:
            function, info = prepared(prepare, at.PMAP_AXIS_NAME.among(local))
        return Call(
            frame,
            function,
            info,
            local.get(_ARGS, ()),
            local.get(_KWARGS, {}),
            False,
            number,
        )
    # `f.lower(...)` runs `jit_trace` inside; both are one call, identified by the outer frame.
    outer = frame.f_back
    for _ in range(2):
        if outer is None:
            break
        if _role(outer.f_code) is Role.AHEAD:
            frame, local = outer, outer.f_locals
            break
        outer = outer.f_back
    jitted = at.AHEAD_JITTED.among(local)
    return Call(
        frame,
        at.JITTED_FUN.of(jitted),
        at.JITTED_INFO.of(jitted),
        at.AHEAD_ARGS.among(local, ()),
        at.AHEAD_KWARGS.among(local, {}),
        True,
        local.get(_MARK),
    )


def mark(frame: FrameType, number: int | None) -> None:
    """Mark a call in progress with the number of its miss; None removes the mark."""
    frame.f_locals[_MARK] = number


def marked(frame: FrameType) -> int | None:
    """The number set by `mark`, or None."""
    return frame.f_locals.get(_MARK)


def count_inner(frame: FrameType) -> None:
    """Count a trace of an internal JAX function for a call in progress that has no miss yet."""
    local = frame.f_locals
    local[_INNER] = local.get(_INNER, 0) + 1


def inner_of(frame: FrameType) -> int:
    """The number of traces counted by `count_inner`."""
    return frame.f_locals.get(_INNER, 0)


def is_clean() -> bool:
    """Whether no JAX trace or transformation is active in this thread."""
    clean = looked_up[CLEAN]
    return clean is None or bool(clean())


def is_staging() -> bool:
    """Whether operations are currently traced into a program instead of executed."""
    return stages(getattr(looked_up[CONTEXT], "trace", None))


def stages(trace: Any) -> bool:
    """Whether a trace of JAX's, or one that it is part of, makes a program."""
    staging = looked_up[STAGING]
    while trace is not None:
        if type(trace) is staging:
            return True
        trace = getattr(trace, "parent_trace", None)
    return False


def is_parallel(frame: FrameType) -> bool:
    """Whether `pmap` is tracing here; until jax 0.7 it uses a separate function."""
    traced = at.PMAP_TRACE.get()
    current: FrameType | None = frame if traced is not None else None
    for _ in range(6):
        if current is None:
            return False
        if current.f_code is traced:
            return True
        current = current.f_back
    return False


def bare(name: str) -> str:
    """The name of the function given to `jit`, from the name of a stage: `jit(f)`, `jit_f`."""
    return name.removeprefix("jit(").removesuffix(")").removeprefix("jit_")

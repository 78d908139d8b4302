"""Which functions of JAX it jits itself, as operations, and which of them somebody else jits.

`jnp.dot(x, y)` runs a function that JAX jitted. `jax.jit(jnp.dot)`, or a `jit` of its `vmap`, its
`grad` or of a partial of it, is a jitted function like any other, of whoever made it.
"""

from __future__ import annotations

import contextlib
from types import CodeType, FrameType, FunctionType
from typing import Any

from retrace.capture.objects import kind_of, package
from retrace.capture.place import Owner, owner
from retrace.capture.unwrapped import is_internal, unwrap
from retrace.capture.weak import ByObject
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.callbacks import is_tree_map
from retrace.jax_internals.jitted import is_jitted
from retrace.jax_internals.pmap import mapped

_CONTEXTS = contextlib.__file__
_MAX_WRAPPERS = 8
_own: ByObject[bool] = ByObject()
"""Whether JAX jits a function itself."""


def is_operation(given: Any, frame: FrameType) -> bool:
    """Whether a call runs an operation of JAX.

    Args:
        given: what `jax.jit` was given.
        frame: the frame of JAX that the call ran.
    """
    if not is_internal(given) or mapped(given) is not None:
        return False
    caller = frame.f_back
    while caller is not None and _passes_on(caller.f_code):
        caller = caller.f_back
    if caller is None or owner(caller.f_code.co_filename) is Owner.JAX:
        return True
    return is_own(given)


def _passes_on(code: CodeType) -> bool:
    """Whether this frame only passes the call on, as a decorator made of a context manager."""
    return code is at.API_BOUNDARY.get() or is_tree_map(code) or code.co_filename == _CONTEXTS


def is_own(given: Any) -> bool:
    """Whether JAX jits a function of its own itself, as one of a module or inside another."""
    if (known := _own.get(given)) is None:
        known = _is_own(given)
        _own.put(given, known)
    return known


def _is_own(given: Any) -> bool:
    base = unwrap(given).base
    if base is None:
        return True
    names = base.__globals__
    if base is given and names.get(base.__name__) is not given:
        return True  # made inside another, or what a decorator made something of
    # A copy: another thread may import a module of JAX meanwhile.
    return any(_jits(value, given) for value in list(names.values()))


def _jits(value: Any, given: Any) -> bool:
    """Whether a value is the function, jitted, perhaps below other wrappers of JAX."""
    jitted = False
    for _ in range(_MAX_WRAPPERS):
        if value is given:
            return jitted
        jitted = jitted or is_jitted(value)
        kind = kind_of(value)
        if kind is not FunctionType and package(kind) not in ("jax", "jaxlib"):
            return False
        value = getattr(value, "__wrapped__", None)
        if value is None:
            return False
    return False

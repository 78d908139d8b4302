"""Inputs of lowering that become part of the module but are not in the equations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FrameType
from typing import Any, cast

from retrace.jax_internals import names_frames as at
from retrace.jax_internals.result_paths import result_paths
from retrace.jax_internals.shardings import describe, dtype_name

_INPUTS = [row.name for row in at.LOWERING_WITH.values()]
_NAME_INDEX = list(at.LOWERING_WITH).index("name")
_MAX_ARRAYS = 10_000
"""Maximum number of arguments and results whose placement is read."""


def lowered_with(frame: FrameType, jaxpr: Any) -> Callable[[], str] | None:
    """Prepare a digest of the name, donation and placement that JAX lowers a program with.

    Two programs with equal equations become the same module only if these are equal too. The
    user's jitted function does not show them: under a gradient or a `vmap` JAX lowers a
    different program than it traced, and wrappers like `eqx.filter_jit` donate by positions
    of their own.

    Args:
        frame: the frame that lowers the program.
        jaxpr: the program.

    Returns:
        A function that another thread may call later; it holds types and placements, but no
        program.
    """
    local = frame.f_locals
    given = [local.get(name) for name in _INPUTS]
    if given[_NAME_INDEX] is None:
        return None
    avals = getattr(jaxpr, "in_avals", ())
    return partial(_digest, avals, result_paths(jaxpr), given)


def _digest(avals: Sequence[Any], results: object, given: Sequence[Any]) -> str:
    types = [len(avals), *map(_type, avals[:_MAX_ARRAYS])]
    parts = [types, results, *map(_texts, given)]
    return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _type(aval: Any) -> str:
    # Under an eager `vmap` the function was traced without the batch axis of its program. XLA
    # has no weak types.
    dtype = getattr(aval, "dtype", None)
    name = "None" if dtype is None else dtype_name(dtype)
    return f"{name}{getattr(aval, 'shape', aval)}"


def _texts(values: object) -> object:
    if not isinstance(values, tuple | list):
        return None if values is None else repr(values)
    items = cast("Iterable[Any]", values)
    texts = [_text(value) for _, value in zip(range(_MAX_ARRAYS), items, strict=False)]
    return [len(texts), *texts] if any(texts) else len(texts)


def _text(value: Any) -> str:
    """Text of a value; empty if unspecified."""
    if value is None or value is False or type(value).__name__ == "UnspecifiedValue":
        return ""
    if hasattr(value, "device_set"):
        return describe(value)
    return str(value)

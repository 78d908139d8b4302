"""Digests of the arrays that a suite's own functions hold when they return.

Watched are the functions of the files that tests were collected from: what each returns, and
its local variables at that moment, with the arrays in their pytrees. Of each function the sum
of its arrays' digests is kept, so that two runs with the same sums had the same arrays, bit for
bit, in whatever order threads brought them. Python tells of a return from 3.12 on.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any, cast

import jax
import numpy as np
from jax.core import Tracer

AVAILABLE = hasattr(sys, "monitoring")
_TOOL = 4
"""One of the two numbers that Python leaves to tools without a name of their own."""
_MOST = 2**64
_DEEPEST = 8
_registry: Any = cast(Any, jax.tree_util).default_registry

digests: dict[str, list[int]] = {}
"""By the function's name: how many arrays, and the sum of their digests."""


def watch(files: set[str]) -> None:
    """Take the arrays of every function of these files that returns from now on."""
    if not AVAILABLE:
        return
    watching = cast(Any, sys).monitoring

    def on_return(code: CodeType, offset: int, result: object) -> Any:
        if os.path.abspath(code.co_filename) not in files:
            return watching.DISABLE
        frame = inspect.currentframe()
        assert frame and frame.f_back
        for array in _arrays([result, *frame.f_back.f_locals.values()]):
            _add(code.co_qualname, array)
        return None

    watching.use_tool_id(_TOOL, "suite_arrays")
    watching.register_callback(_TOOL, watching.events.PY_RETURN, on_return)
    watching.set_events(_TOOL, watching.events.PY_RETURN)


def _arrays(held: list[object]) -> Iterator[np.ndarray[Any, Any]]:
    waiting = [(value, 0) for value in held]
    while waiting:
        value, depth = waiting.pop()
        if (array := _on_host(value)) is not None:
            yield array
            continue
        # Level by level: an object that holds itself is no tree, and JAX would not come back.
        with contextlib.suppress(Exception):  # a test's own node may fail to flatten
            level = _registry.flatten_one_level(value) if depth < _DEEPEST else None
            waiting += [(child, depth + 1) for child in (level[0] if level else ())]


def _on_host(leaf: Any) -> np.ndarray[Any, Any] | None:
    if isinstance(leaf, Tracer) or not isinstance(leaf, jax.Array | np.ndarray):
        return None
    array = cast(Any, leaf)
    # A key of random numbers is no array of numbers; what it is made of is.
    array = getattr(array, "_base_array", array)
    if isinstance(array, jax.Array) and (array.is_deleted() or not array.is_fully_addressable):
        return None
    array = np.asarray(array)
    return None if array.dtype.hasobject else array


def _add(name: str, array: np.ndarray[Any, Any]) -> None:
    told = f"{array.dtype} {array.shape} ".encode() + array.tobytes()
    digest = int.from_bytes(hashlib.blake2b(told, digest_size=8).digest())
    counted = digests.setdefault(name, [0, 0])
    counted[0] += 1
    counted[1] = (counted[1] + digest) % _MOST

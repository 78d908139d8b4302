"""The live jitted objects, and how to clear the caches of a function."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jax


def jitted_objects() -> Iterator[Any]:
    """All live objects made by `jax.jit`, in all threads."""
    for one in gc.get_objects():
        if is_jitted(one):
            yield one


def is_jitted(thing: Any) -> bool:
    """Whether `jax.jit` made it."""
    return type(thing) is _kind()


@lru_cache(maxsize=1)
def _kind() -> type:
    return type(jax.jit(_nothing))


def function_of(jitted: Any) -> Any:
    """The function given to `jax.jit`; None if this JAX does not show it."""
    return getattr(jitted, "_fun", getattr(jitted, "__wrapped__", None))


def make_cold(jitted: Any) -> None:
    """Drop the programs and traces of its function, as if it had never been called.

    `clear_cache` drops the entries of this object and the traces of the function. Another
    jitted object of the same function with other options keeps its own entries.
    """
    jitted.clear_cache()


def make_function_cold(function: Any) -> None:
    """Same for a function whose jitted objects may all be gone: JAX still keeps its traces."""
    make_cold(jax.jit(function))


def _nothing() -> None: ...

"""The jitted objects that are alive, and how one of their functions is made cold."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import jax


def jitted_objects() -> Iterator[Any]:
    """Everything that `jax.jit` made and that still lives, in all threads."""
    kind = type(jax.jit(_nothing))
    for one in gc.get_objects():
        if type(one) is kind:
            yield one


def function_of(jitted: Any) -> Any:
    """What `jax.jit` was given; None where this JAX does not show it."""
    return getattr(jitted, "_fun", getattr(jitted, "__wrapped__", None))


def make_cold(jitted: Any) -> None:
    """Drop the programs and traces of its function, as if it had never been called.

    `clear_cache` drops the object's own entries and the traces of the function. Where another
    object was made of the same function with other options, that one has entries of its own.
    """
    jitted.clear_cache()


def make_function_cold(function: Any) -> None:
    """The same for a function all of whose jitted objects may be gone: JAX keeps its traces."""
    make_cold(jax.jit(function))


def _nothing() -> None: ...

"""Contexts around a trace that are in none of JAX's keys, but decide what is traced."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TypeAlias, cast

import jax

Contexts: TypeAlias = tuple[tuple[str, object], ...]

_PRNG = "jax_default_prng_impl"
_FLAX = "flax.linen.intercept_methods"


def contexts() -> Contexts:
    """The contexts of this thread, by name, as plain data that tells one from another."""
    found: list[tuple[str, object]] = [(_PRNG, getattr(cast(Any, jax).config, _PRNG, None))]
    linen: object = sys.modules.get("flax.linen.module")
    if linen is not None:
        open_: object = getattr(linen, "_global_interceptor_stack", ())
        found.append((_FLAX, tuple(map(id, cast(Iterable[object], open_)))))
    return tuple(found)


def differs(then: Contexts) -> str | None:
    """The name of a context that was another one then; None if there is none."""
    now = dict(contexts())
    # A library that was imported since had no context open.
    return next((name for name, value in then if (now.get(name) or ()) != (value or ())), None)

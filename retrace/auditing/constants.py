"""Compares the arrays that two programs with the same text captured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrace.failure import asked
from retrace.jax_internals.names_audit import KEY_DATA

_MAX_BYTES = 1 << 28
"""Maximum size of the arrays fetched for one comparison."""


def same(old: Sequence[Any], new: Sequence[Any]) -> bool | None:
    """Whether arrays have equal contents, pairwise; None if unknown.

    Identical objects are not read.
    """
    if len(old) != len(new):
        return False
    others = [(a, b) for a, b in zip(old, new, strict=True) if a is not b]
    if sum(int(getattr(a, "nbytes", 0)) for a, _ in others) > _MAX_BYTES:
        return None
    for a, b in others:
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        # Unknown if an array was deleted or donated, or is on another host.
        old_content, new_content = asked(_content, a, b), asked(_content, b, a)
        if old_content is None or new_content is None:
            return None
        if old_content != new_content:
            return False
    return True


def _content(array: Any, other: Any) -> list[bytes]:
    if isinstance(array, np.ndarray):
        return [array.tobytes()]
    array, other = KEY_DATA.of(array, array), KEY_DATA.of(other, other)
    if isinstance(other, np.ndarray) or array.sharding != other.sharding:
        return [np.asarray(array).tobytes()]
    # Shard by shard: JAX would keep a host copy of the whole array.
    return [np.asarray(shard.data).tobytes() for shard in array.addressable_shards]

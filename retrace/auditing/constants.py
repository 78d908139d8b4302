"""Whether what two programs captured is the same, where their texts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrace.failure import asked
from retrace.jax_internals.names_audit import KEY_DATA

_MOST_BYTES = 1 << 28
"""Of arrays that are fetched in one comparison."""


def same(old: Sequence[Any], new: Sequence[Any]) -> bool | None:
    """Whether arrays hold the same, one by one; None where that cannot be told.

    Those that are the same object are not looked at.
    """
    if len(old) != len(new):
        return False
    others = [(a, b) for a, b in zip(old, new, strict=True) if a is not b]
    if sum(int(getattr(a, "nbytes", 0)) for a, _ in others) > _MOST_BYTES:
        return None
    for a, b in others:
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        # Deleted, donated, on another host: then nothing can be told.
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
    if array.sharding != other.sharding:
        return [np.asarray(array).tobytes()]
    # Of each piece by itself: with the whole array JAX would keep a copy on the host.
    return [np.asarray(shard.data).tobytes() for shard in array.addressable_shards]

"""JAX functions that pick elements by their contents: the size of a result depends on data.

They run operation by operation outside `jit`. Inside it they need a `size`, and indexing with a
mask raises an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import CodeType, FrameType

import jax

_FOLDER = os.path.join(os.path.dirname(jax.__file__), "_src", "numpy", "")
_PICKING = frozenset(
    (
        *("argwhere", "compress", "extract", "flatnonzero", "intersect1d", "nonzero"),
        *("setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts"),
        *("unique_inverse", "unique_values"),
    )
)
"""Functions of `jax.numpy` with a `size`. `where` is one of them if it is given only a mask."""


def picks(code: CodeType, inner: str | None) -> str | None:
    """The function that picks elements, if a frame belongs to it, seen from the inside.

    Args:
        code: the code of a JAX frame.
        inner: what was found in the frames that it called.
    """
    name = code.co_name
    if name not in _PICKING and (inner is None or name != "where"):
        return inner
    return name if code.co_filename.startswith(_FOLDER) else inner


def is_by_mask(frame: FrameType) -> bool:
    """Whether a JAX frame takes elements of an array with a mask, as in `x[x > 0]`."""
    code = frame.f_code
    return code.co_name == "__getitem__" and any(
        getattr(getattr(one, "dtype", None), "kind", "") == "b" and getattr(one, "ndim", 0) > 0
        for one in _items(frame.f_locals.get(code.co_varnames[1]))
    )


def _items(index: object) -> Iterator[object]:
    if isinstance(index, tuple):
        yield from index
    else:
        yield index

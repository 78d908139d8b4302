"""The leaves of keys in a recording: leaves that differ only in shapes share the rest.

A recording has thousands of them, so they are checked and created column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, cast

from retrace.model import JSON, Leaf, Leaves

_SHAPES = {list}
_SIZES = {int, str}
_LEAF_TYPES: tuple[set[type], ...] = (
    {str},
    _SHAPES,
    {str},
    {bool},
    {str, type(None)},
    {bool},
    {str, type(None)},
    {str, type(None)},
)
_new_leaf: Callable[[Iterable[object]], Leaf] = partial(cast(Any, tuple).__new__, Leaf)


def decode_leaves(rows: Any) -> Leaves:
    """Decode the leaves of a part; raises TypeError or ValueError on invalid data."""
    if not rows:
        return Leaves()
    columns = tuple(zip(*rows, strict=True))
    for column, types in zip(columns, _LEAF_TYPES, strict=True):
        if not types.issuperset(map(type, column)):
            raise TypeError("not a leaf")
    paths, shapes, *others = columns
    return _with_shapes(paths, others, shapes)


def _with_shapes(paths: tuple[Any, ...], others: Sequence[Sequence[Any]], shapes: Any) -> Leaves:
    if not _SHAPES.issuperset(map(type, shapes)):
        raise TypeError("not a shape")
    sizes = list(chain.from_iterable(shapes))
    if not _SIZES.issuperset(kinds := set(map(type, sizes))):
        raise TypeError("not a size")
    if str in kinds:  # symbolic
        sizes = [size for size in sizes if type(size) is int]
    if sizes and not -(1 << 63) <= min(sizes) <= max(sizes) < 1 << 63:
        raise ValueError("a size out of range")
    own: tuple[tuple[Any, ...], ...] = tuple(map(tuple, shapes))
    leaves = Leaves(map(_new_leaf, zip(paths, own, *others, strict=True)))
    leaves.paths, leaves.shapes, leaves.others = paths, own, others
    return leaves


def without_shapes(leaves: Any) -> tuple[JSON, ...]:
    """Leaves without their shapes: these must equal those of the part it is written `like`."""
    return tuple((leaf[0], *leaf[2:]) for leaf in leaves)


def decode_leaves_like(leaves: Leaves, shapes: Any) -> Leaves:
    """Decode the same leaves with other shapes; raises as `decode_part` does."""
    return _with_shapes(leaves.paths, leaves.others, shapes)

"""Merges the columns of axes that vary together but have different lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from itertools import pairwise
from math import prod

from retrace.model import Dim
from retrace.plan.corners import Size
from retrace.plan.defaults import ABSENT
from retrace.plan.history import Column, History, Part

_MIN_SIZES = 3
"""Minimum number of sizes on both axes before their pairs are examined."""


def joined(history: History) -> None:
    """Merge the columns of two axes for which only some pairs of sizes occur.

    This holds if one size determines the other without growing along with it, such as a batch
    that gets smaller the longer its texts are, or if at most half of all pairs were called.
    """
    while (pair := _partial_pair(history)) is not None:
        first, second = pair
        numbers: dict[Hashable, int] = {}
        rows = zip(first.values, second.values, strict=True)
        values = [numbers.setdefault(row, len(numbers)) for row in rows]
        column = Column("shape", (*first.parts, *second.parts), values)
        at = history.columns.index(first)
        rest = [one for one in history.columns if one is not first and one is not second]
        history.columns = [*rest[:at], column, *rest[at:]]


def _partial_pair(history: History) -> tuple[Column, Column] | None:
    columns = [
        column
        for column in history.columns
        if column.family == "shape" and all(part.axis >= 0 for part in column.parts)
    ]
    for index, first in enumerate(columns):
        for second in columns[index + 1 :]:
            pairs = set(zip(first.values, second.values, strict=True))
            numbers = len(set(first.values)), len(set(second.values))
            decides = len(pairs) == max(numbers) >= _MIN_SIZES
            few = min(numbers) >= _MIN_SIZES and 2 * len(pairs) <= numbers[0] * numbers[1]
            if not (decides or few) or not _are_together(history, first, second):
                continue
            if len(lengths(history, (*first.parts, *second.parts))) > 1:
                return first, second
    return None


def _are_together(history: History, first: Column, second: Column) -> bool:
    """Whether some call has both arrays, not the one in place of the other."""
    both = {first.parts[0].path, second.parts[0].path}
    return any(both <= {leaf.path for leaf in row.miss.key.leaves} for row in history.rows)


def sizes_of(history: History, parts: Sequence[Part]) -> dict[Part, tuple[int, ...]]:
    """The length of each axis in each row.

    An array that some rows lack, and that has the length of another one wherever it is there, has
    it in all rows.
    """
    own = {part: history.sizes(part) for part in parts if part.axis >= 0}
    there = {part: _rows_with(history, part.path) for part in own}
    every = [part for part in own if len(there[part]) == len(history.rows)]
    for part in own.keys() - every:
        for leader in every:
            if all(own[leader][row] == own[part][row] for row in there[part]):
                own[part] = own[leader]
                break
    return own


def _rows_with(history: History, path: str) -> Sequence[int]:
    """The rows that have an array of this path."""
    there, rows = Part("tree", path), range(len(history.rows))
    if there not in history.varying:
        return rows
    return [row for row in rows if history.value(row, there) != ABSENT]


def rows_with(
    history: History, part: Part, own: Mapping[Part, tuple[int, ...]]
) -> Container[int]:
    """The rows in which an axis has a length of its own, or that of an axis in all rows."""
    every = range(len(history.rows))
    for other, sizes in own.items():
        if sizes == own[part] and len(_rows_with(history, other.path)) == len(every):
            return every
    return {*_rows_with(history, part.path)}


def lengths(history: History, parts: Sequence[Part]) -> list[Part]:
    """One axis for each independent length, meaning that it grows with none of the others.

    Another axis of the same array is padded on its own unless it always has the same length.
    """
    own = sizes_of(history, parts)
    found: list[Part] = []
    axes = Counter(part.path for part in own)
    # Preferably of the array that has several of these axes, and not of one deep in a state.
    numbers = {sizes: len({*sizes}) for sizes in {*own.values()}}
    order = {
        part: (-numbers[own[part]], part.axis, -axes[part.path], _depth(part.path), part.path)
        for part in own
    }
    for part in sorted(own, key=order.__getitem__):
        if not any(
            own[one] == own[part] or (one.path != part.path and _follows(own[one], own[part]))
            for one in found
        ):
            found.append(part)
    return sorted(found, key=parts.index)


def _depth(path: str) -> int:
    return path.count(".") + path.count("[")


def _follows(leader: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether the leader determines the sizes and they never decrease as it grows."""
    pairs = sorted(set(zip(leader, sizes, strict=True)))
    return len(pairs) == len(set(leader)) and all(
        before <= after for (_, before), (_, after) in pairwise(pairs)
    )


def cost(history: History, column: Column, dims: Sequence[Part]) -> Callable[[Size], float]:
    """The number of elements in the arrays that have these axes, as a function of their sizes."""
    rows = history.rows
    keys = rows[0].miss.key, rows[-1].miss.key
    leaves = {leaf.path: leaf for key in keys for leaf in key.leaves}
    axes: dict[str, dict[int, tuple[int, dict[int, int]]]] = {}
    of_parts = sizes_of(history, column.parts)
    of_dims = [of_parts[part] for part in dims]
    for part, sizes in of_parts.items():
        place = next((at for at, one in enumerate(of_dims) if _follows(one, sizes)), None)
        if place is not None:
            table = dict(zip(of_dims[place], sizes, strict=True))
            axes.setdefault(part.path, {})[part.axis] = place, table
    terms = [
        (_elements(leaves[path].shape, own), own) for path, own in axes.items() if path in leaves
    ]

    def elements(size: Size) -> float:
        return float(
            sum(
                rest * prod(_length(table, size[place]) for place, table in own.values())
                for rest, own in terms
            )
        )

    return elements


def _elements(shape: Sequence[Dim], without: Container[int]) -> int:
    """The product of the other axes; a symbolic axis counts as one."""
    return prod(
        size for axis, size in enumerate(shape) if axis not in without and isinstance(size, int)
    )


def _length(table: Mapping[int, int], size: int) -> int:
    """The length of an axis that follows another, given the length of that one."""
    if all(leader == own for leader, own in table.items()):
        return size  # valid for lengths that were never called, too
    return max((own for leader, own in table.items() if leader <= size), default=0)

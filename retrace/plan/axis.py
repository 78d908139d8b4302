"""An axis of many sizes in the table of one site: how long it is in each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import TypeVar

from retrace.model import Verdict
from retrace.plan.corners import Size
from retrace.plan.history import Column, History, Part
from retrace.plan.joint import lengths
from retrace.plan.replay import Mapped

_Sized = TypeVar("_Sized", int, Size)


class Axis:
    """A column of sizes in one history."""

    def __init__(self, index: int, number: int, history: History, column: Column) -> None:
        self.at = (index, number)
        self.history, self.column = history, column
        parts = [part for part in column.parts if part.axis >= 0]
        self.part = max(parts, key=lambda part: (self._distinct(part), -part.axis))
        self.dims = lengths(history, parts)
        """One axis of each length; of several, no one tells how long the others are."""
        self.rows = _called(history, column)
        self.sizes: dict[int, int] = {}
        """By the value of the column."""
        self.corners: dict[int, Size] = {}
        """The same of all lengths."""
        for row in self.rows:
            value = column.values[row]
            self.sizes.setdefault(value, self._size(row, self.part))
            self.corners.setdefault(value, tuple(self._size(row, part) for part in self.dims))

    def _size(self, row: int, part: Part) -> int:
        size = self.history.value(row, part)
        return size if isinstance(size, int) else 0

    def _distinct(self, part: Part) -> int:
        return len({self._size(row, part) for row in range(len(self.history.rows))})

    @property
    def names(self) -> tuple[str, ...]:
        """`batch['x'] axis 0`."""
        parts = sorted(self.column.parts, key=lambda part: part is not self.part)
        return tuple(f"{part.path} axis {part.axis}" for part in parts if part.axis >= 0)

    @property
    def others(self) -> list[Part]:
        """The axes that are not as long as the one that is told, and only follow from it."""
        rows = range(len(self.history.rows))
        own = [self._size(row, self.part) for row in rows]
        return [
            part
            for part in self.column.parts
            if part.axis >= 0 and [self._size(row, part) for row in rows] != own
        ]

    @property
    def in_order(self) -> list[int]:
        """The sizes as they came, each once."""
        return list(dict.fromkeys(self.sizes[self.column.values[row]] for row in self.rows))

    def calls(self) -> dict[int, int] | None:
        """How often each size was called; None where that was not counted."""
        return self._calls(self.sizes)

    def calls_of_corners(self) -> dict[Size, int] | None:
        """The same of all lengths."""
        return self._calls(self.corners)

    def lengths(self) -> Iterator[tuple[Verdict, Size]]:
        """Each row with its size."""
        for row in self.rows:
            yield self.history.rows[row], (self.sizes[self.column.values[row]],)

    def lengths_together(self) -> Iterator[tuple[Verdict, Size]]:
        """The same with all lengths."""
        for row in self.rows:
            yield self.history.rows[row], self.corners[self.column.values[row]]

    def same_lengths(self) -> list[tuple[str, ...]]:
        """Of each length the arguments and axes that always have it."""
        rows = range(len(self.history.rows))
        sizes = {
            part: [self._size(row, part) for row in rows]
            for part in self.column.parts
            if part.axis >= 0
        }
        return [
            tuple(f"{p.path} axis {p.axis}" for p, own in sizes.items() if own == sizes[part])
            for part in self.dims
        ]

    def _calls(self, sizes: Mapping[int, _Sized]) -> dict[_Sized, int] | None:
        found: dict[_Sized, int] = {}
        for row in self.rows:
            size = sizes[self.column.values[row]]
            found[size] = found.get(size, 0) + (self.history.rows[row].miss.calls or 0)
        return found if all(found.values()) else None

    def padded(self, sizes: Mapping[int, _Sized], to: Callable[[_Sized], _Sized]) -> Mapped:
        """The values of the column once each size is padded to another."""
        found = {value: to(size) for value, size in sizes.items()}
        first = {size: value for value, size in reversed(found.items())}
        number = max(self.column.values) + 1
        return tuple(first[found[v]] if v in found else v for v in range(number))

    def cost(self) -> Callable[[int], float]:
        """Elements of the arrays that have this axis, by its size."""
        rows = self.history.rows
        keys = rows[0].miss.key, rows[-1].miss.key
        leaves = {leaf.path: leaf for key in keys for leaf in key.leaves}
        axes: dict[str, set[int]] = {}
        for part in self.column.parts:
            axes.setdefault(part.path, set()).add(part.axis)
        terms = [
            (prod(s for i, s in enumerate(leaves[path].shape) if i not in own), len(own))
            for path, own in axes.items()
            if path in leaves
        ]
        terms = [term for term in terms if term[0]] or [(1, 1)]
        return lambda size: float(sum(rest * size**power for rest, power in terms))


def _called(history: History, column: Column) -> list[int]:
    """The rows that the user's calls made, where these have several sizes.

    What is traced inside another function has the sizes of that one's arguments.
    """
    rows = range(len(history.rows))
    own = [row for row in rows if not history.rows[row].miss.nested]
    return own if len({column.values[row] for row in own}) > 1 else list(rows)

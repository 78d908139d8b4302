"""An axis that has many sizes at one call site, and its size in each row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import TypeVar

from retrace.model import Function, Verdict
from retrace.model.advice import PadShape
from retrace.plan.corners import Size
from retrace.plan.history import Column, History, Part
from retrace.plan.joint import lengths, rows_with, sizes_of
from retrace.plan.replay import Mapped

_Sized = TypeVar("_Sized", int, Size)


class Axis:
    """A column of sizes in a history."""

    def __init__(self, index: int, number: int, history: History, column: Column) -> None:
        self.at = (index, number)
        self.history, self.column = history, column
        parts = [part for part in column.parts if part.axis >= 0]
        self._sizes = sizes = sizes_of(history, parts)
        self.part = max(parts, key=lambda part: (len(set(sizes[part])), -part.axis))
        self.dims = lengths(history, parts)
        """One axis for each independent length."""
        # A symbolic size is no length: it is traced on its own, whatever is padded.
        self.rows = [row for row in _called(history, column) if sizes[self.part][row] >= 0]
        self.sizes: dict[int, int] = {}
        """The size for each value of the column."""
        self.corners: dict[int, Size] = {}
        """The sizes of all independent lengths, for each value of the column; 0 if absent."""
        there = [rows_with(history, part, sizes) for part in self.dims]
        for row in self.rows:
            value = column.values[row]
            self.sizes.setdefault(value, sizes[self.part][row])
            own = [
                sizes[part][row] if row in rows else 0
                for part, rows in zip(self.dims, there, strict=True)
            ]
            self.corners.setdefault(value, tuple(own))

    @property
    def function(self) -> tuple[str, str | None]:
        """The function, the same in all processes, and how JAX derived its programs."""
        first = self.history.rows[0].miss
        return first.function.site, first.derived

    @cached_property
    def advised(self) -> list[PadShape]:
        """The advice to pad, of all rows."""
        return [row.fix for row in self.history.rows if isinstance(row.fix, PadShape)]

    @cached_property
    def advised_here(self) -> list[PadShape]:
        """The advice that is about the arrays of this axis only."""
        own = {part.path for part in self.column.parts}
        return [one for one in self.advised if own.issuperset(one.paths)]

    @property
    def names(self) -> tuple[str, ...]:
        """Each axis as `batch['x'] axis 0`."""
        parts = sorted(self.column.parts, key=lambda part: part is not self.part)
        return tuple(f"{part.path} axis {part.axis}" for part in parts if part.axis >= 0)

    @property
    def others(self) -> list[Part]:
        """Axes whose size differs from that of the main axis but follows from it."""
        own = self._sizes[self.part]
        return [part for part, sizes in self._sizes.items() if sizes != own]

    @property
    def in_order(self) -> list[int]:
        """The distinct sizes, in order of appearance."""
        return list(dict.fromkeys(self.sizes[self.column.values[row]] for row in self.rows))

    def calls(self) -> dict[int, int] | None:
        """How often each size was called, or None if calls were not counted."""
        return self._calls(self.sizes)

    def calls_of_corners(self) -> dict[Size, int] | None:
        """How often each combination of sizes was called, or None if calls were not counted."""
        return self._calls(self.corners)

    def lengths(self) -> Iterator[tuple[Verdict, Size]]:
        """Each row with its size."""
        for row in self.rows:
            yield self.history.rows[row], (self.sizes[self.column.values[row]],)

    def lengths_together(self) -> Iterator[tuple[Verdict, Size]]:
        """Each row with its sizes of all independent lengths."""
        for row in self.rows:
            yield self.history.rows[row], self.corners[self.column.values[row]]

    def same_lengths(self) -> list[tuple[str, ...]]:
        """For each length, the arguments and axes that always have it."""
        sizes = self._sizes
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
        """The values of the column after padding each size with `to`."""
        found = {value: to(size) for value, size in sizes.items()}
        first = {size: value for value, size in reversed(found.items())}
        number = max(self.column.values) + 1
        return tuple(first[found[v]] if v in found else v for v in range(number))

    def cost(self) -> Callable[[int], float]:
        """The number of elements in the arrays that have this axis, as a function of its size."""
        rows = self.history.rows
        keys = rows[0].miss.key, rows[-1].miss.key
        leaves = {leaf.path: leaf for key in keys for leaf in key.leaves}
        axes: dict[str, set[int]] = {}
        for part in self.column.parts:
            axes.setdefault(part.path, set()).add(part.axis)
        rests: dict[int, int] = {}
        """The elements beside the axis, by its power: an array may have it several times."""
        for path, own in axes.items():
            if path in leaves:
                others = (s for i, s in enumerate(leaves[path].shape) if i not in own)
                rest = prod(s for s in others if isinstance(s, int))
                rests[len(own)] = rests.get(len(own), 0) + rest
        terms = [(rest, power) for power, rest in rests.items() if rest] or [(1, 1)]
        return lambda size: float(sum(rest * size**power for rest, power in terms))


def _called(history: History, column: Column) -> list[int]:
    """The rows that the user's calls made, where these have several sizes.

    What is traced inside another function has the sizes of that one's arguments.
    """
    rows = range(len(history.rows))
    own = [row for row in rows if not history.rows[row].miss.nested]
    return own if len({column.values[row] for row in own}) > 1 else list(rows)


def names_of(axes: Sequence[Axis]) -> tuple[str, ...]:
    """Each axis as `x axis 0`, as `vmap(score): x axis 1` if it is another one elsewhere.

    What is padded is one array in each function: not both axes in both.
    """
    by_path: dict[str, dict[int, set[int]]] = {}
    for axis in axes:
        for part in axis.column.parts:
            if part.axis >= 0:
                own = by_path.setdefault(part.path, {})
                own.setdefault(axis.at[0], set()).add(part.axis)
    others = {path for path, own in by_path.items() if len(set(map(frozenset, own.values()))) > 1}
    calls = {axis.at[0]: _called_as(axis.history.function) for axis in axes}
    shared = Counter(calls.values())
    found: dict[str, None] = {}
    for axis in axes:
        who, function = calls[axis.at[0]], axis.history.function
        at = f" at line {function.line}" if shared[who] > 1 else ""
        for name in axis.names:
            path = name.rpartition(" axis ")[0]
            found[f"{who}{at}: {name}" if path in others else name] = None
    return tuple(found)


def _called_as(function: Function) -> str:
    """A function and what it was transformed by: `vmap(score)`."""
    return f"{''.join(f'{one}(' for one in function.wrappers)}{function.name}" + ")" * len(
        function.wrappers
    )

"""Leaves that share their column: those that had one shape in each key so far.

The leaves of a batch change together. While they do, one column stands for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from retrace.compare.columns import Column
from retrace.model import Component, Dim, Leaf

Place: TypeAlias = tuple[Component, str]
Shape: TypeAlias = tuple[Dim, ...]


class _Bundle(NamedTuple):
    positions: tuple[int, ...]
    of: Callable[[Sequence[Shape]], Any]
    """The shapes of the bundle among those of all leaves."""
    first: Shape
    place: Place
    """That of its first leaf."""


class Alike:
    """The bundles of a structure."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves = leaves
        self._bundles = self._bundled(range(len(leaves)), [leaf.shape for leaf in leaves])
        self.numbers = {one.place: len(one.positions) for one in self._bundles}
        """How many leaves a column stands for, by its place."""

    def different(
        self, leaves: Sequence[Leaf], columns: dict[Place, Column]
    ) -> dict[Place, Hashable]:
        """The shapes unlike those of the first key, by place; bundles may part.

        Args:
            leaves: of a key, in the order of the first one's.
            columns: of shapes; where a bundle parts, its column is copied.
        """
        shapes = [leaf.shape for leaf in leaves]
        found: dict[Place, Hashable] = {}
        for bundle in self._bundles:
            shape = shapes[bundle.positions[0]]
            number = len(bundle.positions)
            if number > 1 and bundle.of(shapes).count(shape) != number:
                self._part(shapes, columns)
                return self.different(leaves, columns)
            if shape != bundle.first:
                found[bundle.place] = shape
        return found

    def part_all(self, columns: dict[Place, Column]) -> None:
        """Give each leaf a column of its own."""
        self._part(range(len(self._leaves)), columns)

    def _part(self, values: Sequence[Hashable], columns: dict[Place, Column]) -> None:
        parted: list[_Bundle] = []
        for bundle in self._bundles:
            parts = self._bundled(bundle.positions, values)
            column = columns.get(bundle.place) if len(parts) > 1 else None
            if column is not None:
                columns.update({part.place: column.copy() for part in parts})
            parted += parts
        self._bundles = parted
        self.numbers = {one.place: len(one.positions) for one in parted}

    def _bundled(self, positions: Iterable[int], values: Sequence[Hashable]) -> list[_Bundle]:
        found: dict[Hashable, list[int]] = {}
        for position in positions:
            found.setdefault(values[position], []).append(position)
        return [
            _Bundle(
                tuple(own),
                itemgetter(*own),
                self._leaves[own[0]].shape,
                (Component.SHAPE, self._leaves[own[0]].path),
            )
            for own in found.values()
        ]

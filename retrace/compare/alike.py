"""Leaves that share one column, because they have had the same shape in every key so far.

The leaves of a batch change together. While they do, one column represents all of them.
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
    select: Callable[[Sequence[Shape]], Any]
    """Picks the shapes of the bundle out of those of all leaves."""
    first: Shape
    place: Place
    """The place of its first leaf."""


class Bundles:
    """The bundles of one tree structure."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves = leaves
        self._bundles = self._bundled(range(len(leaves)), [leaf.shape for leaf in leaves])
        self.sizes = {bundle.place: len(bundle.positions) for bundle in self._bundles}
        """How many leaves a column represents, by its place."""

    def differing(
        self, shapes: Sequence[Shape], columns: dict[Place, Column]
    ) -> dict[Place, Hashable]:
        """Return the shapes that differ from the first key's, by place; may split bundles.

        Args:
            shapes: those of a key, in the order of the first key's leaves.
            columns: the columns of shapes; if a bundle splits, its column is copied.
        """
        found: dict[Place, Hashable] = {}
        for bundle in self._bundles:
            shape = shapes[bundle.positions[0]]
            size = len(bundle.positions)
            if size > 1 and bundle.select(shapes).count(shape) != size:
                self._split(shapes, columns)
                return self.differing(shapes, columns)
            if shape != bundle.first:
                found[bundle.place] = shape
        return found

    def split_all(self, columns: dict[Place, Column]) -> None:
        """Give each leaf its own column."""
        self._split(range(len(self._leaves)), columns)

    def _split(self, values: Sequence[Hashable], columns: dict[Place, Column]) -> None:
        result: list[_Bundle] = []
        for bundle in self._bundles:
            parts = self._bundled(bundle.positions, values)
            column = columns.get(bundle.place) if len(parts) > 1 else None
            if column is not None:
                columns.update({part.place: column.copy() for part in parts})
            result += parts
        self._bundles = result
        self.sizes = {bundle.place: len(bundle.positions) for bundle in result}

    def _bundled(self, positions: Iterable[int], values: Sequence[Hashable]) -> list[_Bundle]:
        groups: dict[Hashable, list[int]] = {}
        for position in positions:
            groups.setdefault(values[position], []).append(position)
        return [
            _Bundle(
                tuple(own),
                itemgetter(*own),
                self._leaves[own[0]].shape,
                (Component.SHAPE, self._leaves[own[0]].path),
            )
            for own in groups.values()
        ]

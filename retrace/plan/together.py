"""Arrays that change together in every row of a history, like those of a batch.

A table of a thousand rows has cells for the first of them only: what holds for it holds for all.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from retrace.model import Leaf


class Together:
    """The arrays of a history's rows, in groups that have always changed together."""

    def __init__(self, rows: Sequence[tuple[Leaf, ...]] = ()) -> None:
        """`rows` holds the leaves of each row. If paths differ, no two are taken together."""
        self._kept: list[int] = []
        """The positions of the first array of each group; empty if each is its own."""
        self._paths: dict[str, list[str]] = {}
        """The paths of each group, by the first."""
        self._first: dict[str, str] = {}
        distinct = list({id(leaves): leaves for leaves in rows}.values())
        if len(distinct) < 2 or not _are_same_arrays(distinct):
            return
        paths = [leaf.path for leaf in distinct[0]]
        # The first of a group is also the first in the order of parts.
        for group in _groups(distinct, sorted(range(len(paths)), key=paths.__getitem__)):
            first = paths[group[0]]
            self._kept.append(group[0])
            self._paths[first] = [paths[at] for at in group]
            self._first |= dict.fromkeys(self._paths[first], first)

    def firsts(self, leaves: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
        """The first array of each group."""
        return tuple([leaves[at] for at in self._kept]) if self._kept else leaves

    def first(self, path: str) -> str:
        """The path of the first array that changes together with this one."""
        return self._first.get(path, path)

    def paths(self, first: str) -> Sequence[str]:
        """The paths of all arrays that change together with the first."""
        return self._paths.get(first, (first,))


def _are_same_arrays(rows: Sequence[tuple[Leaf, ...]]) -> bool:
    paths = [leaf.path for leaf in rows[0]]
    same = all([leaf.path for leaf in leaves] == paths for leaves in rows[1:])
    return same and 0 < len(paths) == len(set(paths))


def _groups(rows: Sequence[tuple[Leaf, ...]], positions: list[int]) -> list[list[int]]:
    """The positions, grouped by what the leaves there are in each row, except for their paths."""
    groups = [positions]
    for leaves in rows:
        after: list[list[int]] = []
        for group in groups:
            held = [leaves[at][1:] for at in group]
            if held.count(held[0]) == len(held):  # the case for nearly every row
                after.append(group)
                continue
            split: dict[Hashable, list[int]] = {}
            for at, value in zip(group, held, strict=True):
                split.setdefault(value, []).append(at)
            after += split.values()
        groups = after
    return groups

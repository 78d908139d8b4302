"""What the values of a miss look like: it chooses among earlier keys that are equally near."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice

from retrace.compare.columns import Column, least
from retrace.compare.equality import identity
from retrace.compare.values import leaves
from retrace.model import Key, Miss, Value
from retrace.model.parts import PASSED

_MAX_FIELDS = 256
"""Of one value: more would only slow a lookup."""


class Contents:
    """The fields of the values of many misses.

    An object that compares by identity is another one in each of them. The nearest miss is then
    the one whose object differs in the fewest fields: what else differs explains less.
    """

    def __init__(self) -> None:
        self._columns: dict[Hashable, Column] = {}
        self._last: tuple[Miss, list[tuple[Hashable, Hashable]]] | None = None

    def add(self, miss: Miss, row: int) -> None:
        """Note the fields of a miss."""
        for place, value in self._fields(miss):
            self._columns.setdefault(place, Column()).add(value, row)

    def most_alike(self, miss: Miss, pool: int, everyone: int) -> int:
        """Those of some rows that differ from a miss in the fewest fields."""
        differing: dict[int, int] = {}
        for place, value in self._fields(miss):
            column = self._columns.get(place)
            rows = everyone ^ (0 if column is None else column.holding(value))
            differing[rows] = differing.get(rows, 0) + 1
        return least(differing, pool, everyone)[1]

    def _fields(self, miss: Miss) -> list[tuple[Hashable, Hashable]]:
        # A miss is first looked up, then added.
        if self._last is None or self._last[0] is not miss:
            found: list[tuple[Hashable, Hashable]] = []
            for name, value in (*_passed(miss.key), *_held(miss)):
                parts = islice(leaves(value.data), _MAX_FIELDS)
                found += [((name, place), text) for place, text in parts]
            self._last = miss, found
        return self._last[1]


def held_values(miss: Miss) -> list[tuple[Hashable, Hashable]]:
    """What its function and the bodies of a loop close over, bind or have as defaults."""
    return [(name, identity(value)) for name, value in _held(miss)]


def looks(key: Key) -> Iterator[Hashable]:
    """What arguments and static fields that compare by identity look like."""
    for name, value in _passed(key):
        if value.token is not None and "#" in value.token:
            yield name, value.type, value.text


def _held(miss: Miss) -> Iterator[tuple[Hashable, Value]]:
    for function in (miss.function, *miss.bodies):
        for name, value in (*function.closure, *function.bound, *function.defaults):
            yield (function.site, name), value


def _passed(key: Key) -> Iterator[tuple[Hashable, Value]]:
    for row in PASSED:
        yield from row.of(key)
    for node in key.tree:
        for name, value in node.meta:
            yield (node.path, name), value

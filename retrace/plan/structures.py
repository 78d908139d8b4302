"""Which structures of an argument could be one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

from retrace.plan.history import Column, History, Part
from retrace.plan.programs import Classes
from retrace.plan.replay import Mapped
from retrace.reason.held import is_in


def structures(history: History, column: Column) -> Mapped:
    """What the structures of a column become: containers of other lengths stay what they are.

    A network with one layer more is passed in another list, and no call would pass both in one.
    Where the advice on a miss is about the structure, it is followed.
    """
    found = Classes()
    alike: dict[Hashable, int] = {}
    for row, value in enumerate(column.values):
        lengths = tuple([_length(history, row, part) for part in column.parts])
        found.join(alike.setdefault(lengths, value), value)
    known = {verdict.miss.id: row for row, verdict in enumerate(history.rows)}
    for row, verdict in enumerate(history.rows):
        near = verdict.nearest and known.get(verdict.nearest.id)
        advised = () if verdict.fix is None else verdict.fix.paths
        if near is not None and any(is_in(path, column.paths) for path in advised):
            found.join(column.values[near], column.values[row])
    return tuple(found.of(value) for value in range(max(column.values) + 1))


def _length(history: History, row: int, part: Part) -> int:
    """The number of children of a container; None and what a call leaves out have none."""
    value = history.value(row, part)
    if not isinstance(value, tuple):
        return 0
    _, children, _ = cast(tuple[object, tuple[object, ...], object], value)
    return len(children)

"""Which structures of an argument could be one, and which values with some others beside them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import cast

from retrace.model.advice import Advice, LeaveOutValue, OneStructure
from retrace.plan.history import Column, History, Part
from retrace.plan.programs import Classes
from retrace.plan.replay import Mapped
from retrace.reason.held import is_about, is_in


def structures(history: History, column: Column) -> Mapped:
    """What the structures of a column become: containers of other lengths stay what they are.

    A network with one layer more is passed in another list, and no call would pass both in one.
    Where the advice on a miss is to have one, it is followed, for those named beside as well.
    """
    found = Classes()
    alike: dict[Hashable, int] = {}
    for row, value in enumerate(column.values):
        lengths = tuple([_length(history, row, part) for part in column.parts])
        found.join(alike.setdefault(lengths, value), value)
    for row, near in _pairs(history):
        fix = history.rows[row].fix
        if fix is None:
            continue
        others = fix.others if isinstance(fix, OneStructure) else ()
        about = (*fix.paths, *(path for path, _ in others))
        if any(is_in(one, column.paths) for one in about):
            found.join(column.values[near], column.values[row])
    return tuple(found.of(value) for value in range(max(column.values) + 1))


def where_unread(history: History, column: Column) -> Mapped | None:
    """What values become that only some calls read: one for those of the others that miss.

    None if the advice is about all calls. The column tells the calls apart that do and do not.
    """
    if not any(_is_read_elsewhere(verdict.fix, column) for verdict in history.rows):
        return None
    found = Classes()
    for row, near in _pairs(history):
        if _is_read_elsewhere(history.rows[row].fix, column):
            found.join(column.values[near], column.values[row])
    return tuple(found.of(one) for one in range(max(column.values) + 1))


def with_branches(history: History, columns: list[Column]) -> list[Column]:
    """Columns in which values that only some calls read are others in the calls that do."""
    if not any(isinstance(one.fix, LeaveOutValue) and one.fix.read_with for one in history.rows):
        return columns
    found: list[Column] = []
    for column in columns:
        with_ = {
            name
            for verdict in history.rows
            if isinstance(verdict.fix, LeaveOutValue) and _is_read_elsewhere(verdict.fix, column)
            for name in verdict.fix.read_with
        }
        beside = [
            other.values
            for other in columns
            if other is not column and any(is_about(name, other.paths) for name in with_)
        ]
        numbers: dict[Hashable, int] = {}
        rows = zip(column.values, *beside, strict=True)
        values = [numbers.setdefault(row, len(numbers)) for row in rows]
        found.append(column._replace(values=values) if with_ else column)
    return found


def _is_read_elsewhere(advised: Advice | None, column: Column) -> bool:
    return (
        isinstance(advised, LeaveOutValue)
        and bool(advised.read_with)
        and any(is_in(path, column.paths) for path in advised.paths)
    )


def _pairs(history: History) -> Iterator[tuple[int, int]]:
    """Rows, each with that of the call that it is compared with."""
    known = {verdict.miss.id: row for row, verdict in enumerate(history.rows)}
    for row, verdict in enumerate(history.rows):
        if verdict.nearest is not None and verdict.nearest.id in known:
            yield row, known[verdict.nearest.id]


def _length(history: History, row: int, part: Part) -> int:
    """The number of children of a container; None and what a call leaves out have none."""
    value = history.value(row, part)
    if not isinstance(value, tuple):
        return 0
    _, children, _ = cast(tuple[object, tuple[object, ...], object], value)
    return len(children)

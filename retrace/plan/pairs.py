"""Pairs of programs of a function that differ only in one size."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping

from retrace.compare.programs import compare
from retrace.model import Function, Listing
from retrace.model.parts import OF_CONTEXT
from retrace.model.row import Row
from retrace.plan.axis import Axis
from retrace.plan.edits import VALUES

_NOT_OF_PROGRAMS = ("function", "clear", "again")
"""Families that may differ between two equal programs."""
_OF_VALUES = (*VALUES, *OF_CONTEXT, "state")


class Traced(Row):
    """The program of a row."""

    row: int
    listing: Listing


def program_pairs(axis: Axis, listings: Mapping[str, Listing]) -> Iterator[tuple[Traced, Traced]]:
    """Pairs of programs of a function that differ only in this size."""
    values = axis.column.values
    follows = len(set(values))
    others = [
        column
        for column in axis.history.columns
        if column.family not in _NOT_OF_PROGRAMS
        and len(set(zip(values, column.values, strict=True))) > follows
    ]
    known: dict[Hashable, Traced] = {}
    paired: set[int] = set()
    alone: list[tuple[Traced, Traced]] = []
    # A program for a single row may look different: nothing to broadcast or reduce over.
    for row in sorted(range(len(values)), key=lambda row: axis.sizes.get(values[row], 0) <= 1):
        program, listing = axis.history.rows[row].miss.program, _program(axis, row, listings)
        if listing is None:
            continue
        # The contents of a captured device array are unknown.
        rest = (program and program.arrays, *(column.values[row] for column in others))
        traced = Traced(row, listing)
        first = known.setdefault(rest, traced)
        # A function that is new each time may hold another number, which is not the size.
        alike = known.setdefault((rest, _held(axis.history.rows[row].miss.function)), traced)
        if values[alike.row] != values[row]:
            paired.add(values[row])
            yield alike, traced
        elif values[first.row] != values[row]:
            alone.append((first, traced))
    yield from (pair for pair in alone if values[pair[1].row] not in paired)


def covers_all(axis: Axis, rows: Collection[int], listings: Mapping[str, Listing]) -> bool:
    """Whether programs of all calls with the axis do what these rows' do, for all that is known.

    A call with another flag or structure takes another way through Python. If it came in one size
    only, nothing shows what its program does with padding.
    """
    beside = [one for one in axis.history.columns if one.family in _BRANCHED]
    known: dict[Hashable, int] = {}
    for row in rows:
        known.setdefault(tuple(column.values[row] for column in beside), row)
    shown = [_program(axis, row, listings) for row in known.values()][:_MAX_BRANCHES]
    for row in axis.rows:
        branch = tuple(column.values[row] for column in beside)
        if branch in known:
            continue
        if len(known) > _MAX_BRANCHES:
            return False
        known[branch] = row
        own = _program(axis, row, listings)
        if own is None or not any(
            one is not None and compare(one, own, listings).kind in _SAME_WAY for one in shown
        ):
            return False
    return True


_BRANCHED = (*VALUES, "tree", "signature")
_SAME_WAY = ("identical", "constants-only", "shapes-only")
_MAX_BRANCHES = 16


def _program(axis: Axis, row: int, listings: Mapping[str, Listing]) -> Listing | None:
    program = axis.history.rows[row].miss.program
    return None if program is None else listings.get(program.listing or "")


def differ_besides(axis: Axis, before: Traced, after: Traced) -> bool:
    """Whether values differ besides sizes: a number in the programs may follow from those."""
    values = (column.values for column in axis.history.columns if column.family in _OF_VALUES)
    functions = [axis.history.rows[one.row].miss.function for one in (before, after)]
    return any(one[before.row] != one[after.row] for one in values) or (
        len({*map(_held, functions)}) > 1
    )


def _held(function: Function) -> str:
    """What a function holds and reads besides its arguments, as far as that is shown."""
    parts = (function.closure, function.defaults, function.bound, function.reads)
    return repr([(name, value.text, value.data) for part in parts for name, value in part])

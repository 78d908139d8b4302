"""Which values of a column may share a program, though no calls show it."""

from __future__ import annotations

from collections.abc import Mapping

from retrace.compare.values import Difference, differences
from retrace.model import Listing
from retrace.plan.edits import VALUES
from retrace.plan.history import Column, History
from retrace.plan.programs import are_apart, served, value_at
from retrace.plan.replay import Mapped


def at_best(
    history: History, column: Column, mapped: Mapped, listings: Mapping[str, Listing]
) -> Mapped:
    """Values that may share a program, if some of them are known to (`mapped`).

    A number, or a function that is created again, may only have been passed along with another
    size, so that its program was never compared with that of the others.
    """
    if column.family not in VALUES or not 1 < len(set(mapped)) < len(mapped):
        return mapped
    programs, _ = served(history, column, listings)
    found: list[int] = []
    for value, shared_with in enumerate(mapped):
        own = [programs[one] for one, other in enumerate(mapped) if other == shared_with]
        for other in dict.fromkeys(found):
            known = [programs[one] for one, to in enumerate(found) if to == other]
            if _may_be_one(history, column, value, other) and not any(
                are_apart(a, b) for a in own for b in known
            ):
                shared_with = other
                break
        found.append(shared_with)
    return tuple(found)


def _may_be_one(history: History, column: Column, one: int, other: int) -> bool:
    """Whether two values look the same, or differ only in Python numbers."""
    misses = [history.rows[column.values.index(value)].miss for value in (one, other)]
    if len({miss.program and miss.program.arrays for miss in misses}) > 1:
        return False  # arrays in them are not read: the programs show which ones they captured
    for part in column.parts:
        old, new = (value_at(miss, part) for miss in misses)
        if old is None or new is None or old.type != new.type:
            return False
        if not all(_are_numbers(found) for found in differences(old, new)):
            return False
    return True


def _are_numbers(found: Difference) -> bool:
    return {type(found.old), type(found.new)} <= {int, float}

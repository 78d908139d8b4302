"""Which values of a column may share a program, though no calls show it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from retrace.compare.values import Difference, differences
from retrace.model import Miss
from retrace.plan.edits import VALUES
from retrace.plan.history import Column, History
from retrace.plan.programs import are_apart, value_at
from retrace.plan.replay import Mapped

_MAX_COMPARED = 8
"""Maximum number of values that each is compared with."""


def at_best(
    history: History,
    column: Column,
    mapped: Mapped,
    programs: Mapping[int, Mapping[Hashable, set[int]]],
    left_out: Collection[str] = (),
) -> Mapped:
    """Values that may share a program, if some of them are known to (`mapped`).

    A number, or a function that is created again, may only have been passed along with another
    size, so that its program was never compared with that of the others. So may anything that
    is left out of the key (`left_out`).
    """
    if column.family not in VALUES or not 1 < len(set(mapped)) < len(mapped):
        return mapped
    first: dict[int, Miss] = {}
    for value, verdict in zip(column.values, history.rows, strict=True):
        first.setdefault(value, verdict.miss)
    own: dict[int, dict[Hashable, set[int]]] = {}
    for value, shared_with in enumerate(mapped):
        for place, found in programs[value].items():
            own.setdefault(shared_with, {}).setdefault(place, set()).update(found)
    joined: dict[int, int] = {}
    for one in dict.fromkeys(mapped):
        known = [other for other in joined if joined[other] == other][:_MAX_COMPARED]
        for other in known:
            if _may_be_one(column, first[one], first[other], left_out) and not are_apart(
                own.get(one, {}), own.get(other, {})
            ):
                joined[one] = other
                for place, found in own.get(one, {}).items():
                    own.setdefault(other, {}).setdefault(place, set()).update(found)
                break
        else:
            joined[one] = one
    return tuple([joined[shared_with] for shared_with in mapped])


def _may_be_one(column: Column, one: Miss, other: Miss, left_out: Collection[str]) -> bool:
    """Whether two values look the same, or differ only in Python numbers."""
    if len({miss.program and miss.program.arrays for miss in (one, other)}) > 1:
        return False  # arrays in them are not read: the programs show which ones they captured
    for part in column.parts:
        if part.path in left_out:
            continue
        old, new = value_at(one, part), value_at(other, part)
        if old is None or new is None or old.type != new.type:
            return False
        if not all(_are_numbers(found) for found in differences(old, new)):
            return False
    return True


def _are_numbers(found: Difference) -> bool:
    return {type(found.old), type(found.new)} <= {int, float}

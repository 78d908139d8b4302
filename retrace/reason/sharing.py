"""Which values share a program when calls also differ in other things.

Calls that differ in something else have separate programs and say nothing about each other. So
each set of calls that differ only in this value is looked at on its own: two values share a
program if they did in one such set and had different programs in none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeAlias, TypeVar

_Value = TypeVar("_Value", bound=Hashable)
Programs: TypeAlias = Mapping[Hashable, Collection[Hashable]]
"""For each set of calls, the programs that the value had there."""


def shared(programs: Mapping[_Value, Programs]) -> list[list[_Value]]:
    """The values grouped by program, in order of appearance.

    Args:
        programs: for each value, its programs in each set of calls; programs of different sets
            are never compared.
    """
    groups: list[_Group[_Value]] = []
    served: dict[Hashable, list[_Group[_Value]]] = defaultdict(list)
    for value, own in programs.items():
        places = [(calls, program) for calls, found in own.items() for program in found]
        known = (group for place in places for group in served[place] if group.may_hold(own))
        if (group := next(known, None)) is None:
            groups.append(group := _Group())
        group.add(value, own)
        for place in places:
            served[place].append(group)
    return [group.values for group in groups]


class _Group(Generic[_Value]):
    """Values that share a program."""

    def __init__(self) -> None:
        self.values: list[_Value] = []
        self._programs: dict[Hashable, set[Hashable]] = {}

    def add(self, value: _Value, programs: Programs) -> None:
        """Add a value with its programs."""
        self.values.append(value)
        for calls, found in programs.items():
            self._programs.setdefault(calls, set()).update(found)

    def may_hold(self, programs: Programs) -> bool:
        """Whether no member of the group is known to have a different program."""
        return all(
            calls not in self._programs or not self._programs[calls].isdisjoint(found)
            for calls, found in programs.items()
        )

"""Which values share a program, where calls differ in other things as well.

Calls that differ in something else have programs of their own, and tell nothing of each other.
So each set of calls that differ in the one value alone is looked at by itself: two values share
a program where they did in one such set, and were seen apart in none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeAlias, TypeVar

_Value = TypeVar("_Value", bound=Hashable)
Programs: TypeAlias = Mapping[Hashable, Collection[Hashable]]
"""By set of calls, the programs that a value had there."""


def shared(programs: Mapping[_Value, Programs]) -> list[list[_Value]]:
    """The values by program, in the order in which they come.

    Args:
        programs: of each value the programs that it had in each set of calls; programs of two
            sets are never compared.
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
        """Take in a value with its programs."""
        self.values.append(value)
        for calls, found in programs.items():
            self._programs.setdefault(calls, set()).update(found)

    def may_hold(self, programs: Programs) -> bool:
        """Whether a value of these programs was nowhere seen apart from those in the group."""
        return all(
            calls not in self._programs or not self._programs[calls].isdisjoint(found)
            for calls, found in programs.items()
        )

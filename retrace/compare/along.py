"""What a program does along an axis: whether rows may be added at its end, and what to mask.

Two programs of one function that were traced for two sizes are held side by side, equation by
equation. An axis whose size differs between them is one of those that would be padded, wherever
it stands: nothing has to be followed. What an equation does along such an axis tells whether the
rows that were there before keep their results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from retrace.compare.axes import Equation, doing, equation
from retrace.compare.equation import inner
from retrace.compare.source_lines import place
from retrace.model import Frame, Listing

_DEEPEST = 40
_MOST = 100_000
"""Equations that are held side by side."""
_MOST_TOLD = 8


class Step(NamedTuple):
    """An equation that goes along the axis."""

    primitive: str | None
    """None of one that computes with the size itself, as a mean does."""
    place: Frame | None
    """The user's line, where it is known."""


class Along(NamedTuple):
    """What is done along an axis."""

    masked: tuple[Step, ...] = ()
    """What adds up, multiplies or compares over it: what is added can be masked."""
    ordered: tuple[Step, ...] = ()
    """What depends on where something stands, or on how much there is: loops over it, sums so
    far, sorts, convolutions, random numbers for each."""
    whole: bool = True
    """Whether all equations are known; else there may be more of both."""

    @property
    def separate(self) -> bool:
        """Whether each row keeps its results, whatever is added after the last."""
        return self.whole and not self.masked and not self.ordered

    def also(self, other: Along) -> Along:
        """What either does."""
        return Along(
            _few((*self.masked, *other.masked)),
            _few((*self.ordered, *other.ordered)),
            self.whole and other.whole,
        )


UNKNOWN = Along(whole=False)


def along(
    old: Listing, new: Listing, listings: Mapping[str, Listing], *, stable: bool = False
) -> Along:
    """What two programs of one function, traced for two sizes, do along the axes that differ.

    Args:
        old: one program.
        new: the other, which differs in sizes alone.
        listings: the sub-programs, by id.
        stable: whether a random number depends on its place alone, and not on how many there are
            (`jax_threefry_partitionable`).

    Returns:
        what they do; nothing is known where they differ in more than sizes, or in none.
    """
    return UNKNOWN if old.inputs == new.inputs else _Walk(listings, stable).programs(old, new)


class _Walk:
    def __init__(self, listings: Mapping[str, Listing], stable: bool) -> None:
        self._listings = listings
        self._stable = stable
        self._seen: set[tuple[str, str]] = set()
        self._walked = 0

    def programs(self, old: Listing, new: Listing, deep: int = 0) -> Along:
        if (old.id, new.id) in self._seen:
            return Along()
        self._seen.add((old.id, new.id))
        self._walked += len(old.equations)
        pairs = _paired(old, new)
        if pairs is None or deep > _DEEPEST or self._walked > _MOST:
            return UNKNOWN
        masked: list[Step] = []
        ordered: list[Step] = []
        whole = True
        for index, one in enumerate(pairs):
            if one is None:
                return UNKNOWN
            step = Step(None if one.literal else one.name, place(new, index))
            what = doing(one, self._stable)
            if what == "masked":
                masked.append(step)
            elif what == "ordered":
                ordered.append(step)
            elif what == "unknown":
                whole = False
            found = Along(_few(masked), _few(ordered), whole)
            called = self._called(old, new, index, deep)
            masked, ordered = [*found.masked, *called.masked], [*found.ordered, *called.ordered]
            whole = found.whole and called.whole
        return Along(_few(masked), _few(ordered), whole)

    def _called(self, old: Listing, new: Listing, index: int, deep: int) -> Along:
        found = Along()
        names = inner(old.equations[index]), inner(new.equations[index])
        for a, b in zip(*names, strict=False):
            before = self._listings.get(old.inner.get(a, ""))
            after = self._listings.get(new.inner.get(b, ""))
            if before is None or after is None:
                return UNKNOWN
            if before.id != after.id:
                found = found.also(self.programs(before, after, deep + 1))
        return found


def _few(steps: tuple[Step, ...] | list[Step]) -> tuple[Step, ...]:
    return tuple(dict.fromkeys(steps))[:_MOST_TOLD]


def _paired(old: Listing, new: Listing) -> list[Equation | None] | None:
    """The equations side by side; None in place of those of two forms, or of all."""
    if len(old.equations) != len(new.equations) or old.wires != new.wires:
        return None
    if len(old.inputs) != len(new.inputs) or old.constants != new.constants:
        return None  # of a captured array that follows a size, the rows may be others
    types = [list(old.inputs), list(new.inputs)]
    wires = iter(old.wires)
    found: list[Equation | None] = []
    for a, b in zip(old.equations, new.equations, strict=True):
        found.append(equation(a, b, types, wires))
    return found

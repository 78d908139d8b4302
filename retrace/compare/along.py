"""What a program does along an axis: whether rows may be added at its end, and what to mask.

Two programs of one function that were traced for two sizes are compared equation by
equation. An axis whose size differs between them is one of those that would be padded, wherever
it stands: nothing has to be followed. What an equation does along such an axis tells whether the
rows that were there before keep their results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from retrace.compare.axes import Doing, doing, equation, wired
from retrace.compare.equation import inner
from retrace.compare.source_lines import place
from retrace.model import Frame, Key, Listing

_DEEPEST = 40
_MAX_EQUATIONS = 100_000
"""Maximum number of equations compared."""
_MAX_TOLD = 8


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


def is_drawn_by_place(key: Key) -> bool:
    """Whether a random number depends on its place alone, and not on how many there are."""
    drawn = dict(key.config).get("jax_threefry_partitionable")
    return drawn is not None and drawn.data is True


def along(
    old: Listing, new: Listing, listings: Mapping[str, Listing], *, stable: bool = False
) -> Along:
    """What two programs of one function, traced for two sizes, do along the axes that differ.

    Args:
        old: one program.
        new: the other, which differs in sizes alone.
        listings: the sub-programs, by id.
        stable: `is_drawn_by_place`.

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
        self._known: dict[tuple[object, ...], tuple[Doing, str | None] | None] = {}
        """What equations do: those of one layer are those of the next."""

    def programs(self, old: Listing, new: Listing, deep: int = 0) -> Along:
        if (old.id, new.id) in self._seen:
            return Along()
        self._seen.add((old.id, new.id))
        self._walked += len(old.equations)
        if not _are_alike(old, new) or deep > _DEEPEST or self._walked > _MAX_EQUATIONS:
            return UNKNOWN
        # A result that is the size itself, or another result for another size.
        found = Along(whole=old.outputs == new.outputs)
        for index, what in enumerate(self._each(old, new)):
            if what is None:
                return UNKNOWN
            done, name = what
            if done == "unknown":
                found = found._replace(whole=False)
            elif done != "nothing":
                step = (Step(name, place(new, index)),)
                found = found.also(Along(step) if done == "masked" else Along(ordered=step))
            if "@" in new.equations[index]:
                found = found.also(self._called(old, new, index, deep))
        return found

    def _each(self, old: Listing, new: Listing) -> Iterator[tuple[Doing, str | None] | None]:
        """What each equation does, and its primitive; None where it is another one."""
        before, after = list(old.inputs), list(new.inputs)
        position = 0
        for a, b in zip(old.equations, new.equations, strict=True):
            taken, made = wired(a)
            wires = old.wires[position : position + taken]
            position += taken
            if len(wires) < taken or max(wires, default=-1) >= min(len(before), len(after)):
                yield None
                return
            types = [(before[wire], after[wire]) for wire in wires]
            key = (a, b, *types)
            if key not in self._known:
                self._known[key] = self._done(a, b, types)
            yield self._known[key]
            before += made
            after += wired(b)[1]

    def _done(
        self, a: str, b: str, types: list[tuple[str, str]]
    ) -> tuple[Doing, str | None] | None:
        one = equation(a, b, types)
        if one is None:
            return None
        return doing(one, self._stable), None if one.literal else one.name

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
    return tuple(dict.fromkeys(steps))[:_MAX_TOLD]


def _are_alike(old: Listing, new: Listing) -> bool:
    """Whether two programs are of one form, as far as their wiring goes."""
    return (
        len(old.equations) == len(new.equations)
        and old.wires == new.wires
        and len(old.inputs) == len(new.inputs)
        # Of a captured array that follows a size, the rows may be others.
        and old.constants == new.constants
    )

"""Operations that XLA inherently compiles slowly, by source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from retrace.compare.equation import inner, primitive
from retrace.compare.source_lines import place
from retrace.costs.constants import size
from retrace.model import Frame, Listing

_KINDS = ("sort", "scatter", "fft", "conv_general", "reduce_window", "select_and_scatter")
_MAX_EQUATIONS = 1_000_000
"""Maximum number of equations visited: a hostile recording may nest programs endlessly."""


class Heavy(NamedTuple):
    """All such operations of one kind on one line."""

    frame: Frame | None
    primitive: str
    number: int
    """How often the line has it; in a sub-program, once for each call."""
    arrays: int
    """The largest number of arrays that one of them works on."""
    largest: str = ""
    """The type of the largest array that one of them returns; a `vmap` adds its axes."""

    @property
    def bytes(self) -> int:
        """The bytes of that array."""
        return size(self.largest)


def heavy(listing: Listing, listings: Mapping[str, Listing]) -> list[Heavy]:
    """A program's operations that are slow to compile, largest number first.

    More arrays weigh more: a sort moves all of its arrays in one kernel.
    """
    walk = _Walk(listings)
    walk.program(listing, 1, 0)
    found = [
        Heavy(frame, name, number, walk.arrays[frame, name], walk.largest[frame, name])
        for (frame, name), number in walk.number.items()
    ]
    return sorted(found, key=lambda one: -one.number * one.arrays)


class _Walk:
    def __init__(self, listings: Mapping[str, Listing]) -> None:
        self.number: Counter[tuple[Frame | None, str]] = Counter()
        self.arrays: dict[tuple[Frame | None, str], int] = {}
        self.largest: dict[tuple[Frame | None, str], str] = {}
        self._listings = listings
        self._budget = _MAX_EQUATIONS

    def program(
        self, listing: Listing, times: int, depth: int, around: Frame | None = None
    ) -> None:
        for index, text in enumerate(listing.equations):
            self._budget -= 1
            if self._budget < 0:
                return
            name = primitive(text)
            frame = None
            if name.startswith(_KINDS):
                frame = place(listing, index) or around
                key = (frame, name)
                self.number[key] += times
                made = [type_.removeprefix("~") for type_ in text.split("\t")[2].split()]
                self.arrays[key] = max(len(made), self.arrays.get(key, 0))
                self.largest[key] = max(self.largest.get(key, ""), *made, key=size)
                continue  # the function it applies to two elements is part of it
            if "@" not in text or depth >= 40:
                continue
            for hash_, copies in Counter(inner(text)).items():
                sub = self._listings.get(listing.inner.get(hash_, ""))
                if sub is not None:
                    here = place(listing, index) or around
                    self.program(sub, min(times * copies, 1 << 40), depth + 1, here)

"""Where two programs of the same equations differ: in the variables that these take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from retrace.compare.equation import inner, primitive
from retrace.compare.source_lines import Listings, place
from retrace.model import Frame, Listing
from retrace.model.row import Row

_MAX_DEPTH = 32


class Rewired(Row):
    """The first difference between two programs of the same equations."""

    what: Literal["inputs", "arguments", "results"]
    """What the program takes, what an equation takes, or what is returned."""
    primitive: str = ""
    """That of the equation which takes other variables."""
    place: Frame | None = None
    swapped: bool = False
    """Whether they are the same variables in another order."""


def rewired(old: Listing, new: Listing, listings: Listings) -> Rewired | None:
    """Find where `new` differs from `old`; None if their equations differ.

    Args:
        old: the earlier program.
        new: the later one.
        listings: the sub-programs of both, by id.
    """
    return _first(old, new, listings, 0)


def _first(old: Listing, new: Listing, listings: Listings, depth: int) -> Rewired | None:
    if len(old.equations) != len(new.equations) or depth > _MAX_DEPTH:
        return None
    if _inputs(old) != _inputs(new):
        return Rewired("inputs")
    pairs = zip(_taken(old), _taken(new), strict=True)
    for index, ((a, before), (b, after)) in enumerate(pairs):
        if a != b:
            # A hash that differs may be that of a sub-program of the same equations.
            for x, y in zip(inner(a), inner(b), strict=False):
                one, other = _sub_program(old, x, listings), _sub_program(new, y, listings)
                if x != y and one is not None and other is not None:
                    return _first(one, other, listings, depth + 1)
            return None
        if before != after:
            swapped = sorted(before) == sorted(after)
            return Rewired("arguments", primitive(a), place(new, index), swapped)
    if old.outputs != new.outputs:
        return Rewired("results", swapped=sorted(old.outputs) == sorted(new.outputs))
    return Rewired("inputs")


def _inputs(listing: Listing) -> tuple[int, int]:
    return len(listing.inputs), len(listing.constants)


def _sub_program(listing: Listing, hash_: str, listings: Listings) -> Listing | None:
    return listings.get((listing.inner or {}).get(hash_, ""))


def _taken(listing: Listing) -> Iterator[tuple[str, list[int]]]:
    """Each equation, with the variables that it takes."""
    position = 0
    for text in listing.equations:
        taken = text.split("\t", 2)[1].split(" ").count("$")
        yield text, list(listing.wires[position : position + taken])
        position += taken

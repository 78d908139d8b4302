"""Programs that were compiled several times, each time with an executable of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retrace.model import Miss, Stage


class Copies(NamedTuple):
    """One program that was compiled several times, and may be held as often."""

    misses: tuple[str, ...]
    bytes: int
    """Of the code, all of them together; 0 where that is not known, as on CPUs."""


def copies(miss: Miss, misses: Sequence[Miss]) -> Copies | None:
    """The same program compiled again, each with an executable of its own."""
    if miss.program is None or Stage.COMPILE not in miss.stages:
        return None
    same = [
        other
        for other in misses
        if other.run == miss.run
        and other.program is not None
        and other.program.hash == miss.program.hash
        and Stage.COMPILE in other.stages
        and other.raised is None
    ]
    if len(same) < 2:
        return None
    known = [one.slow.memory for one in same if one.slow is not None and one.slow.memory]
    return Copies(tuple(one.id for one in same), sum(one.code for one in known))

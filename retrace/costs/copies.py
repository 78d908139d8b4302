"""Programs that were compiled several times, each time with an executable of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrace.costs.constants import captured
from retrace.model import Listing, Miss, Recording, Stage

_FEWEST = 3
"""Executables of one program, from which on they are told whatever their size."""


class Copies(NamedTuple):
    """One program that was compiled several times, and may be held as often."""

    misses: tuple[str, ...]
    bytes: int
    """Of the code, all of them together; 0 where that is not known, as on CPUs."""
    constants: int
    """Bytes of captured arrays in all of them together: each executable has its own."""
    equations: int
    """Of one."""
    text: int
    """Characters of the StableHLO of one; 0 where that was not recorded."""
    seconds: float
    """That XLA took for all but the first."""
    differ: bool
    """Whether they captured other arrays, which may have other content."""

    @property
    def held(self) -> int:
        """Bytes that are known to be in all of them together."""
        return self.bytes + self.constants


def copies(miss: Miss, recording: Recording) -> Copies | None:
    """The same program compiled again, each with an executable of its own."""
    if miss.program is None or Stage.COMPILE not in miss.stages:
        return None
    same = [one for one in recording.misses if _is_compiled(one) and _of(one) == _of(miss)]
    return _counted(same, recording.listings) if len(same) > 1 else None


def duplicates(recording: Recording) -> list[Copies]:
    """The programs that were compiled three times or more, those that hold most first.

    However short it took; but only of processes in which slow misses were observed.
    """
    observed = {miss.run for miss in recording.misses if miss.slow is not None}
    same: dict[tuple[str, str], list[Miss]] = {}
    for miss in recording.misses:
        if miss.run in observed and _is_compiled(miss):
            same.setdefault(_of(miss), []).append(miss)
    found = [_counted(each, recording.listings) for each in same.values() if len(each) >= _FEWEST]
    return sorted(found, key=lambda one: (-one.held, -one.seconds))


def _is_compiled(miss: Miss) -> bool:
    return miss.program is not None and Stage.COMPILE in miss.stages and miss.raised is None


def _of(miss: Miss) -> tuple[str, str]:
    return miss.run, "" if miss.program is None else miss.program.hash


def _counted(same: Sequence[Miss], listings: Mapping[str, Listing]) -> Copies:
    slow = [one.slow for one in same if one.slow is not None]
    programs = [one.program for one in same if one.program is not None]
    listing = next((one.listing for one in programs if one.listing in listings), None)
    held = 0 if listing is None else captured(listings[listing], listings)
    return Copies(
        tuple(one.id for one in same),
        sum(one.memory.code for one in slow if one.memory is not None),
        held * len(same),
        max((one.equations for one in programs), default=0),
        max((one.module.size for one in slow if one.module is not None), default=0),
        sum(one.stages.get(Stage.COMPILE, 0.0) for one in same[1:]),
        len({(one.arrays, one.held) for one in programs}) > 1,
    )

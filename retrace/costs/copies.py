"""Programs that were compiled several times, each time to a separate executable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrace.costs.constants import captured
from retrace.model import Listing, Miss, Recording, Stage

_MIN_EXECUTABLES = 3
"""Minimum number of executables of one program to be reported, whatever its size."""


class Copies(NamedTuple):
    """A program that was compiled several times and may be held in memory as often."""

    misses: tuple[str, ...]
    bytes: int
    """Total bytes of the code, or 0 if unknown, as on CPUs."""
    constants: int
    """Total bytes of captured arrays: each executable has its own copy."""
    equations: int
    """Equations in one of them."""
    text: int
    """Characters of StableHLO in one of them, or 0 if not recorded."""
    seconds: float
    """Seconds XLA spent on all but the first compilation."""
    differ: bool
    """Whether they captured different arrays, which may differ in content."""

    @property
    def held(self) -> int:
        """Total bytes known to be held."""
        return self.bytes + self.constants


def copies(miss: Miss, recording: Recording) -> Copies | None:
    """Other compilations of the same program, each with its own executable."""
    if miss.program is None or Stage.COMPILE not in miss.stages:
        return None
    same = [one for one in recording.misses if _is_compiled(one) and _of(one) == _of(miss)]
    return _counted(same, recording.listings) if len(same) > 1 else None


def duplicates(recording: Recording) -> list[Copies]:
    """Programs compiled three times or more, those holding most memory first.

    Any compilation time counts, but only in processes that observed slow misses.
    """
    observed = {miss.run for miss in recording.misses if miss.slow is not None}
    same: dict[tuple[str, str], list[Miss]] = {}
    for miss in recording.misses:
        if miss.run in observed and _is_compiled(miss):
            same.setdefault(_of(miss), []).append(miss)
    found = [
        _counted(each, recording.listings)
        for each in same.values()
        if len(each) >= _MIN_EXECUTABLES
    ]
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

"""Where two runs spent their seconds: on what is new, gone or changed, and on the same work."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from retrace.model import Verdict
from retrace.runs.misses import Pair

_LEAST = 0.02
"""Seconds below which a miss says nothing of the speed of a machine."""
_MIN_MISSES = 8
"""A machine is called slower only if this many misses on the same work agree: fewer may be a
moment of load."""
_FACTOR = 1.5
"""Runs of the same work on one machine differ by as much, where others use it too."""
_AGREE = 0.8
"""Of the misses, this part must each be slower by as much, or faster."""


class Seconds(NamedTuple):
    """Seconds of two runs, each counted once."""

    old: float
    new: float
    gone: float
    """On misses that only the old one has."""
    added: float
    """On those that only the new one has."""
    changed: tuple[float, float]
    """On those with another key, another cause or another program."""
    stored: tuple[float, float]
    """On equal ones of which one was found on disk."""
    same: tuple[float, float]
    """On the same work."""
    slower: float | None
    """By what factor the new run took longer for each equal miss, where they agree; None where
    what differs is noise."""


def seconds(
    pairs: Sequence[Pair],
    gone: Sequence[Verdict],
    new: Sequence[Verdict],
    own: Callable[[Verdict], float],
) -> Seconds:
    """Where the seconds went.

    Args:
        pairs: the misses in both runs.
        gone: those of the old run alone.
        new: those of the new run alone.
        own: the seconds of a miss without those nested in it.
    """
    changed, stored, same = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    ratios: list[float] = []
    for pair in pairs:
        spent = own(pair.old), own(pair.new)
        into = same
        if pair.is_changed or _programs_differ(pair):
            into = changed
        elif _found(pair.old) != _found(pair.new):
            into = stored
        elif min(spent) >= _LEAST:
            ratios.append(spent[1] / spent[0])
        into[0] += spent[0]
        into[1] += spent[1]
    lost, more = sum(map(own, gone)), sum(map(own, new))
    return Seconds(
        lost + changed[0] + stored[0] + same[0],
        more + changed[1] + stored[1] + same[1],
        lost,
        more,
        (changed[0], changed[1]),
        (stored[0], stored[1]),
        (same[0], same[1]),
        _slower(ratios),
    )


def _found(verdict: Verdict) -> bool:
    cache = verdict.miss.persistent_cache
    return cache is not None and cache.outcome == "hit"


def _programs_differ(pair: Pair) -> bool:
    a, b = pair.old.miss.program, pair.new.miss.program
    return a is not None and b is not None and a.hash != b.hash


def _slower(ratios: list[float]) -> float | None:
    """The factor by which equal misses differ; None where that may be noise."""
    if len(ratios) < _MIN_MISSES:
        return None
    middle = statistics.median(ratios)
    if middle < 1:
        agree = sum(ratio <= 1 / _FACTOR for ratio in ratios)
    else:
        agree = sum(ratio >= _FACTOR for ratio in ratios)
    return middle if agree >= _AGREE * len(ratios) else None

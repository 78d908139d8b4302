"""Where two runs spent their seconds: on new, gone or changed misses, and on the same work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from retrace.model import Verdict
from retrace.runs.misses import Pair

_MIN_SECONDS = 0.02
"""Shorter misses say nothing about the speed of a machine."""
_MIN_MISSES = 8
"""Minimum number of misses on the same work that must agree before a machine is called slower;
fewer may only show a moment of load."""
_FACTOR = 1.5
"""Runs of the same work on a shared machine may differ by up to this factor."""
_MIN_AGREEMENT = 0.8
"""Fraction of the misses that must each be that much slower, or faster."""


class Seconds(NamedTuple):
    """Seconds of two runs, counted once."""

    old: float
    new: float
    gone: float
    """On misses found only in the old run."""
    added: float
    """On misses found only in the new run."""
    changed: tuple[float, float]
    """On misses with another key, cause or program."""
    stored: tuple[float, float]
    """On equal misses of which one was found on disk."""
    same: tuple[float, float]
    """On the same work."""
    slower: float | None
    """The factor by which equal misses took longer in the new run, if they agree; None if the
    difference may be noise."""


def seconds(
    pairs: Sequence[Pair],
    gone: Sequence[Verdict],
    new: Sequence[Verdict],
    own: Callable[[Verdict], float],
) -> Seconds:
    """Where the seconds went.

    Args:
        pairs: the misses in both runs.
        gone: misses found only in the old run.
        new: misses found only in the new run.
        own: the seconds of a miss, excluding misses nested in it.
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
        elif min(spent) >= _MIN_SECONDS:
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
    """The factor by which equal misses differ, or None if that may be noise."""
    if len(ratios) < _MIN_MISSES:
        return None
    import statistics  # 5 ms, and only two runs are compared

    middle = statistics.median(ratios)
    if middle < 1:
        agree = sum(ratio <= 1 / _FACTOR for ratio in ratios)
    else:
        agree = sum(ratio >= _FACTOR for ratio in ratios)
    return middle if agree >= _MIN_AGREEMENT * len(ratios) else None

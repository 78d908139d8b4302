"""How one function's seconds grow with the size of its program, over several misses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log
from typing import NamedTuple

from retrace.model import Miss, Stage
from retrace.model.parts import passed

_MIN_PROGRAMS = 3
_MIN_RANGE = 1.5
"""The largest program must be at least this many times the size of the smallest."""
_MIN_FIT = 0.9
_MIN_SECONDS = 0.05
"""Seconds; shorter stages are mostly overhead and not proportional to anything."""


class Point(NamedTuple):
    """One miss: its size and seconds."""

    miss: str
    equations: int
    seconds: float


class Growth(NamedTuple):
    """The law `seconds = factor * equations ** power`, fitted to points."""

    stage: Stage
    points: tuple[Point, ...]
    """Sorted by size."""
    power: float | None
    """None if no such law fits."""
    factor: float
    by: str | None = None
    """The only static argument that varies with the size."""
    by_power: float | None = None
    values: tuple[int, ...] = ()


def growth(misses: Iterable[Miss], stage: Stage) -> Growth | None:
    """How a stage grows over the misses of one function, or None if there are too few sizes."""
    of_size: dict[int, Miss] = {}
    for miss in misses:
        program = miss.program
        if program is None or miss.raised is not None or stage not in miss.stages:
            continue
        cache = miss.persistent_cache
        if stage is Stage.COMPILE and cache is not None and cache.outcome == "hit":
            continue
        known = of_size.get(program.equations)
        # Keep the fastest run of each size: disturbances only ever make it slower.
        if known is None or miss.stages[stage] < known.stages[stage]:
            of_size[program.equations] = miss
    sizes = sorted(
        size for size, miss in of_size.items() if size and miss.stages[stage] >= _MIN_SECONDS
    )
    if len(sizes) < _MIN_PROGRAMS or sizes[-1] < _MIN_RANGE * sizes[0]:
        return None
    found = [of_size[size] for size in sizes]
    spent = [miss.stages[stage] for miss in found]
    points = tuple(
        Point(miss.id, size, seconds)
        for miss, size, seconds in zip(found, sizes, spent, strict=True)
    )
    power, factor = _fit(sizes, spent)
    named = _argument(found)
    if named is None:
        return Growth(stage, points, power, factor)
    name, values = named
    return Growth(stage, points, power, factor, name, _fit(values, spent)[0], tuple(values))


def _argument(misses: Sequence[Miss]) -> tuple[str, list[int]] | None:
    """The only static argument that is a number and differs for each size."""
    found: list[tuple[str, list[int]]] = []
    for name in dict(passed(misses[0].key)):
        held = [dict(passed(miss.key)).get(name) for miss in misses]
        values = [
            one.data
            for one in held
            if one is not None and isinstance(one.data, int) and not isinstance(one.data, bool)
        ]
        if len(values) == len(misses) and len(set(values)) == len(values) and min(values) > 0:
            found.append((name, values))
    return found[0] if len(found) == 1 else None


def _fit(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float | None, float]:
    """The power and factor of a line fitted to the logarithms; None if the fit is poor."""
    xs, ys = [log(size) for size in sizes], [log(spent) for spent in seconds]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    if not spread:
        return None, 0.0
    power = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    factor = exp(mean_y - power * mean_x)
    total = sum((y - mean_y) ** 2 for y in ys)
    left = sum((y - log(factor) - power * x) ** 2 for x, y in zip(xs, ys, strict=True))
    fits = total > 0 and 1 - left / total >= _MIN_FIT
    return (power if fits else None), factor

"""Times two ways of doing the same thing alternately, so that drift affects both alike."""

from __future__ import annotations

import gc
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from time import perf_counter, thread_time
from typing import NamedTuple


class Ratio(NamedTuple):
    """How much longer `other` takes than `plain`."""

    name: str
    plain: float
    """Median seconds."""
    other: float
    """Median seconds."""
    ratio: float
    """Median of the ratios, pair by pair."""
    spread: tuple[float, float]
    """Quartiles of the ratios."""
    bound: float | None = None
    """Its maximum; None if it is only shown."""
    unit: str = "seconds"
    """The units of `plain` and `other`."""

    @property
    def holds(self) -> bool:
        """Whether the median is below the bound."""
        return self.bound is None or self.ratio <= self.bound


def compare(
    name: str,
    plain: Callable[[], float],
    other: Callable[[], float],
    pairs: int,
    bound: float | None = None,
) -> Ratio:
    """Time both alternately, `pairs` times; each call returns the seconds it took."""
    plain()
    other()
    rows: list[tuple[float, float]] = []
    for index in range(pairs):
        # Whoever goes first has a colder cache, so they also alternate in that.
        if index % 2:
            second = other()
            first = plain()
        else:
            first = plain()
            second = other()
        rows.append((first, second))
    ratios = sorted(second / first for first, second in rows)
    quarter = statistics.quantiles(ratios, n=4)
    return Ratio(
        name,
        statistics.median(first for first, _ in rows),
        statistics.median(second for _, second in rows),
        statistics.median(ratios),
        (quarter[0], quarter[2]),
        bound,
    )


def seconds(call: Callable[[], object]) -> float:
    """Seconds of one call, without garbage collection."""
    gc.disable()
    try:
        start = perf_counter()
        call()
        return perf_counter() - start
    finally:
        gc.enable()


def processor(call: Callable[[], object]) -> float:
    """Processor seconds of one call in this thread, without garbage collection."""
    gc.disable()
    try:
        start = thread_time()
        call()
        return thread_time() - start
    finally:
        gc.enable()


def process_seconds(arguments: list[str], environment: Mapping[str, str]) -> float:
    """Seconds of one whole process."""
    start = perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env=dict(environment),
    )
    return perf_counter() - start


def processor_seconds(arguments: list[str], environment: Mapping[str, str]) -> float:
    """Processor seconds of one whole process, which are steadier on a busy machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process_seconds(arguments, environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

"""A process with many misses: `python -m tests.benchmarks.trial`, one line per mark."""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from time import thread_time

import jax
import numpy as np

from retrace.capture.session import start, stop
from tests.benchmarks.inside import Inside, measured

_WARM_UP = 100
_RESIDENT = 1 if sys.platform == "darwin" else 1024
"""The unit in which the system reports resident memory, in bytes."""


def _shapes() -> Callable[[int], object]:
    """One function, called with a new shape each time."""
    step = jax.jit(lambda x: x + 1)
    return lambda index: step.trace(jax.ShapeDtypeStruct((index + 1,), np.float32))


def _lambdas() -> Callable[[int], object]:
    """A lambda that is created again for each call."""
    given = jax.ShapeDtypeStruct((3,), np.float32)
    return lambda _: jax.jit(lambda x: x + 1).trace(given)


_SITES = {"shapes": _shapes, "lambdas": _lambdas}


def _times(
    miss: Callable[[int], object], marks: list[int], window: int, inside: Inside
) -> Iterator[dict[str, float]]:
    """Processor seconds per miss, for the `window` misses that end at each mark."""
    number = _WARM_UP
    for mark in marks:
        while number < mark - window:
            miss(number)
            number += 1
        ours, whole = inside.both(), thread_time()
        collected, missing = inside.collected, inside.missing
        while number < mark:
            miss(number)
            number += 1
        spent = thread_time() - whole
        collecting = inside.collected - collected
        others = spent - collecting - (inside.missing - missing)
        yield {
            "retrace": (inside.both() - ours) / window,
            "jax": others / window,
            "collecting": collecting / window,
            "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RESIDENT,
        }


def _memory(miss: Callable[[int], object], marks: list[int], inside: Inside) -> Iterator[int]:
    """Bytes that Python has allocated at each mark, since the misses before the first."""
    tracemalloc.start()
    number = _WARM_UP
    for mark in marks:
        while number < mark:
            miss(number)
            number += 1
        inside.both()
        gc.collect()
        yield tracemalloc.get_traced_memory()[0]


def _bound(most: int) -> None:
    """Limit all bounded tables to `most` entries, so that they are full at once."""
    from retrace.capture import journal, misses
    from retrace.store import shelf, writer

    journal._MAX_OPEN = most  # pyright: ignore[reportPrivateUsage]
    misses._MAX_SOURCES = most  # pyright: ignore[reportPrivateUsage]
    shelf._MAX_KNOWN = most  # pyright: ignore[reportPrivateUsage]
    writer._MAX_PARTS = most  # pyright: ignore[reportPrivateUsage]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.trial", description=__doc__)
    parser.add_argument("what", choices=("times", "memory"))
    parser.add_argument("site", choices=tuple(_SITES))
    parser.add_argument("marks", type=int, nargs="+", help="misses after which to look")
    parser.add_argument("--plain", action="store_true", help="record nothing")
    parser.add_argument("--window", type=int, default=1000, help="misses before a mark")
    parser.add_argument("--most", type=int, help="entries that bounded tables may hold")
    given = parser.parse_args()
    if given.most is not None:
        _bound(given.most)
    with measured() as inside, tempfile.TemporaryDirectory() as directory:
        if not given.plain:
            start(Path(directory))
        miss = _SITES[given.site]()
        for number in range(_WARM_UP):
            miss(number)
        inside.both()
        if given.what == "times":
            seen = _times(miss, given.marks, given.window, inside)
        else:
            seen = _memory(miss, given.marks, inside)
        for each in seen:
            print(json.dumps(each), flush=True)
        stop()


if __name__ == "__main__":
    main()

"""What one more miss, leaf or equation costs when there are many already."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from math import log
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any

import jax
import numpy as np

from retrace.capture.notebook_cells import shown
from retrace.capture.place import Owner, owner
from retrace.capture.session import flush
from retrace.jax_internals.jaxprs import transcribe
from retrace.store.shelf import Shelf
from retrace.store.sinks import File
from tests.benchmarks.commands import environment
from tests.benchmarks.inside import measured
from tests.benchmarks.measure import Ratio, processor
from tests.benchmarks.programs import straight
from tests.benchmarks.recording import chex_miss, equinox_miss, recorded, transformer

_MAX_BYTES = 100
"""Bytes that an equation may take on disk."""
_SITES = {
    "shapes": "one function with a new shape each time",
    "lambdas": "a new lambda each time",
}
_WARM_UP = 100
"""Number of misses before the first that a trial looks at."""


def rows(quick: bool) -> Iterator[Callable[[], Ratio | None]]:
    """All rows on growth, each measured when called."""
    marks = (1_100, 3_000) if quick else (1_100, 10_000, 100_000)
    yield from _each(3 * len(marks) - 3, lambda: misses(marks))
    marks = (500, 1_500) if quick else (1_000, 10_000)
    for site, allowed in (("shapes", (900, 350)), ("lambdas", (400, 16))):
        yield from _each(3, lambda site=site, allowed=allowed: memory(site, marks, allowed))
    for leaves, allowed in ((1, 1500), (20, 1800), (300, 3500)):
        yield lambda leaves=leaves, allowed=allowed: disk(leaves, allowed, 10 if quick else 50)
    yield from _each(6, lambda: many_leaves(5 if quick else 15))
    sizes = (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000)
    yield from _each(3 * len(sizes) - 2, lambda: equations(sizes))
    for layers in (64,) if quick else (64, 640):
        yield lambda layers=layers: located(layers)
    yield lambda: chex_miss(15 if quick else 51)
    yield lambda: equinox_miss(15 if quick else 51)


def _each(
    most: int, measure: Callable[[], tuple[Ratio, ...]]
) -> Iterator[Callable[[], Ratio | None]]:
    for index in range(most):
        yield lambda index=index: measure()[index]


def _compared(name: str, plain: float, other: float, bound: float | None = None) -> Ratio:
    share = other / plain if plain else math.inf  # memory may not grow at all over few misses
    return Ratio(name, plain, other, share, (share, share), bound)


def _allowed(name: str, allowed: float, found: float) -> Ratio:
    """A number of bytes, compared with the allowed number."""
    name = f"{name}, compared with the limit"
    return _compared(name, allowed, found, 1.0)._replace(unit="bytes")


def _trial(*arguments: object) -> list[Any]:
    """What a separate process measured after each number of misses."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.trial", *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@cache
def misses(marks: tuple[int, ...]) -> tuple[Ratio, ...]:
    """Processor time of a miss at one call site after many and after few; resident memory."""
    ours = _trial("times", "shapes", *marks)
    plain = _trial("times", "shapes", *marks, "--plain")
    found: list[Ratio] = []
    first, other = ours[0], plain[0]
    for mark, late, alone in zip(marks[1:], ours[1:], plain[1:], strict=True):
        which = f"the {mark:,}th of a function compared with the {marks[0]:,}th"
        # A shared core is slower by the same factor for JAX as for retrace.
        share = (late["retrace"] / late["jax"]) / (first["retrace"] / first["jax"])
        name = f"time inside retrace per miss, divided by JAX's own, {which}"
        found.append(Ratio(name, first["retrace"], late["retrace"], share, (share, share), 1.2))
        found.append(_compared(f"plain JAX, {which}", other["jax"], alone["jax"]))
        grown = (alone["resident"] - other["resident"], late["resident"] - first["resident"])
        a, b = (bytes_ / (mark - marks[0]) for bytes_ in grown)
        name = f"resident memory per miss up to the {mark:,}th, compared with plain JAX"
        found.append(_compared(name, a, b)._replace(unit="bytes"))
    return tuple(found)


@cache
def memory(site: str, marks: tuple[int, int], allowed: tuple[float, float]) -> tuple[Ratio, ...]:
    """What retrace keeps for a miss: Python's allocations, minus those without retrace."""
    plain = _trial("memory", site, *marks, "--plain")
    ours = _trial("memory", site, *marks)
    full = _trial("memory", site, *marks, "--most", 256)
    what = _SITES[site]
    found = [
        _allowed(
            f"memory kept for each of {mark:,} misses, {what}",
            allowed[0],
            (after - before) / (mark - _WARM_UP),
        )
        for mark, before, after in zip(marks, plain, ours, strict=True)
    ]
    grown = (full[1] - full[0]) - (plain[1] - plain[0])
    name = f"memory kept for one more miss when all bounded tables are full, {what}"
    return (*found, _allowed(name, allowed[1], grown / (marks[1] - marks[0])))


def disk(leaves: int, allowed: float, count: int) -> Ratio:
    """Bytes that one more miss adds to a recording; with one leaf, the smallest possible miss."""
    parameters = {f"x{index}": np.ones(2, np.float32) for index in range(leaves - 1)}
    step = jax.jit(lambda parameters, x: parameters["x0"].sum() * x)
    value = np.ones(3, np.float32)

    def miss(number: int) -> object:
        if leaves == 1:
            return jax.jit(lambda x: x + 1)(value)
        return step(parameters, np.ones(number + 1, np.float32))

    with recorded() as directory:
        sizes: list[int] = []
        for number in range(2 * count):
            if number == count:
                sizes.append(_size(directory))
            miss(number)
        sizes.append(_size(directory))
    of = "the smallest miss" if leaves == 1 else f"a miss of {leaves} leaves, one in a new shape"
    return _allowed(f"{of}, on disk", allowed, (sizes[1] - sizes[0]) / count)


def _size(directory: Path) -> int:
    flush()
    return sum(path.stat().st_size for path in directory.iterdir())


@cache
def many_leaves(repeats: int) -> tuple[Ratio, ...]:
    """Processor time of a miss by the number of leaves; all get a new shape each time."""
    found: list[Ratio] = []
    by_leaf: dict[int, float] = {}
    for leaves in (1, 10, 100, 1_000, 10_000):
        ours, alone = _leaves(leaves, repeats)
        name = f"time inside retrace of a miss of {leaves:,} leaves, compared with its trace"
        found.append(_compared(name, alone, ours))
        by_leaf[leaves] = ours / leaves
    name = "time inside retrace per leaf, 10,000 leaves compared with 1,000"
    found.append(_compared(name, by_leaf[1_000], by_leaf[10_000], 1.3))
    return tuple(found)


def _leaves(leaves: int, repeats: int) -> tuple[float, float]:
    """Median seconds inside retrace, and inside JAX."""
    step = jax.jit(lambda tree: tree["x0"] + 1)
    rows: list[tuple[float, float]] = []
    with recorded(), measured() as inside:
        for number in range(repeats + 1):
            leaf = jax.ShapeDtypeStruct((number + 1,), np.float32)
            tree = {f"x{index}": leaf for index in range(leaves)}
            before, missing, began = inside.both(), inside.missing, thread_time()
            collected = inside.collected
            step.trace(tree)
            spent = thread_time() - began - (inside.collected - collected)
            alone = spent - (inside.missing - missing)
            rows.append((inside.both() - before, alone))
    ours, others = zip(*rows[1:], strict=True)
    return median(ours), median(others)


def _is_library(file: str) -> bool | None:
    return {Owner.USER: False, Owner.LIBRARY: True}.get(owner(file))


@cache
def equations(sizes: tuple[int, ...]) -> tuple[Ratio, ...]:
    """Processor time of recording an equation, in a large program compared with a small one."""
    found: list[Ratio] = []
    costs = [_written(straight(size), np.ones(8, np.float32)) for size in sizes]
    for size, cost in zip(sizes, costs, strict=True):
        found.append(_allowed(f"on disk per equation, of {size:,}", _MAX_BYTES, cost[2]))
        if size == sizes[0]:
            continue
        for index, what in enumerate(("transcribing", "writing")):
            name = f"{what}, per equation: {size:,} compared with {sizes[0]:,}"
            # As in `programs.growing`: caches that are too small for the larger program.
            bound = 1.1 * log(size) / log(sizes[0])
            found.append(_compared(name, costs[0][index], cost[index], bound))
    return tuple(found)


def located(layers: int) -> Ratio:
    """Bytes on disk per equation, in a program with many source lines."""
    step, parameters = transformer(layers)
    _, _, size, count = _written(step, parameters, np.ones((8, 16), np.float32))
    name = f"on disk per equation, of a transformer's {count:,}"
    return _allowed(name, _MAX_BYTES, size)


def _written(step: Callable[..., Any], *given: Any) -> tuple[float, float, float, int]:
    """Seconds of transcribing and of writing an equation, its bytes on disk, and the count."""
    jaxpr = jax.jit(step).trace(*given).jaxpr
    found = transcribe(jaxpr, _is_library, shown)
    repeats = 1 if found.program.equations >= 1_000_000 else 3
    transcribing = min(
        processor(lambda: transcribe(jaxpr, _is_library, shown)) for _ in range(repeats)
    )
    with tempfile.TemporaryDirectory() as directory:
        writing: list[float] = []
        for number in range(repeats):
            path = Path(directory, str(number))
            shelf = Shelf(File(path))
            writing.append(processor(lambda: (shelf.add(found.listings), shelf.settle())))
            shelf.close()
        size = Path(directory, "0").stat().st_size
    count = sum(len(listing.equations) for listing in found.listings)
    return transcribing / count, min(writing) / count, size / count, count

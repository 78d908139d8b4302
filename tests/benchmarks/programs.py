"""What comparing two programs costs, relative to tracing one of them with JAX."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from functools import cache
from math import log
from typing import Any, NamedTuple

import jax
import numpy as np

from retrace.compare.programs import compare as compare_programs
from retrace.compare.size import samples, unrolled
from retrace.jax_internals.jaxprs import transcribe
from retrace.model import Frame, Listing
from tests.benchmarks.measure import Ratio, seconds

_EQUATIONS = 100_000


def straight(size: int) -> Callable[[Any], Any]:
    """A program of the given size: eight primitives in an aperiodic order."""

    def many(x: Any) -> Any:
        choice = random.Random(1)
        steps: list[Callable[[Any], Any]] = [
            jax.lax.sin,
            jax.lax.cos,
            jax.lax.tanh,
            jax.lax.exp,
            jax.lax.abs,
            jax.lax.neg,
            lambda v: jax.lax.mul(v, v),
            lambda v: jax.lax.add(v, x),
        ]
        y = x
        for _ in range(size):
            y = choice.choice(steps)(y)
        return y

    return many


@cache
def _program() -> tuple[Listing, float]:
    x = np.ones(8, np.float32)
    found: list[Any] = []
    spent = seconds(lambda: found.append(jax.jit(straight(_EQUATIONS)).trace(x)))
    return transcribe(found[0].jaxpr, lambda _: False).listings[-1], spent


def _edited(listing: Listing, texts: list[str], name: str) -> Listing:
    places = [0] * len(texts)
    return listing._replace(equations=texts, places=places, hash=name.rjust(32, "0"), id=name)


def _scattered(listing: Listing, edits: int = 1000) -> Listing:
    choice = random.Random(2)
    texts = list(listing.equations)
    kinds = sorted(set(texts))
    for _ in range(edits):
        at = choice.randrange(len(texts))
        if choice.random() < 0.5:
            texts[at] = choice.choice(kinds)
        else:
            texts.insert(at, choice.choice(kinds))
    return _edited(listing, texts, "scattered")


def _other(listing: Listing) -> Listing:
    texts = [text.replace("f32[8]", "f16[8]") for text in listing.equations]
    return _edited(listing, [f"other_{text}" for text in texts], "other")


@cache
def comparing() -> tuple[Ratio, ...]:
    """Identical, scattered edits, and everything different; the last rows are other libraries."""
    return tuple(_ratios())


def _ratios() -> Iterator[Ratio]:
    old, trace = _program()
    same = old._replace()
    for name, new, bound in (
        ("identical", same, 0.01),
        ("1,000 scattered edits", _scattered(old), 0.20),
        ("everything different", _other(old), 0.50),
    ):

        def run(new: Listing = new) -> object:
            return compare_programs(old, new, {})

        times = sorted(seconds(run) for _ in range(3))
        ratios = [spent / trace for spent in times]
        yield Ratio(
            f"comparing {_EQUATIONS:,} equations, {name}, compared with tracing them",
            trace,
            times[1],
            ratios[1],
            (ratios[0], ratios[2]),
            bound,
        )
    yield _compared(old, 4000, "difflib", _difflib)
    yield _compared(old, 500, "deepdiff", _deepdiff)


def _compared(
    old: Listing, size: int, name: str, other: Callable[[list[str], list[str]], object]
) -> Ratio:
    """Another library on the start of the same program, with 1 % of it edited."""
    few = old._replace(equations=old.equations[:size], places=[0] * size, id="few", hash="few")
    edited = _scattered(few, size // 100)
    ours = min(seconds(lambda: compare_programs(few, edited, {})) for _ in range(3))
    spent = seconds(lambda: other(few.equations, edited.equations))
    share = spent / ours
    title = f"{size:,} equations, {size // 100} edits, by {name}, compared with ours"
    return Ratio(title, ours, spent, share, (share, share))


def _difflib(old: list[str], new: list[str]) -> object:
    return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def _deepdiff(old: list[str], new: list[str]) -> object:
    from deepdiff import DeepDiff

    return DeepDiff(_as_dicts(old), _as_dicts(new), threshold_to_diff_deeper=0, view="tree")


def _as_dicts(equations: list[str]) -> list[dict[str, str]]:
    names = ("primitive", "arguments", "results")
    return [dict(zip(names, text.split("\t"), strict=False)) for text in equations]


_SIZES = (1_000, 10_000, 100_000, 1_000_000)


@cache
def growing() -> tuple[Ratio, ...]:
    """Work and memory per equation, for the largest program compared with smaller ones."""
    found = {size: _each(size) for size in _SIZES}
    whole = found[_SIZES[-1]]
    rows: list[Ratio] = []
    for size in _SIZES[:-1]:
        part = found[size]
        # n log n plus a tenth, for caches that are too small for the larger program.
        bound = 1.1 * log(_SIZES[-1]) / log(size)
        for what, unit in (
            ("comparing, 100 edits", "seconds"),
            ("counting by line and looking for loops", "counted"),
        ):
            a, b = getattr(part, unit), getattr(whole, unit)
            name = f"{what}, per equation: {size:,} compared with {_SIZES[-1]:,}"
            rows.append(
                Ratio(name, a, b, b / a, (b / a, b / a), None if size < 10_000 else bound)
            )
        a, b = part.memory, whole.memory
        name = f"memory per equation, {size:,} compared with {_SIZES[-1]:,}"
        rows.append(Ratio(name, a, b, b / a, (b / a, b / a), 1.1, "bytes"))
    return tuple(rows)


class _Cost(NamedTuple):
    """What one equation of a program costs."""

    seconds: float
    counted: float
    memory: float


def _each(size: int) -> _Cost:
    choice = random.Random(3)
    texts = _program()[0].equations
    stacks = tuple((Frame("model.py", line, "step", 1, False),) for line in range(50))
    old = Listing(
        id="old".rjust(24, "0"),
        hash="old".rjust(32, "0"),
        size=size,
        inputs=("f32[8]",),
        constants=(),
        equations=choice.choices(texts, k=size),
        wires=[],
        places=[index % 50 for index in range(size)],
        stacks=stacks,
        outputs=("$0",),
        inner={},
    )
    new = _scattered(old, 100)
    times = max(1, 100_000 // size)

    def many(call: Callable[[], object]) -> float:
        def run() -> None:
            for _ in range(times):
                call()

        return min(seconds(run) for _ in range(3)) / times / size

    def count() -> None:
        samples([old], {})
        unrolled([old], {})

    compared, counted = many(lambda: compare_programs(old, new, {})), many(count)
    tracemalloc.start()
    compare_programs(old, new, {})
    count()
    memory = tracemalloc.get_traced_memory()[1] / size
    tracemalloc.stop()
    return _Cost(compared, counted, memory)

"""What comparing two programs costs, as a share of what JAX takes to trace one of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from functools import cache
from typing import Any

import jax
import numpy as np

from retrace.compare.programs import compare as compare_programs
from retrace.jax_internals.jaxprs import transcribe
from retrace.model import Listing
from tests.benchmarks.measure import Ratio, seconds

_EQUATIONS = 100_000


def _many(x: Any) -> Any:
    # Eight primitives in an order without a period.
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
    for _ in range(_EQUATIONS):
        y = choice.choice(steps)(y)
    return y


@cache
def _program() -> tuple[Listing, float]:
    x = np.ones(8, np.float32)
    found: list[Any] = []
    spent = seconds(lambda: found.append(jax.jit(_many).trace(x)))
    return transcribe(found[0].jaxpr, lambda _: False).listings[-1], spent


def _edited(listing: Listing, texts: list[str], name: str) -> Listing:
    places = [0] * len(texts)
    return listing._replace(equations=texts, places=places, hash=name.rjust(32, "0"), id=name)


def _scattered(listing: Listing) -> Listing:
    choice = random.Random(2)
    texts = list(listing.equations)
    kinds = sorted(set(texts))
    for _ in range(1000):
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
    """Identical, scattered edits, and everything different; the last row is difflib's."""
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
            f"comparing {_EQUATIONS:,} equations, {name}, beside tracing them",
            trace,
            times[1],
            ratios[1],
            (ratios[0], ratios[2]),
            bound,
        )
    few = old.equations[:4000]
    edited = _scattered(old._replace(equations=few)).equations
    spent = seconds(lambda: SequenceMatcher(None, few, edited, autojunk=False).get_opcodes())
    share = spent / (trace * len(few) / _EQUATIONS)
    yield Ratio(
        "the same with difflib, 4,000 equations", trace / 25, spent, share, (share, share)
    )

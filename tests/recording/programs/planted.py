"""Programs that each have one planted cost, and what that cost takes when it is left out.

python planted.py RESULTS PLANT...            what each stage takes with and without the plant
python -m retrace run --slow planted.py - PLANT...        to be recorded

With PLANTED_FOR=gpu or tpu, they are compiled for a device that is only described.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FOR = os.environ.get("PLANTED_FOR", "")
ROUNDS = 2
"""How often each is measured, with its plant and without in turn; the least counts."""
RECORDED = 3
"""How often each is recorded, whole: other work on the machine falls on any line."""


BASE, DRAWN = 1500, 10


def base(x: Any) -> Any:
    """What each traces beside its plant."""
    for i in range(BASE):
        x = jnp.sin(x) * i
    return x


def drawn(x: Any) -> Any:
    """What each compiles beside its plant."""
    for i in range(DRAWN):
        x = jnp.cumsum(jnp.sin(x) * i, axis=0)
    return x


VECTOR = np.ones(64, np.float32)


def an_unrolled_loop(amount: float) -> Any:
    def an_unrolled_loop(x: Any) -> Any:
        x = base(x)
        for i in range(int(4000 * amount)):
            x = jnp.cos(x) + i  # plant: an_unrolled_loop
        return x.sum()

    return an_unrolled_loop, VECTOR


class Config:
    """A static value that compares itself number by number."""

    def __init__(self, size: int) -> None:
        self.values = range(size)  # nothing that the garbage collector walks through

    def __hash__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Config)
        pairs = zip(self.values, other.values, strict=True)
        return all(a == b for a, b in pairs)  # plant: an_equality


def an_equality(amount: float) -> Any:
    inner = jax.jit(lambda x, config: x + 1, static_argnums=1)
    configs = [Config(2 + int(800_000 * amount)) for _ in range(8)]

    def an_equality(x: Any) -> Any:
        x = base(x)
        for config in configs:
            x = inner(x, config)
        return x.sum()

    return an_equality, VECTOR


@jax.tree_util.register_pytree_node_class
class Box:
    """A node of a pytree that works each time it is taken apart."""

    def __init__(self, value: Any, size: int) -> None:
        self.value, self.size = value, size

    def tree_flatten(self) -> tuple[tuple[Any], int]:
        names = sorted(str(i) for i in range(self.size))  # plant: a_flatten
        return (self.value,), len(names)

    @classmethod
    def tree_unflatten(cls, size: int, children: tuple[Any]) -> Box:
        return cls(*children, size)


def a_flatten(amount: float) -> Any:
    def a_flatten(x: Any) -> Any:
        box = Box(base(x), 1 + int(400_000 * amount))
        for _ in range(10):
            box = jax.tree.map(lambda value: value + 1, box)
        return box.value.sum()

    return a_flatten, VECTOR


def a_nested_trace(amount: float) -> Any:
    @jax.jit
    def inner(x: Any) -> Any:
        for i in range(int(4000 * amount)):
            x = jnp.cos(x) + i  # plant: a_nested_trace
        return x

    def a_nested_trace(x: Any) -> Any:
        return inner(base(x)).sum()

    return a_nested_trace, VECTOR


def a_deep_cond(amount: float) -> Any:
    def deep(depth: int, x: Any) -> Any:
        if depth <= 0:
            return x
        below = partial(deep, depth - 1)
        return jax.lax.cond(x.sum() > depth, below, partial(below), x)  # plant: a_deep_cond

    def a_deep_cond(x: Any) -> Any:
        return deep(int(9 * amount), base(x)).sum()

    return a_deep_cond, VECTOR


TABLE = np.random.RandomState(0).rand(900, 200).astype(np.float32)
WINDOW = 3 if jax.__version_info__ < (0, 7) else 150
"""An older XLA takes a hundred times as long for each."""


def a_folded_constant(amount: float) -> Any:
    def a_folded_constant(x: Any) -> Any:
        y, total = drawn(x).sum(), 0.0
        if amount:
            size = (1 + int((WINDOW - 1) * amount), 5)
            table = jnp.asarray(TABLE)  # plant: a_folded_constant
            given = (table, 0.0, jax.lax.add, size, (1, 1), "SAME")
            total = jax.lax.reduce_window(*given)  # plant: a_folded_constant
        return (y + total).sum()

    return a_folded_constant, VECTOR


SORTS = 5 if FOR == "gpu" else 20
"""A GPU's compiler takes a second for each."""


def a_slow_sort(amount: float) -> Any:
    def a_slow_sort(x: Any) -> Any:
        keys = [drawn(x) * k for k in range(8)]
        for _ in range(int(SORTS * amount)):
            keys = list(jax.lax.sort(keys, num_keys=8))  # plant: a_slow_sort
            keys = [*keys[1:], keys[0] * 2]
        return jnp.stack(keys).sum()

    return a_slow_sort, VECTOR


def many_kernels(amount: float) -> Any:
    def many_kernels(x: Any) -> Any:
        y = drawn(x)
        for i in range(int(120 * amount)):
            y = jnp.tanh(y @ y + i)  # plant: many_kernels
        return y.sum()

    return many_kernels, np.ones((6, 6), np.float32)


def equal_kernels(amount: float) -> Any:
    def equal_kernels(x: Any) -> Any:
        y = drawn(x)
        for _ in range(int(1000 * amount)):
            y = jnp.tanh(y @ y)  # plant: equal_kernels
        return y.sum()

    return equal_kernels, np.ones((6, 6), np.float32)


TRACED: tuple[Callable[[float], Any], ...] = (
    an_unrolled_loop,
    an_equality,
    a_flatten,
    a_nested_trace,
    a_deep_cond,
)
COMPILED: tuple[Callable[[float], Any], ...] = (
    a_folded_constant,
    a_slow_sort,
    many_kernels,
    equal_kernels,
)


HELD: list[Any] = []
"""Programs that were recorded, until they are written down: most go on to call what they made."""


def run(plant: Callable[[float], Any], amount: float, held: list[Any]) -> float:
    """Trace a program, or compile it; what that took of processors."""
    function, argument = plant(amount)
    if plant in TRACED:
        begun = time.thread_time()
        held.append(jax.jit(function).trace(argument))
        return time.thread_time() - begun
    lowered = jax.jit(function).lower(placed(argument))
    begun = processor()
    held.append(lowered.compile())
    return processor() - begun


def placed(argument: Any) -> Any:
    if not FOR:
        return argument
    import described

    return described.placed(FOR, argument)[0]


def processor() -> float:
    """Seconds of processors, including those of processes that ended, such as ptxas."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def nothing() -> float:
    """What it takes to compile a program that does nothing."""
    lowered = jax.jit(lambda x: x.sum()).lower(placed(VECTOR))
    begun = processor()
    lowered.compile()
    return processor() - begun


def measured(plant: Callable[[float], Any]) -> dict[str, float]:
    """What a program takes, what it takes without its plant, and what any takes."""
    pairs = [(run(plant, 1.0, []), run(plant, 0.0, [])) for _ in range(ROUNDS)]
    empty = 0.0 if plant in TRACED else min(nothing() for _ in range(ROUNDS))
    return {
        "whole": min(whole for whole, _ in pairs),
        "without": min(without for _, without in pairs),
        "empty": empty,
    }


def main(results: str, *names: str) -> None:
    told: dict[str, dict[str, float]] = {}
    for plant in (*TRACED, *COMPILED):
        if plant.__name__ not in names:
            continue
        # What JAX does for the first program alone is in neither.
        run(plant, 0.02, HELD)
        if results == "-":
            for _ in range(RECORDED):
                # What was recorded before is written down first, beside nothing, and is gone.
                time.sleep(0.7)
                HELD.clear()
                gc.collect()
                run(plant, 1.0, HELD)
        else:
            told[plant.__name__] = measured(plant)
    if results != "-":
        Path(results).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Tasks and threads that miss side by side: each miss is its own caller's."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

from retrace.model import Miss, Stage
from tests.recording.conftest import Record

TASKS = 4
SIZES = range(2, 7)
ALL = {Stage.TRACE, Stage.LOWER, Stage.COMPILE}


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def steps() -> list[Callable[[Any], Any]]:
    """Functions of one site that call a jitted one, each with a number of its own."""

    @jax.jit
    def inner(x: Any) -> Any:
        return x * 2

    def made(number: int) -> Callable[[Any], Any]:
        @jax.jit
        def outer(x: Any) -> Any:
            return inner(x) + number

        return outer

    return [made(number) for number in range(TASKS)]


def held(misses: list[Miss]) -> None:
    """Each task's misses are whole, from its own line, with the trace inside it."""
    roots = {miss.id: miss for miss in misses if miss.parent is None}
    assert len(roots) == TASKS * len(SIZES)
    assert all(set(miss.stages) == ALL and miss.raised is None for miss in roots.values())
    for miss in misses:
        number, size = map(int, miss.key.leaves[0].shape)
        if miss.parent is None:
            assert miss.function.name == "outer"
            site = miss.call_site
            assert site is not None and site.source is not None
            assert site.source.endswith(f"# of {number - 1}")
        else:
            assert miss.function.name == "inner" and set(miss.stages) == {Stage.TRACE}
            assert roots[miss.parent].key.leaves[0].shape == (number, size)
            assert miss.call_site is not None
            assert miss.call_site.source == "return inner(x) + number"
    nested = [miss.key.leaves[0].shape for miss in misses if miss.parent is not None]
    assert sorted(nested) == sorted(miss.key.leaves[0].shape for miss in roots.values())


def test_tasks_that_take_turns(record: Record) -> None:
    outer = steps()
    order: list[int] = []

    async def turn(number: int) -> None:
        order.append(number)
        await asyncio.sleep(0)

    async def zero() -> None:
        for size in SIZES:
            outer[0](np.ones((1, size)))  # of 0
            await turn(0)

    async def one() -> None:
        for size in SIZES:
            await turn(1)
            outer[1](np.ones((2, size)))  # of 1

    async def two() -> None:
        for size in SIZES:
            await asyncio.to_thread(lambda: outer[2](np.ones((3, size))))  # of 2
            await turn(2)

    async def three() -> None:
        async with asyncio.timeout(60):
            for size in SIZES:
                outer[3](np.ones((4, size)))  # of 3
                await turn(3)

    async def all_of_them() -> None:
        await asyncio.gather(zero(), one(), two(), three())

    held(record(lambda: asyncio.run(all_of_them())))
    assert order[:2] == [0, 1] and order != sorted(order)


def test_threads_that_take_turns(record: Record, switching: None) -> None:
    outer = steps()
    barrier = threading.Barrier(TASKS)

    def zero() -> None:
        for size in SIZES:
            barrier.wait()
            outer[0](np.ones((1, size)))  # of 0

    def one() -> None:
        for size in SIZES:
            barrier.wait()
            outer[1](np.ones((2, size)))  # of 1

    def two() -> None:
        for size in SIZES:
            barrier.wait()
            outer[2](np.ones((3, size)))  # of 2

    def three() -> None:
        for size in SIZES:
            barrier.wait()
            outer[3](np.ones((4, size)))  # of 3

    def program() -> None:
        threads = [threading.Thread(target=work) for work in (zero, one, two, three)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    misses = record(program)
    held(misses)
    names = {miss.key.leaves[0].shape[0]: miss.thread for miss in misses}
    assert len(set(names.values())) == TASKS
    assert all(miss.thread == names[miss.key.leaves[0].shape[0]] for miss in misses)


class Model:
    """JAX looks for what it traced of it by its hash, and meanwhile another thread may run."""

    def __init__(self, number: int, meet: Callable[[int], None]) -> None:
        self._number = number
        self._meet = meet
        self.looks = 0

    def __hash__(self) -> int:
        self.looks += 1
        self._meet(self.looks)
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, x: Any) -> Any:
        self._meet(-self.looks)
        return x * self._number


def test_looks_into_the_tracing_cache_that_overlap(record: Record) -> None:
    found: list[int] = []
    jax.jit(Model(5, found.append))(np.ones(5))
    last = -min(found)  # how often JAX asks for the hash until it traces
    both, traced = threading.Barrier(2, timeout=60), threading.Event()

    def first(look: int) -> None:
        if look == last:
            both.wait()
        elif look < 0:
            traced.set()

    def second(look: int) -> None:
        if look == last:
            both.wait()
            assert traced.wait(60)

    def call(model: Model, size: int) -> None:
        jax.jit(model)(np.ones(size))

    def program() -> None:
        works = ((Model(3, first), 3), (Model(4, second), 4))
        threads = [threading.Thread(target=call, args=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    misses = record(program)
    assert traced.is_set()
    assert sorted(miss.key.leaves[0].shape for miss in misses) == [(3,), (4,)]
    assert all(set(miss.stages) == ALL and miss.parent is None for miss in misses)

"""Guards as decorators of any kind of function apply while the body runs."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

import retrace
from retrace.errors import ExceededError, MissError, UsageError


def ones(size: int) -> Any:
    return np.ones(size, np.float32)


def _step(x: Any) -> Any:
    return x * 2


step: Any = jax.jit(_step)


def body(sizes: list[int]) -> int:
    for size in sizes:
        step(ones(size))
    return len(sizes)


async def coroutine(sizes: list[int]) -> int:
    await asyncio.sleep(0)
    return body(sizes)


def generator(sizes: list[int]) -> Iterator[int]:
    for size in sizes:
        yield body([size])


async def async_generator(sizes: list[int]) -> AsyncIterator[int]:
    for size in sizes:
        await asyncio.sleep(0)
        yield body([size])


class Model:
    async def __call__(self, sizes: list[int]) -> int:
        return await coroutine(sizes)

    def train(self, sizes: list[int]) -> Iterator[int]:
        return generator(sizes)

    @classmethod
    def of_class(cls, sizes: list[int]) -> Iterator[int]:
        return generator(sizes)

    async def serve(self, sizes: list[int]) -> int:
        return await coroutine(sizes)


def hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def run(result: Any) -> Any:
    """Run a body of any kind to its end."""
    if inspect.isasyncgen(result):

        async def all_of() -> list[Any]:
            return [value async for value in result]

        return asyncio.run(all_of())
    if inspect.isawaitable(result):

        async def awaited() -> Any:
            return await result

        return asyncio.run(awaited())
    return list(result) if inspect.isgenerator(result) else result


KINDS: dict[str, Callable[[], Callable[..., Any]]] = {
    "function": lambda: body,
    "coroutine function": lambda: coroutine,
    "generator function": lambda: generator,
    "async generator function": lambda: async_generator,
    "partial of a coroutine function": lambda: functools.partial(coroutine),
    "partial of a generator function": lambda: functools.partial(generator),
    "coroutine behind a wrapper": lambda: hidden(coroutine),
    "generator behind a wrapper": lambda: hidden(generator),
    "async generator behind a wrapper": lambda: hidden(async_generator),
    "wrapper that says whom it wraps": lambda: functools.wraps(generator)(hidden(generator)),
    "async instance": lambda: Model(),
    "method that returns a generator": lambda: Model().train,
    "async method": lambda: Model().serve,
    "classmethod": lambda: Model.of_class,
}
GUARDS: dict[str, Callable[[], Any]] = {
    "assert_no_retrace": lambda: retrace.assert_no_retrace("_step"),
    "assert_max_traces": lambda: retrace.assert_max_traces("_step", 1),
    "freeze": lambda: retrace.freeze("_step", warmup=1),
    "policy": lambda: retrace.policy("raise", "_step", warmup=1),
}


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_body_is_guarded(kind: str, guard: str) -> None:
    step.clear_cache()
    made = KINDS[kind]()
    decorated = GUARDS[guard]()(made)
    called = getattr(made, "__call__", made)  # noqa: B004
    for told in (inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        assert told(decorated) == told(made)
    if inspect.iscoroutinefunction(called):
        assert inspect.iscoroutinefunction(decorated)
    with pytest.raises((ExceededError, MissError), match="_step"):
        run(decorated([2, 3, 4]))
    step.clear_cache()
    run(made([2, 3, 4]))
    # Cache hits pass, with the same results.
    assert run(decorated([2, 3, 4])) == run(made([2, 3, 4]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_body_is_recorded(kind: str) -> None:
    step.clear_cache()
    window = retrace.recording()
    windows: list[Any] = []

    class Seen(retrace.recording):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            windows.append(self)

    run(Seen()(KINDS[kind]())([2, 3]))
    assert len(windows[-1].misses) == 2
    assert window.misses == []


def test_misses_of_a_generators_consumer_are_not_counted() -> None:
    step.clear_cache()
    other: Any = jax.jit(lambda x: x - 1)
    guards: list[Callable[[], Any]] = [
        retrace.assert_no_retrace,
        retrace.freeze,
        lambda: retrace.policy("raise"),
    ]
    body([2, 3])
    for guard in guards:
        for made in (generator, hidden(generator)):
            for size in guard()(made)([2, 3]):
                other(ones(size))
                other.clear_cache()
    with retrace.policy("raise"):
        values = retrace.policy("off")(generator)([5, 6])
        next(values)
        with pytest.raises(MissError):
            other(ones(9))
        next(values)
        with pytest.raises(MissError):
            other(ones(9))


def test_a_generator_fails_at_the_yield_that_exceeds_the_limit() -> None:
    step.clear_cache()
    values = retrace.assert_max_traces(step, 1)(generator)([2, 3, 4])
    assert next(values) == 1
    with pytest.raises(ExceededError):
        next(values)


def test_sent_thrown_and_returned_values_pass_through() -> None:
    def talks() -> Any:
        got = []
        while True:
            try:
                got.append((yield len(got)))
            except KeyError:
                return got

    values = retrace.assert_no_retrace(step)(talks)()
    assert next(values) == 0 and values.send("a") == 1
    with pytest.raises(StopIteration) as end:
        values.throw(KeyError())
    assert end.value.value == ["a"]
    closed: list[bool] = []

    def closes() -> Any:
        try:
            yield 1
        finally:
            closed.append(True)

    values = retrace.freeze()(closes)()
    next(values)
    values.close()
    assert closed == [True]


def test_a_body_that_never_runs_leaves_nothing_open() -> None:
    values = retrace.freeze()(hidden(generator))([2])
    del values
    waiting = retrace.freeze()(hidden(generator))([2])
    waiting.close()
    step.clear_cache()
    step(ones(2))


def test_objects_that_cannot_be_guarded_are_refused() -> None:
    with pytest.raises(UsageError, match="codes"):
        retrace.assert_no_retrace(allow=5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="a class"):
        retrace.freeze()(Model)
    with pytest.raises(UsageError, match="int"):
        retrace.assert_no_retrace()(3)  # pyright: ignore[reportArgumentType]

    async def main() -> None:
        later = retrace.assert_no_retrace()(lambda: asyncio.ensure_future(coroutine([2])))
        with pytest.raises(UsageError, match="Task"):
            later()
        await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_method_may_be_decorated_above_classmethod() -> None:
    class Holder:
        @retrace.assert_no_retrace(step)
        @classmethod
        def run(cls, size: int) -> None:
            step(ones(size))

        @retrace.assert_no_retrace(step)
        @staticmethod
        def also(size: int) -> None:
            step(ones(size))

    step.clear_cache()
    for call in (Holder.run, Holder.also):
        with pytest.raises(ExceededError):
            call(11)
        step.clear_cache()

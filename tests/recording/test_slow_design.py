"""What is dear by the way a program is written, told from the program alone, and followed."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.capture.programs import transcript
from retrace.capture.sampling import look
from retrace.costs.account import Account
from retrace.costs.heavy import heavy
from retrace.costs.nested import nest
from retrace.costs.repeated import repeated
from retrace.model import Listing
from retrace.model.slow import Compiling, Kernel, Part, Pass
from tests.recording.test_slow import sampled
from tests.recording.test_slow_lines import Of, of

__all__ = ["of"]
HERE = __file__


def line_of(mark: str) -> int:
    lines = Path(HERE).read_text(encoding="utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))


def program(function: Callable[..., Any], *args: Any) -> tuple[Listing, dict[str, Listing]]:
    found = transcript(jax.make_jaxpr(function)(*args))
    listings = {one.id: one for one in found.listings}
    return listings[found.program.listing or ""], listings


class Calls:
    """A program that calls one function several times, from lines of their own."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.times = draw.randrange(3, 7)
        self.rounds = draw.randrange(6, 14)
        self.gradient = draw.random() < 0.5
        self.ran = 0

    def block(self, x: Any, weight: Any) -> Any:  # block
        self.ran += 1
        for number in range(self.rounds):
            x = jnp.tanh(x @ weight) + jnp.cumsum(x, axis=0) * number
        return x

    def function(self, block: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def calls(x: Any, weight: Any) -> Any:
            x = block(x, weight) + 1
            x = jnp.sort(block(x, weight), axis=0)
            x = jnp.flip(block(x, weight))
            if self.times > 3:
                x = block(x, weight) / 2
            if self.times > 4:
                x = block(x.T, weight) - x
            if self.times > 5:
                x = block(x, weight) * x
            return x.sum()

        return jax.grad(calls) if self.gradient else calls


@pytest.mark.drawn
@pytest.mark.parametrize("seed", range(8))
def test_a_function_that_is_traced_again_and_again_is_traced_once_when_jitted(seed: int) -> None:
    one = Calls(seed)
    given = np.random.RandomState(seed).rand(4, 4).astype(np.float32), np.eye(4, dtype=np.float32)
    plain = one.function(one.block)
    (told, *_) = repeated(*program(plain, *given))
    assert (told.frame.file, told.frame.line) == (HERE, line_of("block"))
    assert told.times == one.ran == one.times
    # As it is advised: the function is jitted, and its callers stay as they are.
    before, one.ran = jax.jit(plain)(*given), 0
    jitted = one.function(jax.jit(one.block))
    after = jax.jit(jitted)(*given)
    assert one.ran == 1
    np.testing.assert_allclose(before, after, rtol=1e-4)
    assert repeated(*program(jitted, *given)) == []


def test_calls_that_differ_are_none_that_are_alike() -> None:
    def scaled(x: Any, by: float) -> Any:
        for _ in range(12):
            x = jnp.sin(x) * by
        return x

    def program_of(x: Any) -> Any:
        return scaled(scaled(scaled(x, 2.0) + 1, 3.0) + 1, 4.0)

    assert repeated(*program(program_of, np.ones(3))) == []


def varied(x: Any) -> Any:
    draw = random.Random(0)
    for _ in range(250):
        x = draw.choice((jnp.sin, jnp.cos, jnp.tanh, jnp.cumsum, jnp.sort, jnp.flip))(x)
    return x


@sampled
def test_to_jit_is_advised_where_tracing_is_what_takes_long(of: Of) -> None:
    def calls(x: Any) -> Any:
        x = varied(x) + 1
        x = varied(x * 2)
        x = varied(x) - x
        return varied(x).sum()

    found = of(lambda: jax.jit(calls).lower(np.ones(4)), "calls")
    advice = next(one for one in found.advice if one.code == "jit")
    assert advice.times == 4 and not any(one.code == "scan" for one in found.advice)
    assert advice.before == 4 * advice.after
    assert advice.seconds == pytest.approx(found.miss.seconds * 3 / 4, rel=0.1)


def deep(levels: int, x: Any) -> Any:
    if not levels:
        return jax.lax.sort((x, x * 2, x * 3), num_keys=3)[0]  # sorts
    below = [lambda x, n=n: deep(levels - 1, x * n) for n in range(2)]
    return jax.lax.switch(x.sum().astype(int), below, x)  # switches


@pytest.mark.parametrize("levels", [3, 4, 6])
def test_branches_inside_branches(levels: int) -> None:
    found = nest(*program(lambda x: jax.jit(deep, static_argnums=0)(levels, x), np.ones(3)))
    if levels < 4:
        assert found is None
        return
    assert found is not None and found.frame is not None
    assert (found.primitive, found.depth, found.frame.line) == (
        "cond",
        levels,
        line_of("switches"),
    )
    assert found.equations >= 2**levels


def test_operations_that_are_slow_to_compile() -> None:
    (first, *_) = heavy(*program(lambda x: deep(5, x), np.ones(3)))
    assert first.frame is not None and first.frame.line == line_of("sorts")
    assert (first.primitive, first.number, first.arrays) == ("sort", 2**5, 3)


def test_what_is_done_for_the_whole_is_told_on_the_line_of_nearly_all(of: Of) -> None:
    def small(x: Any) -> Any:
        return x + 1

    passes = (
        Pass("CpuCompiler::CompileCpuExecutable", 6.0, 1, "other"),
        Pass("JitCompiler::Compile", 2.0, 1, "code"),
        Pass("fusion", 3.0, 1, "pass"),
    )
    many, few = Kernel("a.py", 1, "f", 900, 900, 0.5), Kernel("a.py", 2, "f", 100, 10, 1.5)

    account = of(lambda: jax.jit(small).lower(1.0), "small")

    def told(*kernels: Kernel) -> Account:
        return account._replace(compiling=Compiling(passes, kernels))

    one = told(few, many)
    assert one.rest == 6.0 and sum(step.seconds for step in one.code) == 2.0
    assert [(line.line, line.seconds) for line in one.lines] == [(1, 0.5 + 0.9 * 9), (2, 1.5)]
    # Where it is nobody's, it is on no line.
    one = told(few._replace(instructions=400), many)
    assert one.whole is None and sum(line.seconds for line in one.lines) == 2.0


@sampled
def test_functions_of_jax_that_another_program_called_first(of: Of) -> None:
    def calls_first(x: Any) -> Any:
        return jnp.cumsum(jnp.sort(jnp.linalg.det(x.reshape(5, 5)) * x))

    def calls(x: Any) -> Any:
        y = jnp.linalg.det(x.reshape(5, 5)) * x  # called
        for _ in range(40):
            y = jnp.sort(jnp.sin(y))  # called
        return y

    jax.jit(calls_first).lower(np.ones(25)).compile()
    found = of(lambda: jax.jit(calls)(np.ones(25)), "calls")
    lines = Path(HERE).read_text(encoding="utf-8").splitlines()
    assert found.lines
    assert all(lines[one.line - 1].endswith("# called") for one in found.lines)
    assert bool(found.foreign) is (jax.__version_info__ < (0, 7))


def test_garbage_that_is_collected_in_a_trace_is_told_as_that() -> None:
    seen: list[Any] = []

    def told(phase: str, info: dict[str, int]) -> None:
        seen.append(look(sys._getframe()))  # pyright: ignore[reportPrivateUsage]

    def collects(x: Any) -> Any:
        gc.collect()  # collects
        return x

    gc.callbacks.append(told)
    try:
        jax.jit(collects).trace(np.float32(1))
    finally:
        gc.callbacks.remove(told)
    inside = [one for one in seen if one is not None and one[0]]
    assert [(one[0][0][1], one[1]) for one in inside] == 2 * [
        (line_of("collects"), Part.COLLECTION)
    ]

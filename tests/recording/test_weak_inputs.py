"""Whether a number in place of an array gives another program, also where no call shows it."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from retrace.compare.outputs import arithmetic, outputs
from retrace.compare.weak_inputs import computes_the_same
from retrace.model import Verdict
from retrace.model.advice import CastCarry, OneDtype, Proof
from tests.recording.conftest import JudgeAll

DTYPES = ("float32", "bfloat16", "int32", "uint8", "complex64", "bool")
NUMBERS = (2.0, 3)


def _branches(n: Any, x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda n, x: n * x, lambda n, x: x + n, n, x)


def _looped(n: Any, x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x * n), (0, x * n))[1]


def _scanned(n: Any, x: Any) -> Any:
    return lax.scan(lambda c, v: (c, v * n), n, x)[1]


USES: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "combined": (lambda n, x: n * x, True),
    "handed on": (lambda n, x: (n, x + 1), True),
    "of both": (lambda n, x: (n * n + 1) * x, True),
    "weak result": (lambda n, x: jnp.sin(n) + x, True),
    "inside another one": (lambda n, x: jax.jit(lambda a, b: a + b)(x, n), True),
    "after a comparison": (lambda n, x: jnp.where(n > 2, x, 0), True),
    "in a branch": (_branches, True),
    "in a while loop": (_looped, True),
    "in a scan": (_scanned, True),
    "in a rule": (lambda n, x: jax.nn.relu(x * n), True),
    "as another type": (lambda n, x: x + jnp.asarray(n, jnp.int32), False),
}


@pytest.mark.parametrize("use", USES)
def test_no_number_is_said_to_give_the_program_of_an_array_that_does_not(
    use: str, judge_all: JudgeAll
) -> None:
    function, follows = USES[use]
    pairs = list(itertools.product(NUMBERS, DTYPES))

    def program() -> None:
        for number, dtype in pairs:
            x = np.ones(3, dtype)
            for one in (number, np.asarray(number, jnp.asarray(number).dtype)):
                jax.jit(lambda n, x: function(n, x))(one, x)

    recording, _ = judge_all(program)
    calls = [miss for miss in recording.misses if miss.function.name == "<lambda>"]
    calls = [miss for miss in calls if miss.parent is None]
    assert len(calls) == 2 * len(pairs)
    told = 0
    for weak, strong in zip(calls[::2], calls[1::2], strict=True):
        one, other = (
            recording.listings[miss.program.listing or ""]
            for miss in (weak, strong)
            if miss.program
        )
        assert one.inputs[0].startswith("~")
        assert not other.inputs[0].startswith("~")
        same = arithmetic(one, recording.listings) == arithmetic(other, recording.listings) and [
            result.type.lstrip("~") for result in outputs(one)
        ] == [result.type.lstrip("~") for result in outputs(other)]
        said = computes_the_same(one, 0, recording.listings)
        assert same or not said, (use, one.inputs)
        told += said
    assert not follows or told >= len(DTYPES) - 2


def test_a_number_beside_arrays_of_two_types_may_start_as_an_array_where_neither_meets_it(
    judge_all: JudgeAll,
) -> None:
    handed_on = jax.jit(lambda state: {"v": state["v"] * 2, "n": state["n"]})
    scaled = jax.jit(lambda state: {"v": state["v"] * state["n"], "n": state["n"]})

    def told(step: Callable[[Any], Any]) -> Verdict:
        def program() -> None:
            for v, n in ((np.uint8, 0), (np.float32, 0), (np.float32, np.int32(0))):
                step({"v": np.ones(3, v), "n": n})

        return max(judge_all(program)[1], key=lambda one: one.miss.number)

    harmless, other = told(handed_on), told(scaled)
    assert isinstance(harmless.fix, CastCarry)
    assert harmless.avoidable == "yes"
    assert other.fix is not None  # a byte times an `int32` is no byte
    assert other.fix.proof is Proof.MEANING
    assert other.avoidable == "maybe"


def test_one_dtype_is_not_told_as_a_number_where_other_calls_pass_an_array(
    judge_all: JudgeAll,
) -> None:
    scaled = jax.jit(lambda x, g: x * g)

    def program() -> None:
        for g in (9, 9.75, np.float32(1.5)):
            scaled(np.ones(3, np.float32), g)

    told = [one.fix for one in judge_all(program)[1]]
    (dtype,) = [one for one in told if isinstance(one, OneDtype)]
    assert not dtype.python

"""Where the plan sends a person: to the line that makes what is made again, if it is known."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest

from retrace.plan.order import plan
from retrace.plan.step import Step
from retrace.present.plan_words import sentence
from tests.recording.conftest import JudgeAll

x = np.ones(3, np.float32)


def line_of(function: Any) -> int:
    return function.__code__.co_firstlineno


def made_again(run: Callable[[Any], object]) -> int:
    made = 0
    for _ in range(3):

        def step(x: Any) -> Any:
            return x * 2

        run(jax.jit(step))
        made = line_of(step)
    return made


def passed_again(run: Callable[[Any], object]) -> int:
    taking = jax.jit(lambda x, f: f(x), static_argnums=1)
    made = 0
    for _ in range(3):
        act = lambda x: x + 1
        run(lambda x, act=act: taking(x, act))
        made = line_of(act)
    return made


def only_step(judge_all: JudgeAll, program: Callable[[], object]) -> Step:
    recording, verdicts = judge_all(program)
    (step,) = plan(recording, verdicts).steps
    return step


@pytest.mark.parametrize("program", [made_again, passed_again])
def test_a_function_that_is_made_again_is_named_where_it_is_written(
    judge_all: JudgeAll, program: Callable[[Callable[[Any], object]], int]
) -> None:
    made: list[int] = []

    def elsewhere(jitted: Any) -> object:
        return jitted(x)

    step = only_step(judge_all, lambda: made.append(program(elsewhere)))
    assert (step.proposal.file, step.proposal.line) == (__file__, made[0])
    assert "not seen" not in sentence(step.proposal)


def test_of_what_a_library_makes_it_is_said_that_the_line_was_not_seen(
    judge_all: JudgeAll,
) -> None:
    update = jax.jit(lambda g, tx: tx.update(g, tx.init(g))[0], static_argnums=1)

    def program() -> None:
        for _ in range(3):
            update(x, optax.sgd(0.1))

    step = only_step(judge_all, program)
    assert step.proposal.line == line_of(program) + 2
    assert "where it is made was not seen" in sentence(step.proposal)

"""Where the plan sends a person: to the line that makes what is made again, if it is known."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest

from retrace.plan.order import plan
from retrace.plan.step import Step
from retrace.present.plan_titles import title
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
    assert not step.proposal.made and "not seen" in sentence(step.proposal)


def test_a_line_that_needs_the_same_and_more_is_named_with_it(judge_all: JudgeAll) -> None:
    step = jax.jit(lambda a, b, mode: a + b, static_argnames="mode")
    one = np.float32(1)

    def program() -> None:
        for a, b in ((1.0, 1.0), (one, one)):
            step(a, b, mode="x")
        for a in (1.0, one):
            step(a, one, mode="y")

    recording, verdicts = judge_all(program)
    both, alone = (line_of(program) + 2, line_of(program) + 4)
    told = {
        found.proposal.changes[0].paths: found.proposal
        for found in plan(recording, verdicts).steps
        if found.proposal.changes[0].family == "weak_type"
    }
    assert told["a",].line == alone
    assert told["a",].also == ((__file__, both),)
    assert f"same at test_plan_places.py:{both}" in sentence(told["a",])
    assert (told["b",].line, told["b",].also) == (both, ())


def test_a_line_that_needs_one_change_of_a_step_is_named_with_it(judge_all: JudgeAll) -> None:
    step = jax.jit(lambda a, b, c: (a * 2, b * 2, c))
    here = jax.devices()[0]

    def program() -> None:
        c = jax.device_put(np.ones(3, np.float32), here)
        a, b = np.ones(3, np.float32), np.ones(3, np.float32)
        for _ in range(2):
            a, b, _ = step(a, b, c)
        step(np.asarray(a), b, np.asarray(c))

    recording, verdicts = judge_all(program)
    first, later = plan(recording, verdicts).steps
    # Which of the two is first depends on the seconds.
    paths = {path for one in first.proposal.changes for path in one.paths}
    assert paths in ({"a", "b"}, {"a", "c"})
    assert {path for one in later.proposal.changes for path in one.paths} == {*"abc"} - paths
    lines = {line_of(program) + 4, line_of(program) + 5}
    assert {first.proposal.line, *(line for _, line in first.proposal.also)} == lines


def test_what_starts_as_an_array_is_made_one_without_compiling(judge_all: JudgeAll) -> None:
    """The weak array of a result, which is given back with a dtype: `astype` is a program too."""
    step = jax.jit(lambda state: state.astype(np.float32))
    start = jax.jit(lambda: jax.lax.full((3,), 1.0))()
    assert start.weak_type

    def program(state: Any) -> None:
        for _ in range(3):
            state = step(state)

    recording, verdicts = judge_all(lambda: program(start))
    (found,) = plan(recording, verdicts).steps
    said = sentence(found.proposal)
    made = "jax.device_put(np.asarray(value, jnp.float32))"
    assert f"`{made}`" in said
    places = {"jax": jax, "np": np, "jnp": jax.numpy, "value": start}
    jax.clear_caches()
    _, after = judge_all(lambda: program(eval(made, places)))
    again = [verdict.miss for verdict in after if verdict.miss.run != recording.runs[0].id]
    assert [miss.function.name for miss in again] == ["<lambda>"]


@pytest.mark.parametrize("jitted", [True, False])
def test_numpy_is_not_told_for_lines_that_a_jitted_function_runs_as_well(
    judge_all: JudgeAll, jitted: bool
) -> None:
    def model(v: Any) -> Any:
        v = jnp.tanh(v)
        v = v - v.mean(0)
        return v @ v

    def program() -> None:
        if jitted:
            jax.jit(lambda v: model(v) * 2)(np.ones(3, np.float32))
        jax.clear_caches()
        for size in range(4, 12):
            model(jnp.asarray(np.ones(size, np.float32)))

    recording, verdicts = judge_all(program)
    steps = plan(recording, verdicts).steps
    (step,) = [one for one in steps if one.proposal.code == "eager-sizes"]
    assert ("NumPy" in title(step.proposal)) != jitted

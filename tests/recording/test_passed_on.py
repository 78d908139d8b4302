"""What one function returns and another one takes: one change saves the misses of both."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from retrace.plan.order import plan
from tests.recording.conftest import JudgeAll

ones = np.ones(4, np.float32)


class Model:
    def __init__(self) -> None:
        self.first = jax.jit(lambda x: jax.tree.map(lambda one: one * 2, x))
        self.second = jax.jit(lambda y: jax.tree.map(lambda one: one + 1, y))
        self.third = jax.jit(lambda z: jax.tree.leaves(z)[0].sum())
        self.state: Any = None

    def chain(self, x: Any) -> None:
        y = self.first(x)
        z = self.second(y)
        self.third(z)

    def through_an_attribute(self, x: Any) -> None:
        self.state = self.first(x)
        self.second(self.state)

    def in_a_container(self, x: Any) -> None:
        y = self.third(x)
        self.second({"kept": y, **dict.fromkeys(x, y)})

    def apart(self, x: Any) -> None:
        self.first(x)
        self.second(x)


def placed(x: Any) -> Any:
    return jax.device_put(x, jax.devices()[0])


CHANGES: dict[str, tuple[Any, Any]] = {
    "weak_type": (np.float32(1), 1.0),
    "dtype": (ones, ones.astype(np.int32)),
    "tree": ({"a": ones}, {"a": ones, "b": ones}),
    "sharding": (ones, placed(ones)),
}


def planned(judge_all: JudgeAll, call: Callable[[Any], None], values: Sequence[Any]) -> Any:
    def program() -> None:
        for value in values:
            call(value)

    return plan(*judge_all(program))


@pytest.mark.parametrize("change", CHANGES)
def test_one_change_saves_what_takes_the_results_too(change: str, judge_all: JudgeAll) -> None:
    found = planned(judge_all, Model().chain, CHANGES[change])
    (step,) = found.steps
    assert step.proposal.changes[0].family == change
    assert step.proposal.changes[0].paths[0].startswith("x")
    assert step.alone.calls.low == step.alone.calls.high == 3
    assert found.floor.calls.high == 3
    # Following it: the same value in both calls.
    again = planned(judge_all, Model().chain, [CHANGES[change][1]] * 2)
    assert again.now.calls.high == 3 + 3 + 3  # the first program's, and three that are needed


def test_what_an_attribute_holds_in_between(judge_all: JudgeAll) -> None:
    (step,) = planned(judge_all, Model().through_an_attribute, CHANGES["dtype"]).steps
    assert step.gone.calls.low == 2


def test_a_container_that_the_line_makes_is_another_structure(judge_all: JudgeAll) -> None:
    call = Model().in_a_container
    first, second = planned(judge_all, call, CHANGES["tree"]).steps
    assert {step.proposal.changes[0].paths[0] for step in (first, second)} == {"y", "z"}


def test_functions_that_take_the_same_are_changed_one_by_one(judge_all: JudgeAll) -> None:
    steps = planned(judge_all, Model().apart, CHANGES["dtype"]).steps
    assert [step.gone.calls.high for step in steps] == [1, 1]


def test_what_changed_before_the_results_did_does_not_follow_from_them(
    judge_all: JudgeAll,
) -> None:
    first, second = (jax.jit(lambda x: x * 2), jax.jit(lambda y: y + 1))

    def program() -> None:
        for x, y in ((ones, ones), (ones, ones.astype(np.int32)), (ones.astype(np.int32), ones)):
            y = first(x) if x.dtype == np.int32 else y
            second(y)

    steps = plan(*judge_all(program)).steps
    assert all(step.gone.calls.high == 1 for step in steps)


def test_a_line_of_which_python_would_warn_is_not_read(
    judge_all: JudgeAll, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    program = tmp_path / "program.py"
    program.write_text(LINES)
    steps = plan(*judge_all(lambda: runpy.run_path(str(program)))).steps
    assert [step.gone.calls.high for step in steps] == [1, 1]
    assert not [one for one in recwarn if issubclass(one.category, SyntaxWarning)]


LINES = """
import jax, numpy as np
first = jax.jit(lambda x, name: x * 2, static_argnums=1)
second = jax.jit(lambda y, name: y + 1, static_argnums=1)
for t in (np.float32, np.int32):
    y = first(np.ones(4, t), r"\\d")
    second(y, r"\\d")
"""

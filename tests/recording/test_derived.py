"""Programs that JAX derives: one for each set of arguments that are differentiated."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from retrace.causes import Cause
from retrace.model.advice import JitOnce
from retrace.plan.order import plan
from tests.recording.conftest import JudgeAll


def cells() -> Any:
    """Its first step gets a constant, the later ones what is differentiated."""

    @jax.jit
    def cell(h: Any, w: Any) -> Any:
        return jnp.tanh(h * w + h**3)

    def loss(w: Any) -> Any:
        h = jnp.ones(4)
        for _ in range(3):
            h = cell(h, w)
        return h.sum()

    return loss


def test_an_unrolled_loop_reads_nothing_from_outside(judge_all: JudgeAll) -> None:
    jax.clear_caches()

    def program() -> None:
        loss = cells()
        for w in (0.5, 1.5):
            jax.value_and_grad(loss)(w)

    recording, verdicts = judge_all(program)
    own = [one for one in verdicts if one.miss.function.name == "cell"]
    assert len(own) > 2  # of two kinds each
    assert {one.cause for one in own} == {Cause.FIRST_TRACE}
    assert not plan(recording, verdicts).steps


def test_each_of_its_programs_is_compared_with_its_own(judge_all: JudgeAll) -> None:
    jax.clear_caches()

    def program() -> None:
        for w in (0.5, 1.5):
            jax.value_and_grad(cells())(w)

    _, verdicts = judge_all(program)
    again = [
        one
        for one in verdicts
        if one.miss.function.name == "cell" and one.cause is not Cause.FIRST_TRACE
    ]
    assert {one.cause for one in again} == {Cause.FUNCTION_REDEFINED}
    assert {type(one.fix) for one in again} == {JitOnce}
    assert {one.program_change for one in again} == {"identical"}
    assert {one.avoidable for one in again} == {"yes"}


def test_what_jax_passes_to_a_backward_program_is_in_no_step(judge_all: JudgeAll) -> None:
    jax.clear_caches()

    class Solver:
        def __init__(self) -> None:
            self.step = jax.jit(self.update)

        def update(self, x: Any, h: Any) -> Any:
            return jnp.tanh(x - 0.1 * (x**3 + h))

        def run(self, h: Any) -> Any:
            x = jnp.ones(4)
            for _ in range(3):
                x = self.step(x, h)
            return x.sum()

    recording, verdicts = judge_all(lambda: [jax.grad(Solver().run)(h) for h in (0.1, 0.2, 0.3)])
    steps = plan(recording, verdicts).steps
    paths = [path for step in steps for change in step.proposal.changes for path in change.paths]
    assert steps and not [path for path in paths if path.startswith("args[")]

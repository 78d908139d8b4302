"""Programs that map over batches of many sizes go in; that the size varied comes out."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.causes import Cause
from retrace.model import Recording
from retrace.model.advice import FewMapped, Proof
from retrace.plan.order import plan
from retrace.present.advice import advised
from retrace.present.plan_titles import title
from tests.recording.conftest import JudgeAll

_SIZES = (3, 5, 7)


def _shapes(recording: Recording, name: str) -> list[tuple[tuple[Any, ...], ...]]:
    return [
        tuple(tuple(leaf.shape) for leaf in miss.key.leaves)
        for miss in recording.misses
        if miss.function.jax_name == name
    ]


def test_an_operation_under_vmap_has_the_shapes_that_it_is_compiled_for(
    judge_all: JudgeAll,
) -> None:
    weights = np.ones((2, 4), np.float32)

    def program() -> None:
        for size in _SIZES:
            jax.vmap(lambda x: jnp.matmul(x, weights))(np.ones((size, 2), np.float32))

    recording, verdicts = judge_all(program)
    assert _shapes(recording, "matmul") == [((size, 2), (2, 4)) for size in _SIZES]
    own = [verdict for verdict in verdicts if verdict.miss.function.jax_name == "matmul"]
    assert [[change.component for change in verdict.changes] for verdict in own] == [
        [],
        ["shape"],
        ["shape"],
    ]


def test_the_program_of_a_call_under_vmap_is_the_one_that_is_compiled(
    judge_all: JudgeAll,
) -> None:
    @jax.jit
    def step(x: Any) -> Any:
        return jnp.tanh(x).sum()

    def program() -> None:
        for size in _SIZES:
            jax.vmap(step)(np.ones((size, 2), np.float32))

    _, verdicts = judge_all(program)
    own = [verdict for verdict in verdicts if verdict.miss.function.name == "step"]
    assert [verdict.cause for verdict in own] == [Cause.FIRST_TRACE, *[Cause.SHAPE_CHANGED] * 2]
    # The first one was traced, for one row.
    assert [v.program.kind for v in own if v.program is not None] == ["shapes-only"] * 2


def test_a_named_axis_of_another_size_is_a_size_and_no_setting(judge_all: JudgeAll) -> None:
    @jax.jit
    def centred(x: Any) -> Any:
        return x - jax.lax.pmean(x, "batch")

    def program() -> None:
        for size in _SIZES:
            jax.vmap(centred, axis_name="batch")(np.ones((size, 2), np.float32))

    recording, verdicts = judge_all(program)
    again = [v for v in verdicts if v.miss.function.name == "centred"][1:]
    assert [(v.cause, v.avoidable) for v in again] == [(Cause.CONFIG_CHANGED, "maybe")] * 2
    advice = again[0].fix
    assert isinstance(advice, FewMapped)
    assert (advice.axes, advice.paths, advice.others) == (("batch",), ("axis_env", "x"), ())
    assert advice.proof is not Proof.PROGRAM
    (step,) = plan(recording, verdicts).steps
    assert "`x`" in title(step.proposal)
    assert "axis_env" not in title(step.proposal)


def test_what_does_not_depend_on_the_mapped_axis_is_told(judge_all: JudgeAll) -> None:
    weights = np.ones((2, 4), np.float32)

    @jax.jit
    def norm(weights: Any) -> Any:
        return jnp.sqrt((weights**2).sum())

    def program() -> None:
        for size in _SIZES:
            rows = np.ones((size, 2), np.float32)
            jax.vmap(lambda x: x * norm(weights), axis_name="batch")(rows)

    recording, verdicts = judge_all(program)
    again = [v for v in verdicts if v.miss.function.name == "norm"][1:]
    assert [(v.cause, v.avoidable) for v in again] == [(Cause.CONFIG_CHANGED, "yes")] * 2
    assert again[0].program is not None
    assert again[0].program.kind == "identical"
    assert isinstance(again[0].fix, FewMapped)
    assert again[0].fix.proof is Proof.PROGRAM
    (step,) = plan(recording, verdicts).steps
    assert "`batch`" in title(step.proposal)


def test_what_is_advised_leaves_one_program_and_the_results(judge_all: JudgeAll) -> None:
    """Mapped over one size, with a mask; and what the axis does not matter to, outside."""
    weights = np.ones((2, 4), np.float32)

    @jax.jit
    def centred(x: Any, mask: Any) -> Any:
        mean = jax.lax.psum(jnp.where(mask, x, 0), "batch") / jax.lax.psum(mask, "batch")
        return x - mean

    @jax.jit
    def norm(weights: Any) -> Any:
        return jnp.sqrt((weights**2).sum())

    def program() -> None:
        for size in _SIZES:
            rows = np.arange(size * 2, dtype=np.float32).reshape(size, 2)
            padded = np.pad(rows, [(0, max(_SIZES) - size), (0, 0)])
            mask = np.arange(max(_SIZES)) < size
            outside = norm(weights)
            found = jax.vmap(lambda x, m: centred(x, m) * outside, axis_name="batch")(
                padded, mask
            )
            expected = (rows - rows.mean(0)) * np.sqrt(8)
            np.testing.assert_allclose(found[:size], expected, rtol=1e-5, atol=1e-5)

    _, verdicts = judge_all(program)
    counts = [v.miss.function.name for v in verdicts if v.miss.parent is None]
    assert (counts.count("centred"), counts.count("norm")) == (1, 1)


def test_axes_of_other_names_are_two_settings(judge_all: JudgeAll) -> None:
    @jax.jit
    def double(x: Any) -> Any:
        return x * 2

    def program() -> None:
        for name in ("rows", "columns"):
            jax.vmap(double, axis_name=name)(np.ones((3, 2), np.float32))

    _, verdicts = judge_all(program)
    (again,) = [v for v in verdicts if v.miss.function.name == "double"][1:]
    assert again.cause is Cause.CONFIG_CHANGED
    assert not isinstance(again.fix, FewMapped)


@pytest.mark.parametrize("mapped", [True, False])
def test_what_pmap_maps_is_not_told_to_be_jitted(mapped: bool, judge_all: JudgeAll) -> None:
    """Its axis would be gone, and with it `pmean` over it."""

    def made(scale: float) -> Any:
        def step(x: Any) -> Any:
            return jax.lax.pmean(x * scale, "devices")

        return (
            jax.pmap(step, "devices") if mapped else jax.jit(jax.vmap(step, axis_name="devices"))
        )

    def program() -> None:
        for scale in (2.0, 3.0):
            made(scale)(np.ones((1, 3), np.float32))

    (advice,) = [one.fix for one in judge_all(program)[1] if one.fix is not None]
    assert ("`jax.pmap` `step` once" in advised(advice)) == mapped
    assert ("jit" in advised(advice)) == (not mapped)

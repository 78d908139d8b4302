"""Modules of Equinox that are jitted themselves, and what results carry besides arrays."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.causes import Cause
from retrace.model import Component, Kind, Verdict
from retrace.model.advice import FewValues, JitAndPass, Proof, ToArgument
from retrace.plan.order import plan
from tests.recording.conftest import JudgeAll

ones = np.ones(4, np.float32)


class Stepper(eqx.Module):
    rate: Any
    weights: Any

    def __init__(self, rate: Any, size: int = 4) -> None:
        self.rate = rate
        self.weights = jnp.ones(size, jnp.float32)

    def __call__(self, x: Any) -> Any:
        return x - self.rate * self.weights.sum() * x

    def total(self, x: Any) -> Any:
        return self(x).sum()


WAYS: dict[str, Callable[[Any], Any]] = {
    "module": lambda one: eqx.filter_jit(one),
    "method": lambda one: eqx.filter_jit(one.total),
    "mapped": lambda one: eqx.filter_jit(eqx.filter_vmap(one, in_axes=None, axis_size=2)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_module_is_compared_like_an_argument(judge_all: JudgeAll, way: str) -> None:
    def program(cast: Any = float) -> list[Any]:
        made = (WAYS[way](Stepper(cast(rate))) for rate in (0.1, 0.2, 0.1, 0.2))
        return [np.asarray(step(ones)) for step in made]

    recording, verdicts = judge_all(program)
    own = [one for one in verdicts if one.miss.function.kind.value != "op"]
    first, again = own
    assert first.nearest is None
    assert again.cause is Cause.STATIC_ARGUMENT_CHANGED
    assert [(one.component, one.path) for one in _in_key(again)] == [("static", "self.rate")]
    assert isinstance(again.fix, ToArgument)
    assert again.fix.by_type
    (step,) = plan(recording, own).steps
    assert step.gone.calls.high == 1
    results: list[Any] = []
    _, after = judge_all(lambda: results.extend(program(np.float32)))
    assert len([one for one in after if one.miss.function.kind.value != "op"]) == len(own) + 1
    np.testing.assert_array_equal(results, program())


def test_a_module_of_another_size_has_arrays_of_another_size(judge_all: JudgeAll) -> None:
    def program() -> None:
        for size in (5, 6):
            eqx.filter_jit(Stepper(0.1, size))(ones)

    _, verdicts = judge_all(program)
    _, again = [one for one in verdicts if one.miss.function.name == "Stepper"]
    assert again.cause is Cause.SHAPE_CHANGED
    assert [one.path for one in _in_key(again)] == ["self.weights"]


def test_the_library_s_module_is_not_to_be_created_once(judge_all: JudgeAll) -> None:
    """It would then drop out at the first rate for every other."""

    def program() -> None:
        for rate in (0.1, 0.5, 0.1, 0.5):
            eqx.filter_jit(eqx.nn.Dropout(rate))(jnp.asarray(ones), key=jax.random.key(0))

    _, verdicts = judge_all(program)
    (again,) = [one for one in verdicts if one.miss.function.name == "Dropout" and one.nearest]
    assert [one.path for one in _in_key(again)] == ["self.p"]
    assert isinstance(again.fix, ToArgument)
    assert again.fix.proof is Proof.MEANING


@partial(jax.tree_util.register_dataclass, data_fields=["values"], meta_fields=["unit"])
@dataclasses.dataclass
class Quantity:
    values: Any
    unit: Any


class Scale:
    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.apply = jax.jit(self.apply)

    def apply(self, x: Any) -> Any:
        return Quantity(x + 1, self.unit)


def _square() -> None:
    square = jax.jit(lambda q: Quantity(q.values**2, q.unit))
    for unit in "ms":
        square(Quantity(ones, unit))


def _tag() -> None:
    tag = jax.jit(lambda x, unit: Quantity(x * 3, unit), static_argnums=1)
    for unit in "ms":
        tag(ones, unit)


def _packed() -> None:
    @eqx.filter_jit
    def tag(x: Any, unit: str) -> Any:
        return x * 5, unit

    for unit in "ms":
        tag(ones, unit)


def _closure() -> None:
    for unit in "ms":
        jax.jit(lambda x, unit=unit: Quantity(x * 2, unit))(ones)


def _method() -> None:
    for unit in "ms":
        Scale(unit).apply(ones)


@pytest.mark.parametrize("program", [_square, _tag, _packed, _closure, _method])
def test_what_results_carry_depends_on_it(
    judge_all: JudgeAll, program: Callable[[], None]
) -> None:
    """The equations are the same, but one program for both would return the first unit twice."""
    recording, verdicts = judge_all(program)
    (again,) = [one for one in verdicts if one.nearest is not None]
    assert again.program_change == "different"
    assert again.avoidable == "maybe"
    (step,) = plan(recording, verdicts).steps
    advice = step.proposal.advice
    if program is _closure:
        assert isinstance(advice, JitAndPass)
        assert advice.static == ("unit",)
    else:
        assert step.sure == "ask"
    if program in (_square, _tag, _packed):
        assert isinstance(again.fix, FewValues)
        assert again.fix.why == "carried"


def test_what_results_carry_may_be_in_the_program_too(judge_all: JudgeAll) -> None:
    scaled = jax.jit(lambda x, by: Quantity(x * by, by), static_argnums=1)
    _, verdicts = judge_all(lambda: [scaled(ones, by) for by in (2.0, 3.0)])
    (again,) = [one for one in verdicts if one.nearest is not None]
    assert isinstance(again.fix, FewValues)
    assert again.fix.why == "program"


def test_an_object_with_the_same_contents_is_carried_alike(judge_all: JudgeAll) -> None:
    """A train state carries its own functions: one of them suits every call."""
    step = jax.jit(lambda state: Quantity(state.unit(state.values), state.unit))

    def program() -> None:
        for _ in range(2):
            step(Quantity(ones, lambda x: jnp.sin(x)))

    _, verdicts = judge_all(program)
    (again,) = [one for one in verdicts if one.nearest is not None]
    assert again.program_change == "identical"
    assert again.avoidable == "yes"


def test_a_call_that_is_only_compiled_again_carries_the_same(judge_all: JudgeAll) -> None:
    """It has no trace, and so no results of its own."""
    double = jax.jit(lambda q: Quantity(q.values * 2, q.unit))
    device = jax.devices()[0]

    def program() -> None:
        double(Quantity(jnp.ones(4), "m"))
        double(Quantity(jax.device_put(jnp.ones(4), device), "m"))
        with jax.default_matmul_precision("highest"):
            double(Quantity(jnp.ones(4), "m"))

    _, verdicts = judge_all(program)
    again = [one for one in verdicts if one.miss.function.kind is Kind.LAMBDA][1:]
    assert again
    assert {one.program_change for one in again} == {"identical"}


def _in_key(verdict: Verdict) -> list[Any]:
    return [one for one in verdict.changes if one.component is not Component.PROGRAM]

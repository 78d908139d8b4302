"""What published packages are used for, as their users write it.

Where a program is run as changed, too, its results are the same and the misses left are those
promised.
"""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest

from retrace.causes import Cause
from retrace.model import Component
from retrace.model.advice import (
    FewValues,
    JitAndPass,
    JitForEach,
    JitOnce,
    OneDtype,
    OneStructure,
    PadShape,
    PassHeld,
    PlaceFirst,
    Proof,
    ReuseObject,
    ToArgument,
)
from retrace.plan.order import plan
from retrace.present.advice import advised
from retrace.present.passing_words import UNEXPLAINED
from retrace.present.plan_words import sentence
from retrace.reason.verdict import judge
from retrace.store.reader import read
from tests.process import retrace
from tests.recording.conftest import JudgeAll

ones = np.ones(3, np.float32)
scale = 1.0
optimizer: Any = None


@pytest.mark.parametrize(
    "function",
    [
        jax.nn.softplus,
        jax.nn.log_sigmoid,
        lambda x: jnp.logaddexp(x, 1.0),
        jax.checkpoint(lambda x: jax.nn.softplus(jnp.sin(x))),
        lambda x: jax.lax.cond(x.sum() > 0, jax.nn.softplus, jnp.negative, x),
    ],
    ids=["softplus", "log_sigmoid", "logaddexp", "checkpoint", "cond"],
)
def test_the_same_gradient_is_the_same_program(judge_all: JudgeAll, function: Any) -> None:
    """Its rule is wrapped in a dozen of JAX's own wrappers, twice if it was differentiated."""

    def program() -> None:
        for _ in range(2):
            jax.jit(lambda x: jax.grad(lambda x: jnp.sum(function(x)))(x))(ones)

    _, verdicts = judge_all(program)
    _, again = [one for one in verdicts if "<lambda>" in one.miss.function.name]
    assert again.program_change == "identical"
    assert isinstance(again.fix, JitOnce)
    assert again.avoidable == "yes"


SAMPLER = """
import jax

def langevin(x, logdensity, step_size, mass):
    return x + mass * step_size * jax.grad(logdensity)(x)

def unadjusted(logdensity, step_size):
    def one(x):
        return langevin(x, logdensity, step_size, 1.0)
    return one

def build(kernel, logdensity, args):
    def step(x):
        return kernel(x, logdensity, *args)
    return step
"""


@pytest.fixture
def sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "langevin_sampler.py").write_text(SAMPLER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "langevin_sampler", raising=False)
    import langevin_sampler  # pyright: ignore[reportMissingImports]

    return langevin_sampler


@pytest.mark.parametrize("mass", [float, jnp.array], ids=["number", "array"])
def test_a_number_that_a_package_s_function_holds_is_not_frozen(
    judge_all: JudgeAll, sampler: Any, mass: Any
) -> None:
    """The step over the user's density is the package's, and what it holds is not recorded."""
    data = np.arange(5.0, dtype=np.float32)

    def logdensity(x: Any) -> Any:
        return -0.5 * jnp.sum((data - x) ** 2)

    def program() -> None:
        for step_size in (0.1, 0.05):
            step = jax.jit(sampler.build(sampler.langevin, logdensity, [step_size, mass(1.0)]))
            step(np.zeros(1, np.float32))

    recording, verdicts = judge_all(program)
    _, again = [one for one in verdicts if one.miss.function.name == "logdensity"]
    assert again.fix is not None
    assert again.fix.proof is Proof.MEANING
    (step,) = plan(recording, verdicts).steps
    assert step.sure == "ask"
    said = sentence(step.proposal)
    assert UNEXPLAINED in said or "what wraps it" in said


@pytest.mark.parametrize("way", ["number", "in a tuple"])
def test_the_number_that_a_package_s_function_holds_is_named(
    judge_all: JudgeAll, sampler: Any, way: str
) -> None:
    """It is passed to a jitted function that calls the package's, which then gives the same."""
    data = np.arange(3.0, dtype=np.float32)
    rates = (0.1, 0.05, 0.02)

    def logdensity(x: Any) -> Any:
        return -0.5 * jnp.sum((np.arange(3.0) - x) ** 2)

    def make(rate: Any) -> Any:
        if way == "number":
            return sampler.unadjusted(logdensity, rate)
        return sampler.build(sampler.langevin, logdensity, (rate, 1.0))

    results: list[Any] = []
    recording, verdicts = judge_all(lambda: results.extend(jax.jit(make(r))(data) for r in rates))
    (step,) = plan(recording, verdicts).steps
    advice = step.proposal.advice
    assert isinstance(advice, JitAndPass)
    assert advice.maker == ("unadjusted" if way == "number" else "build")
    assert advice.traced == (("step_size",) if way == "number" else ("args[0]",))
    assert step.sure == "ask"
    assert step.gone.calls.high == 2

    once = jax.jit(lambda x, rate: make(rate)(x))
    changed: list[Any] = []
    _, after = judge_all(lambda: changed.extend(once(data, rate) for rate in rates))
    assert len(after) == len(verdicts) + 1
    np.testing.assert_allclose(changed, results, rtol=1e-6)


def test_a_number_that_python_computes_with_is_passed(judge_all: JudgeAll) -> None:
    def program() -> None:
        global scale
        for scale in (0.5, 1.5):
            jax.jit(lambda x: (x / np.full(1, scale, np.float32)).sum())(ones)

    _, verdicts = judge_all(program)
    (fix,) = [one.fix for one in verdicts if one.nearest is not None]
    assert isinstance(fix, JitAndPass)
    assert fix.traced == ("scale",)
    assert fix.computed
    assert not fix.unexplained


def test_what_is_known_in_part_may_hold_the_number(judge_all: JudgeAll) -> None:
    """The constant is none of what is read, so the optimizer may be why, too."""

    def program() -> None:
        global scale, optimizer
        for scale in (0.5, 1.5):
            optimizer = optax.adam(0.1)
            state = optimizer.init(ones)

            @jax.jit
            def step(x: Any, state: Any) -> Any:
                return optimizer.update(x / np.full(1, scale, np.float32), state)[0]

            step(ones, state)

    _, verdicts = judge_all(program)
    (again,) = [one for one in verdicts if one.miss.function.name == "step" and one.nearest]
    assert isinstance(again.fix, JitAndPass)
    assert "scale" in again.fix.traced
    assert again.fix.unexplained
    assert again.fix.proof is Proof.MEANING


def test_a_function_that_only_looks_the_same_is_not_blamed(judge_all: JudgeAll) -> None:
    def maker() -> Any:
        held = jnp.ones(3)
        return lambda x: x * held.shape[0]

    @partial(jax.jit, static_argnames=("act", "update"))
    def step(p: Any, s: Any, act: Any, update: Any) -> Any:
        updates, s = update(jax.grad(lambda p: jnp.sum(act(p) ** 2))(p), s, p)
        return optax.apply_updates(p, updates), s

    def program() -> None:
        for rate in (1e-3, 1e-2):
            optimizer = optax.sgd(rate)
            step(ones, optimizer.init(ones), maker(), optimizer.update)

    _, verdicts = judge_all(program)
    (fix,) = [one.fix for one in verdicts if one.miss.function.name == "step" and one.nearest]
    assert isinstance(fix, PassHeld)
    assert fix.paths == ("update",)


def test_no_shape_depends_on_an_object_beside_a_size(judge_all: JudgeAll) -> None:
    class Normal:
        def __init__(self, loc: float) -> None:
            self.loc = jnp.asarray(loc)
            self.lock = object()

    @partial(jax.jit, static_argnames=("shape", "d"))
    def sample(shape: Any, d: Any) -> Any:
        return d.loc + jnp.zeros(shape)

    _, verdicts = judge_all(lambda: [sample((n,), Normal(0.0)) for n in (2, 3)])
    (fix,) = [one.fix for one in verdicts if one.miss.function.name == "sample" and one.nearest]
    assert isinstance(fix, FewValues)
    assert fix.paths == ("shape[0]",)
    assert fix.others == (("d", "static"),)


def test_a_placement_names_its_device(judge_all: JudgeAll) -> None:
    """Without a device, `jax.device_put` leaves an array uncommitted."""
    device = jax.devices()[0]

    def program(first: Any) -> int:
        scaled: Any = jax.jit(lambda p: p * 2)
        scaled(first)
        scaled(jax.device_put(ones, device))
        return scaled._cache_size()

    _, verdicts = judge_all(lambda: program(jnp.ones(3)))
    (fix,) = [one.fix for one in verdicts if isinstance(one.fix, PlaceFirst)]
    said = advised(fix)
    assert "with that device" in said
    assert program(jax.device_put(jnp.ones(3))) == 2
    assert program(jax.device_put(jnp.ones(3), device)) == 1


def test_a_python_number_stays_one(judge_all: JudgeAll) -> None:
    """NumPy's number of the same dtype is not weakly typed, so it is another key."""
    doubled: Any = jax.jit(lambda x: x * 2)
    _, verdicts = judge_all(lambda: [doubled(0.5), doubled(1)])
    (fix,) = [one.fix for one in verdicts if isinstance(one.fix, OneDtype)]
    assert fix.python
    assert "`1.0` for `1`" in advised(fix)
    before = doubled._cache_size()
    doubled(1.0)
    assert doubled._cache_size() == before
    doubled(np.float32(1))
    assert doubled._cache_size() == before + 1


def test_keys_are_not_padded_with_numpy(judge_all: JudgeAll) -> None:
    @jax.jit
    def noisy(keys: Any, pos: Any) -> Any:
        return pos + jax.vmap(jax.random.normal)(keys)

    given = [(jax.random.split(jax.random.key(0), n), np.ones(n, np.float32)) for n in (2, 4)]
    recording, verdicts = judge_all(lambda: [noisy(*each) for each in given])
    fix = next(one.fix for one in verdicts if isinstance(one.fix, PadShape))
    assert fix.keys == ("keys",)
    (step,) = plan(recording, verdicts).steps
    assert step.proposal.sizes is not None
    assert step.proposal.sizes.keys == ("keys",)
    assert "`pos axis 0` to 4" in sentence(step.proposal)
    # As many keys in each call, of which the first are those of before.
    many = jax.random.split(jax.random.key(0), 4)
    two = jax.random.key_data(given[0][0])
    np.testing.assert_array_equal(jax.random.key_data(many)[:2], two)
    before = noisy(*given[0])
    padded = noisy(many, np.pad(given[0][1], (0, 2), mode="edge"))
    np.testing.assert_array_equal(before, padded[:2])


def test_keys_in_many_sizes_are_not_padded_with_numpy(judge_all: JudgeAll) -> None:
    """At the second size they look like a last batch, at the third no longer."""

    @jax.jit
    def noisy(keys: Any, pos: Any) -> Any:
        return pos + jax.vmap(jax.random.normal)(keys)

    def program() -> None:
        for n in (8, 5, 3):
            noisy(jax.random.split(jax.random.key(0), n), np.ones(n, np.float32))

    _, verdicts = judge_all(program)
    fixes = [one.fix for one in verdicts if one.miss.function.name == "noisy" and one.nearest]
    assert [isinstance(fix, PadShape) and fix.keys for fix in fixes] == [("keys",)] * 2


class Strategy:
    """Passed as a static argument to two functions, of which one reads `rate`."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    @partial(jax.jit, static_argnames="self")
    def init(self, key: Any) -> Any:
        return key * 0.0

    @partial(jax.jit, static_argnames="self")
    def tell(self, mean: Any, fit: Any) -> Any:
        return mean + self.rate * fit


def test_a_value_that_one_of_two_functions_reads_is_passed(judge_all: JudgeAll) -> None:
    rates = (1.0, 0.1, 0.01)

    def program() -> list[Any]:
        several = [Strategy(rate) for rate in rates]
        return [one.tell(one.init(ones), ones) for one in several]

    def changed() -> list[Any]:
        @partial(jax.jit, static_argnames="one")
        def tell(one: Any, mean: Any, fit: Any, rate: Any) -> Any:
            return mean + rate * fit

        one = Strategy(1.0)
        return [tell(one, one.init(ones), ones, rate) for rate in rates]

    recording, verdicts = judge_all(program)
    (step,) = plan(recording, verdicts).steps
    assert isinstance(step.proposal.advice, ToArgument)
    assert step.proposal.advice.paths == ("self.rate",)
    assert step.gone.calls.high == 4
    jax.clear_caches()
    results: list[Any] = []
    _, after = judge_all(lambda: results.extend(changed()))
    assert sum(one.miss.function.kind.value != "op" for one in after[len(verdicts) :]) == 2
    np.testing.assert_array_equal(results, program())


def test_fields_of_another_class_are_part_of_the_class(judge_all: JudgeAll) -> None:
    class Damped(eqx.Module):
        rtol: float
        shrink: float = 0.5

    class Plain(eqx.Module):
        rtol: float

    @eqx.filter_jit
    def solve(x: Any, solver: Any) -> Any:
        return x * getattr(solver, "shrink", 1.0) - solver.rtol

    _, verdicts = judge_all(lambda: [solve(ones, each) for each in (Damped(0.1), Plain(0.1))])
    (again,) = [one for one in verdicts if one.nearest is not None]
    assert again.cause is Cause.TREE_STRUCTURE_CHANGED
    in_key = [one for one in again.changes if one.component is not Component.PROGRAM]
    assert [(one.component, one.path) for one in in_key] == [("tree", "solver")]


def test_a_flag_may_mean_something_else_than_a_number(judge_all: JudgeAll) -> None:
    filled = jax.jit(lambda x, extrap: -x if extrap.dtype == bool else x * extrap)
    _, verdicts = judge_all(lambda: [filled(ones, 2.0), filled(ones, True)])
    (fix,) = [one.fix for one in verdicts if isinstance(one.fix, OneDtype)]
    assert advised(fix).startswith("if `extrap` means")
    assert "otherwise leave it" in advised(fix)


class Outer:
    def apply(v: Any) -> Any:  # pyright: ignore[reportSelfClsParameterName]
        return jnp.outer(v[:3], v[3:]) + jnp.sin(v[:3])


class Turn:
    def apply(v: Any) -> Any:  # pyright: ignore[reportSelfClsParameterName]
        return jnp.array([[jnp.cos(v[2]), -jnp.sin(v[2])], [jnp.sin(v[2]), jnp.cos(v[2])]])


group: Any = None
moved: Any = None


def test_functions_of_two_classes_are_no_last_batch(judge_all: JudgeAll) -> None:
    def program() -> None:
        global group
        for group, size in ((Outer, 6), (Turn, 3)):
            jax.jit(lambda v: group.apply(v))(np.ones(size, np.float32))

    recording, verdicts = judge_all(program)
    (again,) = [one for one in verdicts if one.nearest is not None]
    assert again.cause is Cause.SHAPE_CHANGED
    assert again.pattern is None
    assert isinstance(again.fix, PadShape)
    assert again.fix.written
    assert again.fix.reading == ("group",)
    assert all(step.sure == "ask" for step in plan(recording, verdicts).steps)


def test_a_package_s_closure_is_not_taken_for_another(judge_all: JudgeAll, sampler: Any) -> None:
    """What it holds is not seen, so one that was made again may give another program."""
    center = np.arange(3.0, dtype=np.float32)

    def logdensity(x: Any) -> Any:
        return -0.5 * jnp.sum((center - x) ** 2)

    def program() -> None:
        global moved
        for step_size in (0.1, 0.05):
            moved = sampler.build(sampler.langevin, logdensity, (step_size, 1.0))
            jax.jit(lambda x: moved(x))(ones)

    _, verdicts = judge_all(program)
    (again,) = [one for one in verdicts if one.nearest is not None]
    assert isinstance(again.fix, JitAndPass | JitForEach)
    assert "`moved`" in advised(again.fix)
    assert "center" not in advised(again.fix)


def test_a_size_does_not_explain_a_changed_rate(judge_all: JudgeAll) -> None:
    """Two rates, each with two sizes: no program computes with the size."""

    def make(rate: float) -> Any:
        @jax.jit
        def step(w: Any, x: Any) -> Any:
            return w - rate * jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)

        return step

    def program() -> None:
        for rate in (0.1, 0.01):
            step = make(rate)
            for size in (2, 4):
                step(ones, np.ones((size, 3), np.float32))

    recording, verdicts = judge_all(program)
    padding = [one for one in plan(recording, verdicts).steps if one.proposal.sizes is not None]
    (step,) = padding
    assert step.sure == "likely"
    assert "size itself" not in sentence(step.proposal)


def test_a_function_that_is_new_with_another_size_is_created_once(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnums=1)
    def masked(mask: Any, function: Any, x: Any) -> Any:
        return jnp.where(mask, function(jnp.where(mask, x, 0)), 0)

    eps = jnp.float32(2.0)

    def program() -> None:
        for size in (4, 4, 6, 6):
            x = np.ones(size, np.float32)
            masked(x > 0, lambda x: eps * x, x)

    _, verdicts = judge_all(program)
    own = [one.fix for one in verdicts if one.nearest is not None and one.miss.calls is None]
    assert own
    assert not any(isinstance(fix, PassHeld) for fix in own)
    assert sum(isinstance(fix, ReuseObject) for fix in own) == 3


def test_a_partial_of_a_jitted_function_is_not_jitted(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnames="times")
    def tile(x: Any, times: int) -> Any:
        return jnp.tile(x, times)

    def program() -> None:
        for _ in range(2):
            jax.jit(partial(tile, times=2))(ones)

    _, verdicts = judge_all(program)
    (fix,) = [one.fix for one in verdicts if isinstance(one.fix, JitAndPass)]
    assert fix.jitted
    assert fix.static == ("times",)
    assert advised(fix).startswith("call `tile`")


GAME = """
import jax.numpy as jnp

class Game:
    def __init__(self, size):
        self.size = size

    def reset(self):
        return jnp.zeros((self.size, self.size))

    def step(self, state):
        return {"state": state.at[0, self.size - 1].set(1.0), "reward": state.sum() * 0.0 + 1}
"""


def test_the_method_of_another_object_of_a_package_is_not_jitted_once(
    judge_all: JudgeAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its methods read is not recorded: one kept would go on with its first object."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "board_game.py").write_text(GAME, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    import board_game  # pyright: ignore[reportMissingImports]

    def program() -> None:
        for size in (3, 4):
            game = board_game.Game(size)
            jax.jit(game.step)(np.zeros((size, size), np.float32))

    recording, verdicts = judge_all(program)
    (again,) = [one for one in verdicts if one.nearest is not None]
    assert again.cause is Cause.SHAPE_CHANGED
    assert again.fix is not None
    assert again.fix.another == "Game"
    assert "another `Game`" in advised(again.fix)
    assert all(step.sure == "ask" for step in plan(recording, verdicts).steps)


def test_a_schedule_is_injected_as_a_whole(judge_all: JudgeAll) -> None:
    """A schedule that is injected overwrites the value that is set in the state."""
    rates = (0.1, 0.01, 0.001)
    start = np.zeros(3, np.float32)

    def steps(tx: Any, state: Any) -> Any:
        updates, state = tx.update(ones, state, start)
        return tx.update(updates, state, start)[0]

    def program() -> list[Any]:
        results: list[Any] = []
        for rate in rates:
            tx = optax.sgd(optax.cosine_decay_schedule(rate, 10))
            results.append(jax.jit(lambda state, tx=tx: steps(tx, state))(tx.init(start)))
        return results

    def injected(make: Any, name: str) -> list[Any]:
        tx = make(rates[0])
        once = jax.jit(lambda state: steps(tx, state))
        results: list[Any] = []
        for rate in rates:
            state = tx.init(start)
            state.hyperparams[name] = np.float32(rate)
            results.append(once(state))
        return results

    _, verdicts = judge_all(program)
    fixes = [one.fix for one in verdicts if one.fix is not None and one.fix.scheduled]
    assert len(fixes) == 2
    assert {one.scheduled for one in fixes} == {("init_value",)}
    assert "lambda init_value: optax.sgd(schedule(init_value=init_value))" in advised(fixes[0])

    def schedule(init_value: Any) -> Any:
        return optax.cosine_decay_schedule(init_value, 10)

    whole = injected(
        lambda rate: optax.inject_hyperparams(
            lambda init_value: optax.sgd(schedule(init_value=init_value))
        )(init_value=rate),
        "init_value",
    )
    np.testing.assert_allclose(whole, program(), rtol=1e-6)
    alone = injected(
        lambda rate: optax.inject_hyperparams(optax.sgd)(learning_rate=schedule(rate)),
        "learning_rate",
    )
    assert np.array_equal(alone[0], alone[2])  # why the number alone must not be set


def test_a_number_of_steps_is_not_injected(judge_all: JudgeAll) -> None:
    def program() -> None:
        for rate, steps in ((0.1, 10), (0.01, 20), (0.001, 30)):
            tx = optax.sgd(optax.cosine_decay_schedule(rate, steps))
            jax.jit(lambda state, tx=tx: tx.update(ones, state)[0])(tx.init(ones))

    _, verdicts = judge_all(program)
    fixes = [one.fix for one in verdicts if one.fix is not None and one.fix.scheduled]
    assert {one.scheduled for one in fixes} == {("init_value",)}
    assert {one.counted for one in fixes} == {("decay_steps",)}
    # optax compares it with 0.
    made = optax.inject_hyperparams(
        lambda decay_steps: optax.sgd(optax.cosine_decay_schedule(0.1, decay_steps))
    )(decay_steps=10)
    step = jax.jit(lambda state: made.update(ones, state)[0])
    with pytest.raises(jax.errors.TracerBoolConversionError):
        step(made.init(ones))


def test_a_plain_rate_is_no_schedule(judge_all: JudgeAll) -> None:
    def program() -> None:
        for rate in (0.1, 0.01):
            tx = optax.chain(optax.clip(1.0), optax.adam(rate))
            jax.jit(lambda state, tx=tx: tx.update(ones, state))(tx.init(ones))

    _, verdicts = judge_all(program)
    (fix,) = [one.fix for one in verdicts if isinstance(one.fix, JitAndPass)]
    assert fix.inject
    assert not fix.scheduled


def test_the_parameters_of_a_transform_are_named(judge_all: JudgeAll) -> None:
    def multiplied(a: Any, b: Any) -> Any:
        return jnp.sum(a * b * b)

    def program() -> None:
        for number in (0, 1):
            jax.jit(jax.grad(multiplied, argnums=number))(ones, ones * 2)
        for axis in (0, 1):
            jax.jit(jax.vmap(lambda row: row.cumsum(), in_axes=axis))(np.ones((3, 4), np.float32))

    recording, verdicts = judge_all(program)
    gradient, mapped = [one for one in verdicts if one.nearest is not None]
    for verdict, name in ((gradient, "argnums"), (mapped, "in_axes")):
        assert verdict.cause is Cause.TRANSFORM_RECREATED
        (change,) = [one for one in verdict.changes if one.component is Component.CLOSURE]
        assert change.path == name
        assert verdict.avoidable == "no"
    assert not plan(recording, verdicts).steps


def test_what_one_call_omits_beside_a_new_object_is_a_question(judge_all: JudgeAll) -> None:
    class Model:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        @partial(jax.jit, static_argnums=0)
        def step(self, w: Any, noise: Any = None) -> Any:
            return w * self.rate if noise is None else w * self.rate * noise

    def program() -> None:
        for rate in (0.1, 0.2):
            Model(rate).step(ones, ones)
        Model(0.1).step(ones)

    recording, verdicts = judge_all(program)
    _, step = plan(recording, verdicts).steps
    assert step.sure == "ask"
    assert isinstance(step.proposal.advice, OneStructure)
    assert step.proposal.advice.way == "omitted"


def test_another_dtype_beside_a_new_object_is_a_question(judge_all: JudgeAll) -> None:
    class Model:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        @partial(jax.jit, static_argnums=0)
        def step(self, w: Any) -> Any:
            return w * self.rate

    def program() -> None:
        for rate in (0.1, 0.2):
            Model(rate).step(ones)
        Model(0.1).step(ones.astype(np.float16))

    recording, verdicts = judge_all(program)
    _, step = plan(recording, verdicts).steps
    assert step.sure == "ask"
    assert "leave it" in sentence(step.proposal)


def test_a_symbolic_size_is_no_size(judge_all: JudgeAll) -> None:
    from jax import export

    total = jax.jit(lambda x: x.sum() * x.mean())

    def program() -> None:
        for size in (4, 8):
            total(np.ones(size, np.float32))
        (size,) = export.symbolic_shape("b")
        export.export(total)(jax.ShapeDtypeStruct((size,), np.float32))

    recording, verdicts = judge_all(program)
    (step,) = plan(recording, verdicts).steps
    assert step.proposal.sizes is not None
    assert step.proposal.sizes.seen == (4, 8)
    assert step.gone.calls.high == 1


def test_a_function_over_other_contents_is_no_last_batch(judge_all: JudgeAll) -> None:
    def make(scale: float) -> Any:
        return jax.jit(lambda q: q - jax.grad(lambda q: jnp.sum((q / scale) ** 2))(q))

    def program() -> None:
        for scale, size in ((1.0, 3), (2.0, 3), (3.0, 2)):
            make(scale)(np.ones(size, np.float32))

    _, verdicts = judge_all(program)
    smaller = verdicts[-1]
    assert smaller.cause is Cause.SHAPE_CHANGED
    assert smaller.pattern is None
    assert isinstance(smaller.fix, PadShape)


def test_generated_functions_were_not_edited(judge_all: JudgeAll) -> None:
    def program() -> None:
        for text in ("v * 2", "v + 1", "v ** 3"):
            jax.jit(eval(f"lambda v: {text}"))(ones)

    recording, verdicts = judge_all(program)
    assert {one.cause for one in verdicts} == {Cause.FIRST_TRACE}
    assert not plan(recording, verdicts).steps


ENGINE = """
import jax.numpy as jnp

def advance(state):
    reward = state["reward"]
    return {"reward": reward + 1.0, "done": jnp.where(reward.sum() > 0, 1.0, 0.0)}
"""


def test_what_a_package_returns_weakly_typed_is_reported_there(
    judge_all: JudgeAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages" / "physics_engine"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(ENGINE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder.parent))
    import physics_engine  # pyright: ignore[reportMissingImports]

    def program() -> None:
        advance = jax.jit(physics_engine.advance)
        state: Any = {"reward": jnp.broadcast_to(1.0, (3,)), "done": np.float32(0)}
        for _ in range(2):
            state = advance(state) | {"reward": ones}

    _, verdicts = judge_all(program)
    (fix,) = [one.fix for one in verdicts if one.cause is Cause.WEAK_TYPE_CHANGED]
    assert fix is not None
    assert "physics_engine" in advised(fix)


DEVICES = """
import jax, numpy as np

mean = jax.pmap(lambda x: x - jax.lax.pmean(x, "i"), axis_name="i")
for rows in (4, 2):
    mean(np.ones((rows, 2), np.float32))
"""


def test_the_axis_of_devices_is_not_padded(tmp_path: Path) -> None:
    """A row that is added would be one more device, and change what all devices sum up."""
    (tmp_path / "program.py").write_text(DEVICES, encoding="utf-8")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = retrace("run", "--quiet", "--out", "rec", "program.py", cwd=tmp_path, **flags)
    assert done.returncode == 0, done.stderr
    recording = read([tmp_path / "rec"])
    verdicts = judge(recording)
    (again,) = [one for one in verdicts if one.cause is Cause.SHAPE_CHANGED]
    assert again.fix is None
    assert not plan(recording, verdicts).steps

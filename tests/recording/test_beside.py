"""What differs beside what is named: advice that names a part of it would freeze the rest.

Each program is one that people write. Where it says so it is run as changed, too: its results are
the same, and the misses left are those promised.
"""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest

from retrace.model import Verdict
from retrace.model.advice import (
    Advice,
    CastCarry,
    CastNumber,
    FewValues,
    InjectHyperparams,
    JitAndPass,
    JitForEach,
    JitOnce,
    LeaveOutValue,
    PassHeld,
    ReuseObject,
    ToArgument,
    ToArray,
)
from retrace.present.program import difference_facts
from retrace.present.view import View
from tests.recording.conftest import JudgeAll

Told = TypeVar("Told", bound=Advice)
Run = Callable[[Callable[[], Any]], tuple[Any, list[Verdict]]]
rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
targets = rows @ np.array([1.0, 2.0, 3.0], np.float32)


@pytest.fixture
def ran(judge_all: JudgeAll) -> Run:
    """Run a program; what it returned, and the verdicts on its own misses."""
    seen: set[str] = set()

    def of(program: Callable[[], Any]) -> tuple[Any, list[Verdict]]:
        results: list[Any] = []
        _, verdicts = judge_all(lambda: results.append(program()))
        own = [one for one in verdicts if one.miss.id not in seen]
        seen.update(one.miss.id for one in own)  # all that this test recorded is there
        return results[0], own

    return of


def told(verdicts: list[Verdict], kind: type[Told]) -> list[Told]:
    return [one.fix for one in verdicts if isinstance(one.fix, kind)]


def calls(verdicts: list[Verdict]) -> int:
    return sum(one.miss.function.kind.value != "op" for one in verdicts)


class Trainer:
    """Reads what it holds inside a function that it jits at each fit."""

    def __init__(self, loss: Callable[..., Any], lr: float) -> None:
        self.loss, self.lr = loss, lr

    def fit(self, p: Any) -> Any:
        @jax.jit
        def upd(p: Any) -> Any:
            return p - self.lr * jax.grad(self.loss)(p)

        return upd(p)


def squares(reg: float) -> Callable[[Any], Any]:
    return lambda p: jnp.mean((rows @ p - targets) ** 2) + reg * jnp.sum(p**2)


def test_a_function_that_an_object_holds_differs_as_well(ran: Run) -> None:
    settings = [(0.01, 0.1), (0.1, 0.05), (1.0, 0.025)]

    def program() -> list[Any]:
        return [Trainer(squares(reg), lr).fit(np.zeros(3, np.float32)) for reg, lr in settings]

    @jax.jit
    def once(p: Any, reg: Any, lr: Any) -> Any:
        return p - lr * jax.grad(squares(reg))(p)

    def changed() -> list[Any]:
        return [once(np.zeros(3, np.float32), reg, lr) for reg, lr in settings]

    before, verdicts = ran(program)
    fixes = told(verdicts, JitAndPass)
    assert {name for fix in fixes for name in fix.traced} == {"self.lr", "self.loss.reg"}
    after, left = ran(changed)
    np.testing.assert_allclose(before, after, rtol=1e-6)
    assert calls(left) == 1


def test_arrays_that_an_object_holds_differ_as_well(ran: Run) -> None:
    class Scaled:
        def __init__(self, lr: float) -> None:
            self.lr = lr

        def fit(self, x: Any) -> Any:
            self.mean = x.mean(0)

            @jax.jit
            def step(w: Any, x: Any) -> Any:
                return w - self.lr * ((x - self.mean) @ w).mean()

            return step(np.ones(3, np.float32), x)

    def program() -> None:
        for fold, lr in enumerate((0.1, 0.2, 0.05)):
            Scaled(lr).fit(rows[fold * 10 : fold * 10 + 10])

    fixes = told(ran(program)[1], JitAndPass)
    assert fixes and all({"self.lr", "self.mean"} <= {*fix.traced} for fix in fixes)


fold = 0


def test_a_global_that_what_it_calls_reads_is_named(ran: Run) -> None:
    def program() -> None:
        global fold
        for number in range(3):
            fold = number
            loss = lambda p: jnp.sum(p**2) * (1 + 0.5 * fold)
            Trainer(loss, 0.1 / (fold + 1)).fit(np.ones(3, np.float32))

    fixes = told(ran(program)[1], JitAndPass)
    assert fixes and all({*fix.traced} == {"self.lr", "fold"} for fix in fixes)
    assert all(fix.unexplained for fix in fixes) and "ask" in {fix.sure for fix in fixes}


def summed(loss: Callable[[Any], Any], reg: float) -> None:
    @jax.jit
    def step(w: Any) -> Any:
        return loss(w).sum() + reg

    step(np.ones(3, np.float32))


def test_functions_over_several_losses_are_jitted_once_for_each(ran: Run) -> None:
    losses = (lambda x: x**2, lambda x: jnp.abs(x))

    def program() -> None:
        for loss in losses:
            for reg in (0.0, 0.5):
                summed(loss, reg)

    _, verdicts = ran(program)
    fixes = [*told(verdicts, JitAndPass), *told(verdicts, JitOnce)]
    assert fixes and all(fix.each == ("loss",) for fix in fixes)


def test_functions_over_one_loss_are_jitted_once(ran: Run) -> None:
    _, verdicts = ran(lambda: [summed(lambda x: x**2, reg) for reg in (0.0, 0.5)])
    fixes = told(verdicts, JitAndPass)
    assert fixes and not any(fix.each for fix in fixes)


class Agent:
    def __init__(self, tx: Any) -> None:
        self.tx = tx

    @partial(jax.jit, static_argnums=0)
    def update(self, p: Any, state: Any) -> Any:
        updates, state = self.tx.update(p, state)
        return p + updates, state


def test_an_optimizer_behind_a_static_self_keeps_its_number_in_its_state(
    ran: Run,
) -> None:
    p = np.ones(3, np.float32)
    rates = (0.1, 0.2, 0.3)

    def program() -> list[Any]:
        agents = [Agent(optax.sgd(rate)) for rate in rates]
        return [agent.update(p, agent.tx.init(p))[0] for agent in agents]

    agent = Agent(optax.inject_hyperparams(optax.sgd)(0.1))

    def changed() -> list[Any]:
        found: list[Any] = []
        for rate in rates:
            state = agent.tx.init(p)
            state.hyperparams["learning_rate"] = np.float32(rate)
            found.append(agent.update(p, state)[0])
        return found

    before, verdicts = ran(program)
    fixes = told(verdicts, InjectHyperparams)
    assert fixes and all(fix.holder == "self.tx" and "Agent" in fix.kept for fix in fixes)
    after, left = ran(changed)
    np.testing.assert_allclose(before, after, rtol=1e-6)
    assert sum(one.miss.function.name == "update" for one in left) == 1


def test_an_argument_of_a_pmap_is_not_mapped(ran: Run) -> None:
    x = np.ones((1, 3), np.float32)

    def scaled(x: Any, lr: Any) -> Any:
        return x * lr

    static = jax.pmap(scaled, axis_name="d", static_broadcasted_argnums=1)
    mapped = jax.pmap(scaled, axis_name="d", in_axes=(0, None))
    _, verdicts = ran(lambda: [static(x, lr) for lr in (0.1, 0.2)])
    fixes = [*told(verdicts, ToArgument), *told(verdicts, ToArray)]
    assert fixes and all(fix.mapped for fix in fixes)
    assert calls(ran(lambda: [mapped(x, lr) for lr in (0.1, 0.2)])[1]) == 1


@pytest.mark.parametrize(("dtype", "sure"), [("float16", "ask"), ("float32", "clear")])
def test_a_number_is_not_an_array_for_calls_with_another_dtype(
    dtype: str, sure: str, ran: Run
) -> None:
    mix = jax.jit(lambda x, gain: x * gain)

    def program() -> None:
        mix(rows, 0.9)
        mix(rows.astype(dtype), 0.9)
        mix(rows, np.float32(0.8))

    fixes = told(ran(program)[1], CastNumber)
    assert [(type(fix) is CastCarry, fix.sure) for fix in fixes] == [(sure == "clear", sure)]


@dataclass(frozen=True)
class Model:
    temp: float = 1.0


def test_a_new_object_beside_a_number_is_another_key_too(ran: Run) -> None:
    @partial(jax.jit, static_argnums=(0, 1))
    def step(model: Any, tx: Any, p: Any) -> Any:
        return tx.update(jnp.tanh(p / model.temp), tx.init(p))[0]

    def program() -> None:
        for temp in (1.0, 2.0, 3.0):
            step(Model(temp), optax.adam(1e-2), np.ones(3, np.float32))

    fixes = told(ran(program)[1], ToArray)
    assert fixes and all(fix.kept == ("tx",) and fix.outside == ("model",) for fix in fixes)


@partial(jax.tree_util.register_dataclass, data_fields=["a"], meta_fields=["matvec"])
@dataclass
class Operator:
    a: Any
    matvec: Any


def test_a_new_function_holds_nothing_else_where_a_type_explains_the_program(
    ran: Run,
) -> None:
    solve = jax.jit(lambda op, tol: op.matvec(op.a) * tol)

    def program() -> None:
        for tol in (0.1, 0.1, np.float32(0.1)):
            solve(Operator(np.ones(3, np.float32), lambda a: a * 2), tol)

    _, verdicts = ran(program)
    assert told(verdicts, ReuseObject) and not told(verdicts, PassHeld)


@dataclass(frozen=True)
class Config:
    act: str
    name: str = ""


@dataclass(frozen=True)
class Unnamed:
    act: str
    name: str = field(default="", compare=False)


def test_a_field_that_changed_for_nothing_is_left_out_beside_one_that_decides(
    ran: Run,
) -> None:
    runs = [("relu", 0), ("relu", 1), ("tanh", 2), ("tanh", 3)]

    def program(kind: Any) -> list[Any]:
        @partial(jax.jit, static_argnums=0)
        def update(config: Any, x: Any) -> Any:
            return getattr(jax.nn, config.act)(x)

        return [update(kind(act, f"run{i}"), rows) for act, i in runs]

    before, verdicts = ran(lambda: program(Config))
    assert {fix.paths for fix in told(verdicts, LeaveOutValue)} == {("config.name",)}
    after, left = ran(lambda: program(Unnamed))
    np.testing.assert_array_equal(before, after)
    assert calls(left) == 2


def test_numbers_that_follow_a_size_are_said_to(judge_all: JudgeAll) -> None:
    def draws(key: Any, x: Any) -> Any:
        return x[jax.random.randint(key, (), 0, x.shape[0])]

    draw, first = jax.jit(draws), jax.jit(lambda x: x[0])
    key = jax.random.key(0)
    recording, verdicts = judge_all(
        lambda: [(draw(key, rows[:n]), first(rows[:n])) for n in (30, 29)]
    )
    view = View(recording, verdicts)
    said = {
        one.miss.function.name: difference_facts(view, one.program.difference, one.changes)
        for one in verdicts
        if one.program is not None and one.program.difference is not None
    }
    assert "numbers" in str(said["draws"])
    assert "only its arguments" in str(said["<lambda>"])
    assert "numbers" not in str(said["<lambda>"])


SCHEDULE = {"lr": 0.1}


def test_what_the_function_reads_beside_a_static_number(ran: Run) -> None:
    @partial(jax.jit, static_argnames="lr")
    def step(w: Any, lr: float) -> Any:
        return w - lr * (w + SCHEDULE["lr"] * jnp.sin(w))

    @jax.jit
    def once(w: Any, lr: Any, read: Any) -> Any:
        return w - lr * (w + read * jnp.sin(w))

    def program() -> Any:
        w, found = jnp.ones(3), list[Any]()
        for rate in (0.1, 0.05, 0.025):
            SCHEDULE["lr"] = rate
            w = step(w, lr=rate)
            found.append(np.asarray(w))
        return found

    def changed() -> Any:
        w, found = jnp.ones(3), list[Any]()
        for rate in (0.1, 0.05, 0.025):
            w = once(w, rate, rate)
            found.append(np.asarray(w))
        return found

    before, verdicts = ran(program)
    fixes = told(verdicts, ToArgument)
    assert len(fixes) == 2
    assert {(fix.paths, fix.read_too, fix.sure) for fix in fixes} == {
        (("lr",), ("SCHEDULE['lr']",), "clear")
    }
    after, verdicts = ran(changed)
    np.testing.assert_array_equal(before, after)
    assert calls(verdicts) == 1


class Net:
    """Reads a rate that is set between its calls."""

    def __init__(self) -> None:
        self.rate = 0.0

    def apply(self, x: Any) -> Any:
        return (x * (1 - self.rate)).sum(0)


def test_what_the_function_reads_beside_a_size_is_asked(ran: Run) -> None:
    net = Net()
    apply = jax.jit(net.apply)

    def program() -> None:
        for n in range(3):
            net.rate = 0.1 * n
            apply(np.ones((2 + n, 3), np.float32))

    fixes = [one.fix for one in ran(program)[1] if one.fix is not None and one.fix.read_too]
    assert len(fixes) == 2
    assert {(fix.read_too, fix.sure) for fix in fixes} == {(("self.rate",), "ask")}


def block(x: Any, k: float) -> Any:
    return x * k


forward: Any = None


def test_what_a_helper_closes_over_has_a_name(ran: Run) -> None:
    def model(k: float, *, again: bool) -> Any:
        inner = jax.checkpoint(block) if again else block  # pyright: ignore[reportPrivateImportUsage]

        def forward(x: Any) -> Any:
            return inner(x, k)

        return forward

    def program() -> None:
        global forward
        for k, again in ((1.0, False), (0.5, False), (0.5, True), (0.25, True)):
            forward = model(k, again=again)
            jax.jit(lambda x: forward(x).sum())(rows)

    fixes = told(ran(program)[1], JitForEach)
    assert len(fixes) == 3
    assert {(fix.paths, fix.traced) for fix in fixes} == {(("forward.inner",), ("forward.k",))}


@dataclass(frozen=True)
class Rates:
    """Compared by all of its numbers."""

    lr: float
    decay: float


def test_all_numbers_of_one_object_are_passed(ran: Run) -> None:
    @partial(jax.jit, static_argnames="rates")
    def loss(w: Any, rates: Rates) -> Any:
        return rates.lr * w.sum() + rates.decay * (w**2).sum()

    @jax.jit
    def once(w: Any, lr: Any, decay: Any) -> Any:
        return lr * w.sum() + decay * (w**2).sum()

    settings = [(lr, decay) for decay in (0.0, 0.1, 0.2) for lr in (0.1, 1.1)]
    w = jnp.ones(4)
    before, verdicts = ran(lambda: [loss(w, Rates(*own)) for own in settings])
    assert {fix.paths for fix in told(verdicts, ToArgument)} == {("rates.lr", "rates.decay")}
    after, verdicts = ran(lambda: [once(w, *own) for own in settings])
    np.testing.assert_array_equal(before, after)
    assert calls(verdicts) == 1


def test_a_function_that_another_cause_shows_over_something_else(ran: Run) -> None:
    def make(parts: int) -> Any:
        @jax.jit
        def step(x: Any) -> Any:
            return x.reshape(parts, -1).sum()

        return step

    def program() -> None:
        for parts, n in ((4, 8), (4, 8), (2, 6)):
            make(parts)(np.ones(n, np.float32))

    verdicts = ran(program)[1]
    assert not told(verdicts, JitOnce)  # the first two are the same, the third is not
    assert [(*fix.traced, *fix.static) for fix in told(verdicts, JitAndPass)] == [("parts",)]


def test_a_number_that_names_a_result_is_not_passed(ran: Run) -> None:
    @partial(jax.jit, static_argnames="layer")
    def probe(w: Any, layer: int) -> Any:
        return {layer: (w * layer).sum()}

    verdicts = ran(lambda: [probe(rows, layer) for layer in (1, 2, 3)])[1]
    assert not told(verdicts, ToArgument)
    assert {fix.why for fix in told(verdicts, FewValues)} == {"results"}


def test_a_tuple_of_another_length_is_not_passed(ran: Run) -> None:
    @partial(jax.jit, static_argnames="words")
    def encode(x: Any, words: tuple[int, ...]) -> Any:
        return (x * len(words) + words[0]).sum()

    verdicts = ran(lambda: [encode(rows, tuple(range(n, 2 * n))) for n in (3, 4, 5)])[1]
    assert not told(verdicts, ToArgument)
    assert len(told(verdicts, FewValues)) == 2

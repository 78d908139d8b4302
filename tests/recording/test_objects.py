"""Objects that calls pass: what their class compares, it compares for every function.

Each program is written twice, as it is and as the plan says; the misses left are those promised.
"""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrace
from retrace.causes import Cause
from retrace.model import Verdict
from retrace.model.advice import (
    BranchInProgram,
    CastNumber,
    CompareByValue,
    DefineBodyOnce,
    FewValues,
    JitAndPass,
    JitForEach,
    JitOnce,
    KeepCaches,
    LeaveOutValue,
    OneKeyType,
    PadBatch,
    PassHeld,
    Sure,
    ToArgument,
    ToArray,
)
from retrace.plan.amount import Span
from retrace.plan.order import plan
from retrace.plan.step import Plan
from retrace.present.detail import detail
from retrace.present.plan_titles import title
from retrace.present.plan_words import sentence
from tests.recording.conftest import JudgeAll

Run = Callable[[Callable[[], object]], tuple[Plan, list[Verdict]]]


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def jitted(verdicts: list[Verdict]) -> list[Verdict]:
    return [one for one in verdicts if one.miss.function.kind.value != "op"]


@pytest.fixture
def ran(judge_all: JudgeAll) -> Run:
    seen = 0

    def of(program: Callable[[], object]) -> tuple[Plan, list[Verdict]]:
        nonlocal seen
        recording, verdicts = judge_all(program)
        own = jitted(verdicts)[seen:]  # all that this test recorded is there
        seen += len(own)
        return plan(recording, verdicts), own

    return of


def told(verdicts: list[Verdict], name: str) -> list[LeaveOutValue]:
    fixes = [one.fix for one in verdicts if one.miss.function.name == name]
    return [fix for fix in fixes if isinstance(fix, LeaveOutValue)]


class Rule(NamedTuple):
    """As an optimizer of optax: functions that hold its numbers."""

    update: Callable[[Any], Any]


def rule(rate: float) -> Rule:
    rates = [rate] * 1_000  # too many to be recorded
    return Rule(lambda x: x * rates[0])


current = rule(0.1)


def test_what_a_new_function_reads_in_part_may_be_why(ran: Run) -> None:
    def program() -> None:
        global current
        for rate in (0.1, 0.1, 0.2):
            current = rule(rate)

            @jax.jit
            def moved(x: Any) -> Any:
                return x + current.update(x)

            moved(ones(2))

    _, verdicts = ran(program)
    assert [one.program_change for one in verdicts] == [None, "identical", "constants-only"]
    fixes = [one.fix for one in verdicts[1:]]
    assert all(isinstance(fix, JitOnce) and fix.unknown == ("current",) for fix in fixes)


def test_a_field_that_changed_for_nothing_does_not_decide(ran: Run) -> None:
    class Settings(NamedTuple):
        rate: float = 0.1
        layers: tuple[int, ...] = (4, 4)

    @partial(jax.jit, static_argnums=0)
    def start(settings: Settings, x: Any) -> Any:
        return [jnp.ones((3, size)) * x for size in settings.layers]

    def program() -> None:
        for settings in (Settings(), Settings(0.2), Settings(0.1, (4,)), Settings(0.3)):
            start(settings, 1.0)

    _, verdicts = ran(program)
    deciding = [one.fix for one in verdicts if isinstance(one.fix, BranchInProgram)]
    assert {fix.paths for fix in deciding} == {("settings.layers",)}


def test_the_length_of_what_is_read_is_passed_too(ran: Run) -> None:
    state: dict[str, Any] = {"t": 0, "hist": []}

    def program() -> None:
        for _ in range(3):

            @jax.jit
            def moved(x: Any) -> Any:
                return x * state["t"] + len(state["hist"])

            state["t"] += 1
            state["hist"].append(1)
            moved(ones(2))

    _, verdicts = ran(program)
    fixes = [one.fix for one in verdicts[1:]]
    assert all(isinstance(fix, JitAndPass) for fix in fixes)
    told = {(fix.traced, fix.static) for fix in fixes if isinstance(fix, JitAndPass)}
    assert told == {(("state['t']",), ("state['hist']",))}


def test_one_object_is_not_kept_for_a_call_that_has_another(ran: Run) -> None:
    class Task:
        def __init__(self, n: int) -> None:
            self.n = n

    def rollout(task: Task, p: Any) -> Any:
        return sum(p.sum() * i for i in range(task.n))

    def program() -> None:
        for n, size in ((3, 4), (3, 4), (5, 6)):
            jax.jit(partial(rollout, Task(n)))(ones(size))

    _, verdicts = ran(program)
    kept = [one.fix for one in verdicts if isinstance(one.fix, JitForEach)]
    assert kept and not any(fix.same for fix in kept)


def test_what_other_calls_pass_decides_where_the_function_is_only_new_besides(ran: Run) -> None:
    def make(boot: bool) -> Any:
        def one(p: Any, w: Any) -> Any:
            return (p * w).sum() / w.sum() if boot else p.sum()

        return jax.jit(jax.vmap(one))

    def program() -> None:
        for size in (2, 3):
            for boot in (False, True):
                make(boot)(ones(size, 3), ones(size, 3))

    _, verdicts = ran(program)
    resized = [one.fix for one in verdicts if one.cause is Cause.SHAPE_CHANGED]
    assert resized and all(fix is not None and fix.reading == ("boot",) for fix in resized)


def test_an_array_or_none_is_passed_as_an_argument(ran: Run) -> None:
    def program(fixed: bool) -> None:
        def masked(x: Any, mask: Any) -> Any:
            return x.sum() if mask is None else jnp.where(mask, x, 0).sum()

        once = jax.jit(masked)
        for mask in (None, np.array([True, False]), np.array([False, True])):
            if fixed:
                once(ones(2), mask)
            else:
                jax.jit(lambda x, mask=mask: masked(x, mask))(ones(2))

    _, verdicts = ran(lambda: program(False))
    fixes = [one.fix for one in verdicts[1:]]
    told = [(fix.traced, fix.static) for fix in fixes if isinstance(fix, JitAndPass)]
    assert told == [(("mask",), ())] * 2
    _, after = ran(lambda: program(True))
    assert [len(verdicts), len(after)] == [3, 2]


def test_a_field_becomes_an_array_only_where_it_is_not_trained(ran: Run) -> None:
    class Net(eqx.Module):
        w: Any
        scale: float

    @eqx.filter_jit
    def step(net: Net, x: Any, rule: Any) -> Any:
        return rule((net.w * x).sum() * net.scale)

    def program() -> None:
        for scale in (1.0, 0.5):
            step(Net(ones(2), scale), ones(2), lambda x: x * 2)

    _, verdicts = ran(program)
    told = [one.fix for one in verdicts if isinstance(one.fix, ToArray)]
    assert told and all(fix.in_tree and fix.sure == "ask" for fix in told)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["alone", "another reads it"])
def test_what_another_function_reads_is_not_left_out(ran: Run, elsewhere: bool) -> None:
    class Agent:
        compared: tuple[str, ...] = ("gamma", "actions")

        def __init__(self, gamma: float, actions: int) -> None:
            self.gamma, self.actions = gamma, actions

        def __eq__(self, other: object) -> bool:
            return hash(self) == hash(other)

        def __hash__(self) -> int:
            return hash(tuple(getattr(self, name) for name in self.compared))

        @partial(jax.jit, static_argnums=0)
        def returns(self, rewards: Any) -> Any:
            return rewards * self.gamma

        @partial(jax.jit, static_argnums=0)
        def policy(self, x: Any) -> Any:
            return x[: self.actions]

    def program() -> list[Any]:
        agents = [Agent(0.9, actions) for actions in (2, 3)]
        for agent in agents:
            agent.returns(ones(4))
        return [agent.policy(ones(4)) for agent in agents] if elsewhere else []

    found, verdicts = ran(program)
    (advised,) = told(verdicts, "returns")
    assert advised.paths == ("self.actions",) and advised.of_object
    assert advised.read_by == (("policy",) if elsewhere else ())
    expected: Sure = "ask" if elsewhere else "clear"
    assert advised.sure == expected
    (step,) = [one for one in found.steps if one.proposal.code == "leave-out"]
    assert step.sure == expected and ("`policy`" in sentence(step.proposal)) is elsewhere
    if elsewhere:  # as the advice for `returns` alone would have it, results are others
        Agent.compared = ("gamma",)
        assert [len(one) for one in program()] == [2, 2]


def test_tuples_of_two_functions_have_nothing_in_common(ran: Run) -> None:
    first = jax.jit(lambda x, sizes: x[: sizes[0]], static_argnums=1)
    power = jax.jit(lambda x, powers: x ** powers[0] * x ** powers[1], static_argnums=1)

    def program() -> None:
        for number in (1, 2):
            first(ones(4), (3, number))
            power(ones(4), (3, number))

    _, verdicts = ran(program)
    advised = [one.fix for one in verdicts if isinstance(one.fix, LeaveOutValue)]
    assert [(one.paths, one.read_by, one.sure) for one in advised] == [
        (("sizes[1]",), (), "clear")
    ]


@pytest.mark.parametrize("two", [False, True], ids=["one function", "two functions"])
def test_objects_compared_by_value_differ_in_their_fields(ran: Run, two: bool) -> None:
    class Layer:
        def __init__(self, act: str) -> None:
            self.act = act

    class Compared(Layer):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Compared) and self.act == other.act

        def __hash__(self) -> int:
            return hash(self.act)

    def program(made: type[Layer]) -> None:
        apply = jax.jit(lambda layer, w: getattr(jnp, layer.act)(w), static_argnums=0)
        total = jax.jit(lambda _, w: jnp.sum(w), static_argnums=0)
        for act in ("sin", "cos", "tan"):
            for _ in range(2):
                layer = made(act)
                apply(layer, ones(3))
                if two:
                    total(layer, ones(3))

    found, verdicts = ran(lambda: program(Layer))
    step = found.steps[0]
    assert step.proposal.code == "compare-by-value"
    _, left = ran(lambda: program(Compared))
    assert (len(verdicts), len(left)) == ((12, 6) if two else (6, 3))
    assert step.left.calls.low == step.left.calls.high == len(left)


def test_an_object_without_what_is_passed_beside_it_is_one_object(ran: Run) -> None:
    class Config:
        def __init__(self, width: int, rate: float) -> None:
            self.width, self.rate = width, rate

    class Changed(Config):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Changed) and self.width == other.width

        def __hash__(self) -> int:
            return hash(self.width)

    def program(*, changed: bool) -> list[float]:
        apply = jax.jit(lambda cfg, w, x: x @ w * cfg.rate, static_argnums=0)
        beside = jax.jit(lambda _, rate, w, x: x @ w * rate, static_argnums=0)
        results: list[float] = []
        for width in (4, 6):
            for rate in (0.1, 0.2):
                for _ in range(2):
                    w, x = ones(3, width), ones(2, 3)
                    if changed:
                        results.append(float(beside(Changed(width, rate), rate, w, x)[0, 0]))
                    else:
                        results.append(float(apply(Config(width, rate), w, x)[0, 0]))
        return results

    results: list[list[float]] = []
    found, verdicts = ran(lambda: results.append(program(changed=False)))
    step = found.steps[0]
    advised = step.proposal.advice
    assert isinstance(advised, ToArgument) and advised.paths == ("cfg.rate",)
    assert advised.type is not None and "`__eq__`" in sentence(step.proposal)
    _, left = ran(lambda: results.append(program(changed=True)))
    assert (len(verdicts), len(left)) == (8, 2)
    assert step.left.calls.low == step.left.calls.high == 2
    np.testing.assert_allclose(results[0], results[1])
    # The width is a size of `w`, and no array.
    of_width = [one.fix for one in verdicts if one.fix and "cfg.width" in one.fix.paths]
    assert any(isinstance(fix, FewValues) for fix in of_width)
    assert not any(isinstance(fix, ToArray) for fix in of_width)


def test_what_is_left_out_of_a_comparison_leaves_the_rest(ran: Run) -> None:
    def program(config: Callable[[float, str], Any]) -> None:
        step = jax.jit(lambda cfg, w: w * cfg.rate, static_argnums=0)
        evaluate = jax.jit(lambda _, w: w.sum(), static_argnums=0)
        for rate in (0.1, 0.2):
            for number in range(3):
                cfg = config(rate, f"run {rate} {number}")
                step(cfg, ones(3))
                evaluate(cfg, ones(3))

    @dataclass(frozen=True)
    class Config:
        rate: float
        name: str

    @dataclass(frozen=True)
    class Changed:
        rate: float
        name: str = field(compare=False)

    found, verdicts = ran(lambda: program(Config))
    advised = told(verdicts, "<lambda>")
    unread = {path for one in advised if not one.read_by for path in one.paths}
    assert unread == {"cfg.name", "_.name"}
    assert {one.paths for one in advised if one.read_by} == {("_.rate",)}
    _, left = ran(lambda: program(Changed))
    last = found.steps[-1].left.calls
    assert (len(verdicts), len(left), last.high) == (12, 4, 4)


def test_one_object_for_each_setting_where_functions_are_held(ran: Run) -> None:
    class Layer(NamedTuple):
        act: Callable[[Any], Any]

    def layer(name: str) -> Layer:
        return Layer(lambda x: getattr(jnp, name)(x))

    def program(*, kept: bool) -> None:
        apply = jax.jit(lambda layer, x: layer.act(x), static_argnums=0)
        each = {name: layer(name) for name in ("sin", "cos")}
        for name, one in each.items():
            for _ in range(2):
                apply(one if kept else layer(name), ones(3))

    found, verdicts = ran(lambda: program(kept=False))
    (first, *_) = found.steps
    _, left = ran(lambda: program(kept=True))
    assert (len(verdicts), len(left)) == (4, 2)
    assert first.left.calls.low == first.left.calls.high == 2
    assert isinstance(first.proposal.advice, CompareByValue) and first.proposal.advice.varies


def test_another_field_of_an_object_over_arrays_is_not_forgotten(ran: Run) -> None:
    class Nearest:
        def __init__(self, k: int, points: Any) -> None:
            self.k, self.points = k, points

        @partial(jax.jit, static_argnums=0)
        def predict(self, x: Any) -> Any:
            return jax.lax.top_k(-jnp.sum((self.points - x) ** 2, -1), self.k)[0]

    def program() -> None:
        for fold in range(3):
            points = jnp.asarray(np.arange(10, dtype=np.float32).reshape(5, 2) + fold)
            for k in (1, 3):
                Nearest(k, points).predict(ones(2))

    _, verdicts = ran(program)
    held = [one.fix for one in verdicts if isinstance(one.fix, PassHeld)]
    assert held and all(
        (one.held, one.besides) == (("self.points",), ("self.k",)) for one in held
    )


def test_only_the_item_of_a_tuple_that_changed_is_passed(ran: Run) -> None:
    def smooth(y: Any, opts: tuple[int, Any], rate: Any = None) -> Any:
        return y * jnp.arange(opts[0]) / (opts[1] if rate is None else rate)

    whole = jax.jit(smooth, static_argnums=1)
    rates = (1.0, 2.0, 3.0)
    results: list[Any] = []
    _, verdicts = ran(lambda: results.append([whole(ones(4), (4, rate)) for rate in rates]))
    for verdict in verdicts[1:]:
        advised = verdict.fix
        assert isinstance(advised, ToArgument)
        assert (advised.paths, advised.outside) == (("opts[1]",), ("opts",))
    beside = jax.jit(smooth, static_argnums=1)
    _, left = ran(lambda: results.append([beside(ones(4), (4, 0), rate) for rate in rates]))
    assert len(left) == 1
    np.testing.assert_allclose(results[0], results[1])
    with pytest.raises(TypeError):  # the other item decides a shape
        jax.jit(smooth)(ones(4), (4, 1.0))


def test_arrays_of_an_object_are_what_is_left_out(ran: Run) -> None:
    class Client:
        def __init__(self, x: Any, rate: float) -> None:
            self.x, self.rate = x, rate

    update = jax.jit(lambda client, w, x: w - client.rate * x @ w, static_argnums=0)

    def program() -> None:
        for number in range(3):
            x = ones(3, 3) * number
            update(Client(x, 0.5), ones(3), x)

    _, verdicts = ran(program)
    for verdict in verdicts[1:]:
        advised = verdict.fix
        assert isinstance(advised, LeaveOutValue)
        assert (advised.paths, advised.sure) == (("client.x",), "ask")
        assert advised.type is not None and advised.type.endswith("Client")


def test_a_number_that_explains_the_program_clears_the_function_beside_it(ran: Run) -> None:
    @partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["act", "dt"])
    @dataclass
    class Model:
        w: Any
        act: Callable[[Any], Any]
        dt: float

    def program() -> None:
        step = jax.jit(
            lambda model, update: update(model.dt * model.act(model.w)), static_argnums=1
        )
        for _ in range(2):
            for dt in (0.1, 0.2):
                step(Model(ones(3), lambda x: jnp.tanh(x), dt), lambda g: -g)

    _, verdicts = ran(program)
    blamed = [one.fix for one in verdicts if isinstance(one.fix, PassHeld)]
    assert blamed == []


def test_a_result_that_is_passed_back_is_found_by_its_place(ran: Run) -> None:
    """`rate` comes back weakly typed, `mean` does not: the caller makes a number of it."""

    @jax.jit
    def train(state: dict[str, Any]) -> dict[str, Any]:
        mean = 0.9 * state["mean"] + 0.1 * state["w"].sum()
        return {"w": state["w"] * 0.5, "mean": mean, "rate": state["rate"] * 0.99}

    def program() -> None:
        state: dict[str, Any] = {"w": ones(2), "mean": np.float32(0), "rate": 0.1}
        for number in range(4):
            state = train(state)
            if number == 2:
                state["mean"] = float(state["mean"])

    _, verdicts = ran(program)
    assert isinstance(verdicts[-1].fix, CastNumber)
    assert verdicts[-1].fix.paths == ("state['mean']",)


def test_a_state_that_starts_as_a_number_starts_as_an_array(ran: Run) -> None:
    def program(momentum: Any) -> None:
        step = jax.jit(lambda w, m: (w - m, 0.9 * m + w))
        w = ones(2)
        for _ in range(3):
            w, momentum = step(w, momentum)

    found, verdicts = ran(lambda: program(0.0))
    (step,) = found.steps
    assert (len(verdicts), step.left.calls.high, step.sure) == (2, 1, "ask")
    (code,) = re.findall(r"np\.full\(.*?float32\)", sentence(step.proposal))
    _, left = ran(lambda: program(eval(code, {"np": np, "value": 0.0})))
    assert len(left) == 1


@pytest.mark.parametrize("rows", [(), (ones(8, 2),)], ids=["edges", "labels of rows"])
def test_lists_of_places_are_no_batches(ran: Run, rows: tuple[Any, ...]) -> None:
    force = jax.jit(lambda x, i, *more: x[i].sum() + sum(one.sum() for one in more))

    def program() -> None:
        for size in (8, 8, 5):
            force(ones(9), np.arange(size) % 9, *(one[:size] for one in rows))

    _, verdicts = ran(program)
    assert isinstance(verdicts[-1].fix, PadBatch) is bool(rows)


def test_a_step_words_all_that_its_title_names(ran: Run) -> None:
    sums = jax.jit(lambda first, second: sum(first) + sum(second))

    def program() -> None:
        for number in range(1, 4):
            sums([ones(2)] * number, [ones(2)] * number)

    found, _ = ran(program)
    said = sentence(found.steps[0].proposal)
    assert "`first`" in said and "`second`" in said


def test_keys_of_other_kinds_are_created_one_way(ran: Run) -> None:
    noisy = jax.jit(lambda x, key: x + jax.random.normal(key, x.shape))
    keys = (jax.random.PRNGKey(0), jax.random.key(0), jax.random.key(0, impl="rbg"))
    found, verdicts = ran(lambda: [noisy(ones(3), key) for key in keys])
    assert all(isinstance(one.fix, OneKeyType) for one in verdicts[1:])
    assert "fraction" not in sentence(found.steps[0].proposal)


def test_a_step_says_what_to_do_also_where_no_miss_does(ran: Run) -> None:
    train = jax.jit(lambda state, x: state["mean"] * 0.5 + x.sum())

    def program() -> None:
        state: dict[str, Any] = {"mean": 0}
        for number in range(4):
            state["mean"] = train(state, ones(2))
            if number == 2:
                state["mean"] = float(state["mean"])

    found, _ = ran(program)
    assert found.steps and any(one.proposal.advice is None for one in found.steps)
    for step in found.steps:
        assert sentence(step.proposal) != f"{title(step.proposal)}."


def test_all_classes_without_a_comparison_are_named(ran: Run) -> None:
    class Kernel:
        def __init__(self, scale: float) -> None:
            self.scale = scale

    class Linear(Kernel):
        pass

    class Squared(Kernel):
        pass

    gram = jax.jit(lambda kernel, x: x * kernel.scale, static_argnums=0)
    found, _ = ran(
        lambda: [gram(made(0.5), ones(2)) for made in (Linear, Squared) for _ in "123"]
    )
    said = sentence(found.steps[0].proposal)
    assert "Linear" in said and "Squared" in said


def test_a_field_named_content_is_no_array(ran: Run) -> None:
    class Document:
        def __init__(self, content: str, x: Any) -> None:
            self.content, self.x = content, x

    first = jax.jit(lambda document, x: x[0], static_argnums=0)

    def program() -> None:
        for number, text in enumerate(("one", "two")):
            first(Document(text, ones(2) * number), ones(2))

    _, verdicts = ran(program)
    advised = verdicts[-1].fix
    assert isinstance(advised, LeaveOutValue)
    assert advised.paths == ("document.content", "document.x")
    (said,) = map(detail, verdicts[-1].changes)
    assert ".content: one -> two" in said
    assert ".x: " in said and not re.search("[0-9a-f]{16}", said)


def test_objects_over_other_device_arrays_are_not_one_by_value(ran: Run) -> None:
    class Model:
        def __init__(self, w: Any) -> None:
            self.w = w

        @partial(jax.jit, static_argnums=0)
        def predict(self, x: Any) -> Any:
            return x @ self.w

    weights = [jax.device_put(ones(3, 3) * k) for k in range(3)]

    def program() -> None:
        for k in (0, 0, 0):
            Model(weights[k]).predict(ones(3))
        for k in (1, 2):
            Model(weights[k]).predict(ones(3))

    planned, _ = ran(program)
    (step,) = [one for one in planned.steps if "predict" in one.functions]
    assert step.gone.calls == Span(2, 2)


def test_an_object_that_compares_in_its_own_way_is_kept(ran: Run) -> None:
    class Solver:
        def __init__(self, nu: float | None) -> None:
            self.nu = nu

        def __eq__(self, other: object) -> bool:
            return self is other

        def __hash__(self) -> int:
            return id(self)

        @partial(jax.jit, static_argnums=0)
        def step(self, u: Any, nu: Any = None) -> Any:
            return u * (self.nu if nu is None else nu)

    def program(fixed: bool) -> None:
        kept = Solver(None)
        for nu in (0.1, 0.2, 0.3):
            kept.step(ones(3), nu) if fixed else Solver(nu).step(ones(3))

    _, verdicts = ran(lambda: program(False))
    told = [one.fix for one in verdicts if isinstance(one.fix, ToArgument)]
    assert told and all(str(fix.type).endswith(".Solver") for fix in told)
    _, after = ran(lambda: program(True))
    assert len(after) == 1


def test_branches_made_in_one_comprehension_are_compared_one_by_one(
    judge_all: JudgeAll,
) -> None:
    def branch(i: int) -> Any:
        return lambda x: x * (i + 1.0)

    def program() -> None:
        for t in range(3):
            jax.lax.switch(t, [branch(j) for j in range(3)], ones(4))

    told = [v.fix for v in judge_all(program)[1] if isinstance(v.fix, DefineBodyOnce)]
    assert told and not any(fix.holds for fix in told)


def test_caches_of_a_program_that_calls_back_are_asked_about(ran: Run) -> None:
    def scaled(x: Any) -> Any:
        return np.asarray(x * 2, np.float32)

    f = jax.jit(lambda x: jax.pure_callback(scaled, jax.ShapeDtypeStruct((3,), np.float32), x))

    def program() -> None:
        for _ in range(2):
            f(ones(3))
            jax.clear_caches()

    _, verdicts = ran(program)
    told = [one.fix for one in verdicts if isinstance(one.fix, KeepCaches)]
    assert told and all(fix.calls_back and fix.sure == "ask" for fix in told)


class Private(type):
    """A metaclass that minds who asks for the name or the hash of its classes."""

    def __hash__(cls) -> int:
        raise RuntimeError("no table of classes")

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("no comparison of classes")

    def __getattribute__(cls, name: str) -> Any:
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if caller.f_code.co_filename.startswith(str(Path(retrace.__file__).parent)):
            raise RuntimeError(name)
        return type.__getattribute__(cls, name)


def test_a_metaclass_is_asked_for_nothing(judge_all: JudgeAll) -> None:
    """JAX asks the objects of its class alone."""

    class Config(metaclass=Private):
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def __hash__(self) -> int:
            return hash(self.rate)

        def __eq__(self, other: object) -> bool:
            return self is other

    scaled = jax.jit(lambda x, config: x * config.rate, static_argnums=1)

    def program() -> None:
        kept = [Config(1.0), Config(2.0)]
        for config in kept:
            scaled(1.0, config)
            jax.jit(lambda x, config=config: x + config.rate)(1.0)

    _, verdicts = judge_all(program)  # which fails if something was lost
    again = [one for one in verdicts if one.nearest is not None]
    assert {change.path for one in again for change in one.changes} >= {"config"}

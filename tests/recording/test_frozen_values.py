"""Advice that would keep a first value for all calls, if it did not say what to pass.

Each program computes with something that changes between its calls. A function that is created
once goes on with the first, so whatever is advised must name what differs, or ask.
"""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest

from retrace.causes import Cause
from retrace.model.advice import (
    DefineBodyOnce,
    FewValues,
    JitAndPass,
    JitForEach,
    JitOnce,
    KeepBound,
    LeaveOutValue,
    PlaceFirst,
    Proof,
    ToArgument,
    ToArray,
)
from retrace.plan.order import plan
from retrace.present.plan_sizes import size_lines
from retrace.present.plan_titles import title
from retrace.present.plan_words import sentence
from tests.recording.conftest import JudgeAll

x = np.arange(4, dtype=np.float32)


class Agent:
    def __init__(self) -> None:
        self.rate, self.target = 0.1, jnp.zeros(4)

    def step(self, w: Any) -> Any:
        return w - self.rate * jnp.sin(w)

    def follow(self, w: Any) -> Any:
        return w - jnp.sin(w - self.target)


def of_number() -> None:
    agent = Agent()
    for _ in range(4):
        agent.rate /= 2
        jax.jit(agent.step)(x)


def of_array() -> None:
    agent = Agent()
    for number in range(4):
        agent.target = jnp.full(4, float(number))
        jax.jit(agent.follow)(x)


def of_nothing() -> None:
    agent = Agent()
    for _ in range(4):
        jax.jit(agent.step)(x)


@pytest.mark.parametrize(
    ("program", "passed", "reads"),
    [(of_number, ("self.rate",), False), (of_array, (), True), (of_nothing, None, False)],
)
def test_what_a_bound_method_reads_is_to_be_passed(
    judge_all: JudgeAll,
    program: Callable[[], object],
    passed: tuple[str, ...] | None,
    reads: bool,
) -> None:
    recording, verdicts = judge_all(program)
    (step,) = [one for one in plan(recording, verdicts).steps if one.functions[0] in vars(Agent)]
    advised = step.proposal.advice
    if passed is None:
        assert isinstance(advised, KeepBound)
        assert advised.proof is Proof.PROGRAM
        return
    assert isinstance(advised, JitAndPass)
    assert (advised.traced, advised.reads) == (passed, reads)
    assert ("self.rate" if passed else "arrays") in title(step.proposal)
    assert "jax.jit(..." in sentence(step.proposal)


def of_number_in_partial() -> None:
    agent = Agent()
    for _ in range(4):
        agent.rate /= 2
        jax.jit(functools.partial(Agent.step, agent))(x)


def of_array_in_partial() -> None:
    agent = Agent()
    for number in range(4):
        agent.target = jnp.full(4, float(number))
        jax.jit(functools.partial(Agent.follow, agent))(x)


def of_nothing_in_partial() -> None:
    agent = Agent()
    for _ in range(4):
        jax.jit(functools.partial(Agent.step, agent))(x)


@pytest.mark.parametrize(
    ("program", "passed", "reads"),
    [
        (of_number_in_partial, ("self.rate",), False),
        (of_array_in_partial, (), True),
        (of_nothing_in_partial, (), False),
    ],
)
def test_what_a_function_over_an_object_reads_is_passed_and_not_the_object(
    judge_all: JudgeAll, program: Callable[[], object], passed: tuple[str, ...], reads: bool
) -> None:
    # JAX refuses an object that it has no flattening for.
    recording, verdicts = judge_all(program)
    (step,) = [one for one in plan(recording, verdicts).steps if one.functions[0] in vars(Agent)]
    advised = step.proposal.advice
    assert isinstance(advised, JitForEach)
    assert (advised.paths, advised.traced, advised.static) == (("self",), passed, ())
    assert (advised.reads, advised.same) == (reads, False)


def test_a_method_that_reads_what_is_not_known_asks(judge_all: JudgeAll) -> None:
    hidden = iter((1, 2, 3, 4))

    class Counting:
        def step(self, w: Any) -> Any:
            return jnp.sin(w) if next(hidden) % 2 else jnp.cos(w) * 2

    def program() -> None:
        kept = Counting()
        for _ in range(4):
            jax.jit(kept.step)(x)

    last = judge_all(program)[1][-1]
    assert isinstance(last.fix, KeepBound)
    assert (last.fix.proof, last.avoidable) == (Proof.MEANING, "maybe")


def test_a_static_argument_that_names_the_results_is_told(judge_all: JudgeAll) -> None:
    def program() -> None:
        @functools.partial(jax.jit, static_argnames="name")
        def told(v: Any, name: str) -> Any:
            return {f"{name}/loss": jnp.sin(v).sum()}

        for name in ("train", "test"):
            told(x, name=name)

    last = judge_all(program)[1][-1]
    assert isinstance(last.fix, FewValues)
    assert (last.fix.why, last.avoidable) == ("results", "maybe")


def test_a_function_that_names_its_results_otherwise_asks(judge_all: JudgeAll) -> None:
    def program() -> None:
        names = iter(("train", "test"))
        for _ in range(2):
            jax.jit(lambda v: {next(names): jnp.sin(v).sum()})(x)

    last = judge_all(program)[1][-1]
    assert isinstance(last.fix, JitOnce)
    assert last.fix.renames
    assert (last.fix.proof, last.avoidable) == (Proof.MEANING, "maybe")


def test_a_callback_may_be_another_one_each_time(judge_all: JudgeAll) -> None:
    class Log:
        def add(self, value: Any) -> None:
            """Take it."""

    def program() -> None:
        for _ in range(2):
            log = Log()

            @jax.jit
            def told(v: Any) -> Any:
                jax.debug.callback(globals()["_log"].add, v.sum())
                return jnp.sin(v)

            globals()["_log"] = log
            told(x)

    last = judge_all(program)[1][-1]
    assert isinstance(last.fix, JitOnce)
    assert last.fix.calls_back
    assert (last.fix.proof, last.avoidable) == (Proof.MEANING, "maybe")


def test_a_print_is_no_callback_that_may_be_another_one(judge_all: JudgeAll) -> None:
    def program() -> None:
        for _ in range(2):

            @jax.jit
            def told(v: Any) -> Any:
                jax.debug.print("sum {s}", s=v.sum())
                return jnp.sin(v)

            told(x)

    last = judge_all(program)[1][-1]
    assert isinstance(last.fix, JitOnce)
    assert (last.fix.proof, last.avoidable) == (Proof.PROGRAM, "yes")


def test_if_one_program_of_a_function_differs_all_of_them_ask(judge_all: JudgeAll) -> None:
    def reversal(rate: float) -> Any:
        @jax.custom_vjp
        def same(v: Any) -> Any:
            return v

        same.defvjp(lambda v: (v, None), lambda _, g: (-rate * g,))
        return same

    def program() -> None:
        for rate in (0.1, 0.5):
            globals()["_same"] = reversal(rate)
            loss = jax.jit(lambda v: jnp.sin(globals()["_same"](v)).sum())
            loss(x)
            jax.grad(loss)(x)

    own = [v.fix for v in judge_all(program)[1] if isinstance(v.fix, JitOnce)]
    assert len(own) > 1
    assert all(fix.proof is Proof.MEANING for fix in own)


def test_what_no_program_depends_on_is_not_to_be_passed(judge_all: JudgeAll) -> None:
    def program() -> None:
        for rate in (0.1, 0.01, 0.001):
            held = {"rate": rate}

            @jax.jit
            def step(v: Any, held: Any = held) -> Any:
                assert held
                return jnp.sin(v)

            step(x)

    last = judge_all(program)[1][-1]
    assert isinstance(last.fix, JitOnce)
    assert (last.fix.proof, last.avoidable) == (Proof.PROGRAM, "yes")
    assert last.fix.unread == ("held['rate']",)


def test_an_array_that_grows_on_a_later_axis_has_room_for_one_more(judge_all: JudgeAll) -> None:
    def program() -> None:
        positions = jnp.asarray(np.random.default_rng(0).normal(size=(32, 4)), jnp.float32)
        step = jax.jit(lambda v: v.sum(1) + positions[v.shape[1]] + positions[: v.shape[1]].sum())
        tokens = np.ones((4, 3), np.float32)
        for _ in range(8):
            step(tokens)
            tokens = np.concatenate([tokens, tokens[:, -1:]], 1)

    recording, verdicts = judge_all(program)
    (step,) = [one for one in plan(recording, verdicts).steps if one.proposal.sizes]
    assert step.proposal.sizes is not None
    assert step.proposal.sizes.seen[-1] == 10
    assert "11 long" in title(step.proposal)
    told = " ".join("".join(size_lines(1, step, 400)).split())
    assert ".at[:, i].set(...)" in told
    assert "`result[:n]`" not in told
    # `positions[v.shape[1]]` is the size itself; the first positions are those of the rows.
    assert step.proposal.sizes.along.whole
    assert None in {one.primitive for one in step.proposal.sizes.along.masked}


def test_a_model_that_keeps_its_width_is_another_model(judge_all: JudgeAll) -> None:
    @functools.partial(
        jax.tree_util.register_dataclass, data_fields=["a", "b"], meta_fields=["width"]
    )
    @dataclasses.dataclass
    class Net:
        a: Any
        b: Any
        width: int

    def program() -> None:
        apply = jax.jit(lambda net, v: jnp.tanh(v @ net.a) @ net.b)
        for width in (8, 16):
            net = Net(np.ones((4, width), np.float32), np.ones((width, 2), np.float32), width)
            apply(net, np.ones((3, 4), np.float32))

    recording, verdicts = judge_all(program)
    assert (verdicts[-1].fix, verdicts[-1].avoidable) == (None, "no")
    assert not plan(recording, verdicts).steps


def test_a_number_in_a_tree_would_be_trained(judge_all: JudgeAll) -> None:
    @functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["scale"])
    @dataclasses.dataclass
    class Net:
        w: Any
        scale: float

    def program() -> None:
        step = jax.jit(lambda net: net.w * net.scale)
        for scale in (1.0, 2.0, 3.0):
            step(Net(x, scale))

    recording, verdicts = judge_all(program)
    assert isinstance(verdicts[-1].fix, ToArray)
    (step,) = plan(recording, verdicts).steps
    assert step.sure == "ask"
    assert "trained" in sentence(step.proposal)


def test_an_array_that_was_placed_first_is_to_be_placed_later(judge_all: JudgeAll) -> None:
    def program() -> None:
        f = jax.jit(lambda v: v * 2)
        placed = jax.device_put(x, jax.devices()[0])
        f(placed)
        f(jax.device_get(placed))

    last = judge_all(program)[1][-1]
    assert isinstance(last.fix, PlaceFirst)
    assert last.fix.later


def _tower(v: Any) -> Any:
    return jnp.sin(jnp.cos(v) * 2).sum()


class Clip:
    """Each object is equal only to itself."""

    def __init__(self, most: float) -> None:
        self.most = most

    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, v: Any) -> Any:
        return _tower(v) * self.most


class Trainer:
    def __init__(self, fold: int) -> None:
        self.fold, self.update = fold, lambda v: v * 2

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, v: Any) -> Any:
        return self.update(_tower(v))


def test_an_object_that_only_equals_itself_is_told_beside_the_number_in_it(
    judge_all: JudgeAll,
) -> None:
    def program() -> None:
        for most in (1.0, 2.0, 3.0, 4.0):
            Clip(most)(x)

    last = judge_all(program)[1][-1]
    assert isinstance(last.fix, ToArgument)
    assert (last.fix.paths, last.fix.outside) == (("self.most",), ("self",))
    assert "Clip" in str(last.fix.type)


def test_an_object_that_is_compared_by_value_is_not_to_be_kept(judge_all: JudgeAll) -> None:
    @dataclasses.dataclass(frozen=True)
    class Config:
        most: float

    @functools.partial(jax.jit, static_argnames="config")
    def clipped(v: Any, config: Config) -> Any:
        return _tower(v) * config.most

    def program() -> None:
        for most in (1.0, 2.0, 3.0, 4.0):
            clipped(x, config=Config(most))

    last = judge_all(program)[1][-1]
    assert isinstance(last.fix, ToArgument)
    assert (last.fix.paths, last.fix.type) == (("config.most",), None)


def test_functions_in_an_object_to_compare_by_value_are_named(judge_all: JudgeAll) -> None:
    def program() -> None:
        for fold in range(4):
            Trainer(fold).step(x)

    last = judge_all(program)[1][-1]
    assert isinstance(last.fix, LeaveOutValue)
    assert last.fix.held == ("self.update",)


def test_integers_of_a_loop_to_be_jitted_around_are_told(judge_all: JudgeAll) -> None:
    def program() -> None:
        for rate in (0.1, 0.2, 0.3, 0.4):
            _run(rate, 3)

    def _run(rate: float, size: int) -> Any:
        def step(v: Any, k: Any) -> Any:
            return v * rate + jnp.zeros(size), k

        return jax.lax.scan(step, jnp.zeros(size), x)

    found = [one.fix for one in judge_all(program)[1] if isinstance(one.fix, DefineBodyOnce)]
    assert found
    assert found[-1].holds == ("rate",)
    assert found[-1].integers == ("size",)


def test_what_a_library_s_function_holds_is_not_to_be_passed_to_it(judge_all: JudgeAll) -> None:
    updates, state = {"w": x}, optax.EmptyState()

    def program() -> None:
        for most in (1.0, 2.0, 3.0):
            jax.jit(optax.clip_by_global_norm(most).update)(updates, state)
        for first in (1.0, 2.0, 3.0):
            jax.jit(optax.exponential_decay(first, 10, 0.5))(3)

    recording, verdicts = judge_all(program)
    steps = {step.functions[0]: step for step in plan(recording, verdicts).steps}
    clip, decay = steps["update_fn"].proposal.advice, steps["schedule"].proposal.advice
    assert isinstance(clip, JitForEach)
    assert isinstance(decay, JitForEach)
    assert (clip.injects, clip.by_value) == (True, False)
    assert (decay.injects, decay.by_value) == (False, True)
    # Each value has a function of its own, so keeping them saves nothing here.
    assert steps["schedule"].alone.calls.low == 0


class Simulation:
    def __init__(self) -> None:
        self.force: Any = jnp.zeros(4)
        self.key = jax.random.key(0)

    def body(self, s: Any, _: Any) -> Any:
        return s + self.force, None

    def advance(self, s: Any) -> Any:
        return jax.lax.scan(self.body, s, None, length=3)[0]

    def sample(self, s: Any) -> Any:
        self.key, sub = jax.random.split(self.key)
        return jax.lax.scan(lambda s, k: (s + jax.random.normal(k, s.shape), None), s, _keys(sub))


def _keys(key: Any) -> Any:
    return jax.random.split(key, 3)


def test_what_the_body_of_a_loop_reads_of_its_object_is_named(judge_all: JudgeAll) -> None:
    def program() -> None:
        simulation = Simulation()
        for number in range(4):
            simulation.advance(x)
            simulation.force = jnp.full(4, float(number + 1))

    found = [one for one in judge_all(program)[1] if one.cause is Cause.CONTROL_FLOW_RECREATED]
    assert found
    for one in found:
        assert isinstance(one.fix, DefineBodyOnce)
        assert (one.fix.holds, one.avoidable) == (("self.force",), "maybe")


@pytest.mark.parametrize(("size", "is_known"), [(1_000, True), (300_000, False)])
def test_a_large_array_that_a_body_reads_may_differ(
    judge_all: JudgeAll, size: int, is_known: bool
) -> None:
    def program() -> None:
        simulation = Simulation()
        for number in range(4):
            # Too large to be compared, though it is another one each time.
            simulation.force = np.full(size, float(number), np.float32)
            simulation.advance(jnp.zeros(size))

    found = [one.fix for one in judge_all(program)[1] if isinstance(one.fix, DefineBodyOnce)]
    assert found
    for one in found:
        assert one.holds == ("self.force",)
        assert one.unknown == (() if is_known else ("self.force",))


def test_what_sets_attributes_stays_outside_of_a_jitted_loop(judge_all: JudgeAll) -> None:
    def program() -> None:
        simulation = Simulation()
        for _ in range(4):
            simulation.sample(x)

    found = [one.fix for one in judge_all(program)[1] if isinstance(one.fix, DefineBodyOnce)]
    assert found
    assert all(one.untraceable for one in found)


@pytest.mark.parametrize("size", [20_000, 300_000])
def test_large_arrays_of_numpy_are_not_taken_for_equal(judge_all: JudgeAll, size: int) -> None:
    def program() -> None:
        for number in range(4):
            weight = np.full(size, number, np.float32)
            jax.jit(lambda v: (v * weight).sum())(1.0)

    for one in judge_all(program)[1][1:]:
        if one.miss.function.name == "<lambda>" and one.nearest is not None:
            assert isinstance(one.fix, JitAndPass)
            assert one.fix.traced == ("weight",)
            assert one.program_change != "identical"


def test_what_a_kept_method_reads_is_told_to_stay_as_it_is(judge_all: JudgeAll) -> None:
    last = judge_all(of_nothing)[1][-1]
    assert isinstance(last.fix, KeepBound)
    assert last.fix.reads == ("self.rate",)


def test_numbers_that_an_array_cannot_hold_are_not_to_be_passed(judge_all: JudgeAll) -> None:
    @functools.partial(jax.jit, static_argnames=("seed", "now"))
    def drawn(v: Any, seed: int, now: float) -> Any:
        return v * ((seed >> 20) % 1000) * (now - 1.7e9)

    def program() -> None:
        for number in range(4):
            drawn(x, seed=(1 << 40) + (number << 20), now=1.7e9)
        for number in range(4):
            drawn(x, seed=1, now=1.7e9 + 13.7 * number)

    verdicts = judge_all(program)[1]
    assert not any(isinstance(one.fix, ToArgument) for one in verdicts)


def test_integers_of_several_widths_are_to_be_the_widest(judge_all: JudgeAll) -> None:
    @jax.jit
    def looked_up(tokens: Any) -> Any:
        return jnp.asarray(x)[tokens.astype(np.int32) % 4]

    def program() -> None:
        looked_up(np.zeros(3, np.uint8))
        looked_up(np.zeros(3, np.int32))

    recording, verdicts = judge_all(program)
    (step,) = plan(recording, verdicts).steps
    assert ": int32, not uint8" in sentence(step.proposal)


_weights = [1.0, 1.0]


def test_a_list_that_grows_is_static_and_saves_nothing_for_certain(judge_all: JudgeAll) -> None:
    def program() -> None:
        _weights[:] = [1.0, 1.0]
        for day in range(4):
            _weights.append(day * 0.5)
            jax.jit(lambda w: w * _weights[0] + _weights[-1])(x)

    recording, verdicts = judge_all(program)
    fixes = [one.fix for one in verdicts if isinstance(one.fix, JitAndPass)]
    assert len(fixes) == 3
    assert all((one.static, one.lists) == (("_weights",), ("_weights",)) for one in fixes)
    (step,) = plan(recording, verdicts).steps
    assert "as a tuple" in sentence(step.proposal)
    assert (step.gone.calls.low, step.gone.calls.high) == (0, 3)
    # Followed: a list has no hash, and each tuple has a program of its own.
    traced: list[object] = []

    def keep(w: Any, weights: Any) -> Any:
        traced.append(weights)
        return w * weights[0] + weights[-1]

    kept = jax.jit(keep, static_argnums=1)
    with pytest.raises(ValueError, match="hashable"):
        kept(x, _weights)
    for size in range(3, 7):
        kept(x, tuple(_weights[:size]))
    assert len(traced) == 4


class Chosen:
    kind, rate = "sin", 0.5


def test_of_what_it_reads_only_static_values_need_a_program_each(judge_all: JudgeAll) -> None:
    config = Chosen()

    def program() -> None:
        for call in range(6):
            config.kind, config.rate = ("sin", "cos")[call // 2 % 2], 0.5 + call
            jax.jit(lambda w: getattr(jnp, config.kind)(w) * config.rate)(x)

    recording, verdicts = judge_all(program)
    (step,) = plan(recording, verdicts).steps
    assert (step.gone.calls.low, step.gone.calls.high) == (4, 4)

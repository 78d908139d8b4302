"""What advice on one function takes from others that get the same objects."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrace.model import Verdict
from retrace.model.advice import (
    CastNumber,
    LeaveOutValue,
    OneCallStyle,
    OneStructure,
    ToArgument,
    ToArray,
)
from retrace.plan.order import plan
from retrace.present.advice import advised as sentence_of
from retrace.present.plan_words import sentence
from tests.recording.conftest import JudgeAll

ones = np.ones(3, np.float32)


@partial(jax.tree_util.register_dataclass, data_fields=["at"], meta_fields=["kind", "pull"])
@dataclass
class _World:
    at: Any
    kind: str = "ball"
    pull: float = 9.8


def _again(verdicts: list[Verdict], name: str) -> list[Verdict]:
    return [one for one in verdicts if one.miss.function.name == name and one.nearest]


def test_a_static_field_that_another_function_reads_stays_in_the_key(judge_all: JudgeAll) -> None:
    moved = jax.jit(lambda world: world.at - world.pull * (world.kind == "ball"))
    scored = jax.jit(lambda world: (world.at**2).sum())

    def program() -> None:
        for kind, pull in (("ball", 9.8), ("ball", 1.6), ("cart", 1.6)):
            world = _World(ones, kind, pull)
            moved(world)
            scored(world)

    recording, verdicts = judge_all(program)
    scoring = [one for one in verdicts if one.nearest and one.program_change == "identical"]
    assert [one.fix.code for one in scoring if one.fix] == ["leave-out"] * 2
    for verdict in scoring:
        assert isinstance(verdict.fix, LeaveOutValue)
        assert verdict.fix.read_by
        assert "what it reads" in sentence_of(verdict.fix)
    assert not any(step.sure == "clear" for step in plan(recording, verdicts).steps)


def test_a_static_field_may_be_read_where_something_else_changed_with_it(
    judge_all: JudgeAll,
) -> None:
    moved = jax.jit(lambda world, by: world.at - by * (world.kind == "ball"))
    scored = jax.jit(lambda world: (world.at**2).sum())

    def program() -> None:
        for kind, by in (("ball", 1.0), ("cart", np.float32(1))):
            world = _World(ones, kind)
            moved(world, by)
            scored(world)

    _, verdicts = judge_all(program)
    fix = verdicts[-1].fix
    assert isinstance(fix, LeaveOutValue)
    assert fix.may_read
    assert verdicts[-1].avoidable == "maybe"


class _Spec:
    def __init__(self, layers: int, beta: float) -> None:
        self.layers, self.beta = layers, beta


def test_a_class_goes_on_comparing_what_another_function_loops_over(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnames="spec")
    def sampled(x: Any, spec: _Spec) -> Any:
        for _ in range(spec.layers):
            x = jnp.tanh(x + 1)
        return x

    @partial(jax.jit, static_argnames="spec")
    def weighed(x: Any, spec: _Spec) -> Any:
        return spec.beta * (x**2).sum()

    def program() -> None:
        for layers, beta in ((1, 0.5), (2, 0.7), (3, 0.8)):
            spec = _Spec(layers, beta)
            weighed(ones, spec)
            sampled(ones, spec)

    _, verdicts = judge_all(program)
    for verdict in _again(verdicts, "weighed"):
        fix = verdict.fix
        assert isinstance(fix, ToArgument)
        assert (fix.needed, fix.read_by, fix.unread) == (("spec.layers",), ("sampled",), ())
        assert "whole `spec`" in sentence_of(fix)
        assert "leave out" not in sentence_of(fix)


def test_text_in_a_tree_is_no_array_in_a_plan(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnames="bounce")
    def moved(world: _World, by: Any, bounce: bool = False) -> Any:
        at = world.at - by * len(world.kind)
        return jnp.abs(at) if bounce else at

    def program() -> None:
        for kind, by, bounce in (
            ("ball", 0.1, False),
            ("cart!", np.float32(0.1), False),
            ("cart!", 0.1, True),
            ("ball", 0.1, True),
        ):
            moved(_World(ones, kind), by, bounce)

    recording, verdicts = judge_all(program)
    found = [one.proposal for one in plan(recording, verdicts).steps]
    (about,) = [one for one in found if "world.kind" in one.changes[0].paths]
    assert isinstance(about.advice, OneStructure)
    assert "depends on it" in sentence(about)


def test_what_is_padded_for_one_function_is_not_passed_to_another(judge_all: JudgeAll) -> None:
    embedded = jax.jit(lambda x: jnp.tanh(x))
    spread = jax.jit(lambda x: (x - x.mean(0)).std())

    def program(*, shares: bool) -> Any:
        def run() -> None:
            for size in (20, 32):
                x = np.ones((size, 3), np.float32)
                embedded(x)
                if size == 20:
                    spread(x if shares else x[:7])

        return run

    recording, verdicts = judge_all(program(shares=False))
    (alone,) = plan(recording, verdicts).steps
    assert (alone.sure, alone.proposal.takers) == ("likely", ())
    recording, verdicts = judge_all(program(shares=True))
    (shared,) = plan(recording, verdicts).steps
    assert shared.sure == "ask"
    assert "real rows" in sentence(shared.proposal)


class _Solver:
    def __init__(self, *, logs: bool) -> None:
        self.logs = logs
        self.modes = jnp.arange(3.0)

    @partial(jax.jit, static_argnums=0)
    def moved(self, x: Any) -> Any:
        return x * self.modes

    @partial(jax.jit, static_argnums=0)
    def energy(self, x: Any) -> Any:
        return (x**2).sum()


def test_a_program_over_another_array_shows_no_other_field_to_be_read(
    judge_all: JudgeAll,
) -> None:
    def program() -> None:
        for logs in (False, True):
            solver = _Solver(logs=logs)
            solver.moved(ones)
            solver.energy(ones)

    _, verdicts = judge_all(program)
    (verdict,) = _again(verdicts, "energy")
    assert isinstance(verdict.fix, LeaveOutValue)
    assert (verdict.fix.read_by, verdict.fix.may_read) == ((), ("moved",))


@dataclass(frozen=True)
class _Config:
    act: str = "relu"
    decay: float = 0.1
    tag: str = "base"


def test_what_a_constant_shows_not_to_be_read_is_read_by_no_function(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnames="config")
    def loss(x: Any, config: _Config) -> Any:
        act = jnp.tanh if config.act == "tanh" else jnp.sin
        return act(x).sum() + config.decay * (x**2).sum()

    @partial(jax.jit, static_argnames="config")
    def update(x: Any, config: _Config) -> Any:
        return x - loss(x, config) * 2

    def program() -> None:
        for one in (_Config(), _Config(decay=0.3, tag="wd"), _Config(act="tanh", tag="tanh")):
            loss(ones, one)
            update(ones, one)

    _, verdicts = judge_all(program)
    for name in ("loss", "update"):
        constant, other = (one.fix for one in _again(verdicts, name) if one.miss.parent is None)
        assert isinstance(constant, ToArgument)
        assert (constant.unread, constant.needed) == (("config.tag",), ())
        assert other is not None
        assert other.paths == ("config.act",)


def test_integers_that_another_function_gets_are_not_to_become_floats(
    judge_all: JudgeAll,
) -> None:
    distance = jax.jit(lambda p, y: ((p - y) ** 2).mean())
    chosen = jax.jit(lambda p, y: p[y].mean())
    whole, parts = np.array([0, 1, 1], np.int32), np.array([0.5, 1, 1], np.float32)

    def program() -> None:
        for y in (whole, parts):
            distance(ones, y)
        chosen(ones, whole)

    recording, verdicts = judge_all(program)
    (step,) = plan(recording, verdicts).steps
    assert step.sure == "ask"
    assert step.proposal.takers
    assert "integers" in sentence(step.proposal)


def test_a_number_is_passed_with_the_dtype_that_other_calls_give_it(judge_all: JudgeAll) -> None:
    scaled = jax.jit(lambda x, by=1.0: x * by)
    _, verdicts = judge_all(lambda: [scaled(ones), scaled(ones, np.float32(0.5))])
    fix = verdicts[-1].fix
    assert isinstance(fix, OneCallStyle) and fix.typed == "float32"
    assert "np.float32" in sentence_of(fix)


def test_a_number_of_a_call_that_computes_in_another_dtype_is_not_told_to_be_an_array(
    judge_all: JudgeAll,
) -> None:
    @partial(jax.jit, static_argnames="half")
    def step(w: Any, rate: Any, half: bool = False) -> Any:
        return (w.astype(jnp.bfloat16) if half else w) * rate

    def program() -> None:
        for half in (False, True):
            for rate in (0.1, np.float32(0.1)):
                step(ones, rate, half)

    _, verdicts = judge_all(program)
    found = [one.fix for one in _again(verdicts, "step") if isinstance(one.fix, CastNumber)]
    assert len(found) == 2
    assert all(one.sure == "ask" for one in found)


def test_what_becomes_a_leaf_is_one_for_each_function_that_gets_the_object(
    judge_all: JudgeAll,
) -> None:
    moved = jax.jit(lambda world: world.at - jnp.tanh(world.pull * world.at))

    def decayed(world: _World) -> Any:
        return sum((leaf**2).sum() for leaf in jax.tree.leaves(world))

    decay, other = jax.jit(decayed), jax.jit(lambda x: x + 1)

    def program() -> None:
        decay(_World(ones))
        other(ones)
        for pull in (9.8, 1.6, 3.7):
            moved(_World(ones, "ball", pull))

    _, verdicts = judge_all(program)
    found = [one.fix for one in verdicts if isinstance(one.fix, ToArray)]
    assert [one.leaf_of for one in found] == [("decayed",)] * 2
    assert "decayed" in sentence_of(found[0])


def test_a_field_of_a_class_is_edited_once_for_all_functions(judge_all: JudgeAll) -> None:
    first = jax.jit(lambda world: world.at * 2)
    second = jax.jit(lambda world: world.at + 1)
    moved = jax.jit(lambda world: world.at - world.pull)

    def program() -> None:
        for kind in ("ball", "cart", "kite"):
            first(_World(ones, kind))
            second(_World(ones, kind))
        for pull in (1.5, 2.5, 3.5):
            moved(_World(ones, "kite", pull))
            first(_World(ones, "kite", pull))

    recording, verdicts = judge_all(program)
    steps = plan(recording, verdicts).steps
    told = {one.proposal.advice and one.proposal.advice.code: one.gone.calls for one in steps}
    assert told == {"leave-out": (4, 4), "static-to-dynamic": (5, 5)}

    # To the letter: what is left out, or becomes a leaf, is in no key any more.
    one, other, last = (jax.jit(f) for f in (_doubled, _added, _moved))
    for _ in ("ball", "cart", "kite"):
        one(_Edited(ones))
        other(_Edited(ones))
    for pull in (1.5, 2.5, 3.5):
        assert np.array_equal(last(_Edited(ones, pull)), moved(_World(ones, "kite", pull)))
        one(_Edited(ones, pull))
    sizes = [f._cache_size() for f in (one, other, last)]  # pyright: ignore[reportAttributeAccessIssue]
    assert sum(sizes) == 3 == len(verdicts) - 9


@partial(jax.tree_util.register_dataclass, data_fields=["at", "pull"], meta_fields=[])
@dataclass
class _Edited:
    at: Any
    pull: Any = 9.8


def _doubled(world: Any) -> Any:
    return world.at * 2


def _added(world: Any) -> Any:
    return world.at + 1


def _moved(world: Any) -> Any:
    return world.at - world.pull

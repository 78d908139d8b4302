"""What is told where several calls or functions need different things: nothing may be lost."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest

from retrace.model import Verdict
from retrace.model.advice import (
    REUSED,
    BranchInProgram,
    CompareByValue,
    FewValues,
    JitAndPass,
    JitForEach,
    LeaveOutValue,
    OneDtype,
    OneRank,
    OneStructure,
    PadShape,
    PassHeld,
    Proof,
    ReuseObject,
    ToArgument,
    ToArray,
)
from retrace.plan.order import plan
from retrace.plan.step import Change, Proposal
from retrace.present.advice import advised as sentence_of
from retrace.present.group import Group
from retrace.present.message import lines
from retrace.present.plan_titles import title
from retrace.present.plan_words import sentence
from retrace.present.view import View
from retrace.reason import variants
from tests.recording.conftest import JudgeAll

ones = np.ones(4, np.float32)


def _again(verdicts: list[Verdict], name: str) -> list[Verdict]:
    return [one for one in verdicts if one.miss.function.name == name and one.nearest]


def test_a_config_is_compared_by_value_where_one_call_has_another_size_as_well(
    judge_all: JudgeAll,
) -> None:
    @dataclass(eq=False, frozen=True)
    class Config:
        steps: int

    @partial(jax.jit, static_argnames="config")
    def repeated(x: Any, config: Config) -> Any:
        for _ in range(config.steps):
            x = x - 0.1 * jnp.sin(x)
        return x

    def program() -> None:
        for size in (3, 5):
            for _ in range(3):
                repeated(np.ones(size, np.float32), config=Config(size // 2))

    recording, verdicts = judge_all(program)
    told = [one.fix for one in _again(verdicts, "repeated")]
    assert [isinstance(one, CompareByValue) for one in told] == [True, True, False, True, True]
    step, *_ = plan(recording, verdicts).steps
    assert step.gone.calls.low == step.gone.calls.high == 4


def test_what_a_function_holds_is_named_where_others_share_its_sizes(
    judge_all: JudgeAll,
) -> None:
    other = jax.jit(lambda x: x * 3)

    def make(k: float) -> Any:
        @jax.jit
        def scaled(x: Any) -> Any:
            return x * 2 + k

        return scaled

    def program() -> None:
        for size in range(3, 7):
            x = np.ones(size, np.float32)
            other(x)
            make(1.0 / size)(x)

    recording, verdicts = judge_all(program)
    said = [sentence(one.proposal) for one in plan(recording, verdicts).steps]
    assert len(said) == 2 and "pass `k`" in said[1]


def test_functions_of_one_factory_that_need_other_things_are_two_steps(
    judge_all: JudgeAll,
) -> None:
    def make(rate: float) -> Any:
        @jax.jit
        def train(p: Any) -> Any:
            return p * rate

        def forward(p: Any, x: Any) -> Any:
            return jnp.tanh(x * p)

        return train, forward

    def program() -> None:
        for rate in (0.1, 0.2):
            train, forward = make(rate)
            p = train(ones)
            jax.jit(jax.jacfwd(partial(forward, p)))(ones)

    recording, verdicts = judge_all(program)
    told = {
        one.functions: title(one.proposal)
        for one in plan(recording, verdicts).steps
        if one.proposal.changes[0].family == "function"
    }
    assert told == {
        ("train",): "pass `rate` as an argument of `train`",
        ("forward",): "pass `p` as an argument of `forward`",
    }


_held: dict[str, Any] = {}


def test_arrays_that_one_of_several_functions_reads_are_passed_to_each(
    judge_all: JudgeAll,
) -> None:
    def make(act: Any) -> Any:
        return lambda p, x: act(x * p["w"])

    def program() -> None:
        for act in (jnp.tanh, jnp.sin):
            for k in (1.0, 2.0):
                forward = make(act)
                _held["p"] = {"w": jnp.full(4, k)}
                jax.jit(jax.vmap(lambda x, forward=forward: forward(_held["p"], x)))(
                    np.ones((2, 4), np.float32)
                )

    _, verdicts = judge_all(program)
    told = [one.fix for one in _again(verdicts, "<lambda>")]
    assert len(told) == 3
    assert all(isinstance(one, JitForEach) and one.reads for one in told)


def test_functions_over_the_same_value_are_created_once_for_each_value(
    judge_all: JudgeAll,
) -> None:
    class Model:
        def __init__(self, data: Any) -> None:
            self.data = data

        def density(self, q: Any) -> Any:
            return jnp.sum((self.data - q) ** 2)

    energy = jax.jit(lambda q, density: density(q) * 2, static_argnames="density")

    def program() -> None:
        for k in (1.0, 2.0):
            model = Model(np.full(20, k))
            for i in range(3):
                energy(np.float32(i), density=lambda q, model=model: model.density(q))

    recording, verdicts = judge_all(program)
    again = _again(verdicts, "<lambda>")
    told = [one.fix for one in again]
    assert [type(one) for one in told] == [ReuseObject] * 2 + [PassHeld] + [ReuseObject] * 2
    assert [one.each for one in told if isinstance(one, ReuseObject)] == [("data",)] * 4
    assert [one.avoidable for one in again] == ["yes", "yes", "maybe", "yes", "yes"]
    (step,) = plan(recording, verdicts).steps
    assert title(step.proposal) == "one `density` for each `data`"


def test_a_static_tuple_that_nothing_reads_hides_no_size(judge_all: JudgeAll) -> None:
    @jax.tree_util.register_dataclass
    @dataclass
    class Batch:
        ids: Any
        lengths: tuple[int, ...] = field(metadata={"static": True})

    step = jax.jit(lambda batch: jnp.tanh(batch.ids).mean())

    def program() -> None:
        for size, first in ((4, 1), (4, 2), (2, 3)):
            step(Batch(np.ones(size, np.float32), tuple(range(first, first + size))))

    recording, verdicts = judge_all(program)
    read, ragged = _again(verdicts, "<lambda>")
    assert isinstance(read.fix, LeaveOutValue) and read.fix.paths == ("batch.lengths",)
    assert isinstance(ragged.fix, OneStructure) and ragged.fix.way == "unknown"
    first, second = plan(recording, verdicts).steps
    assert title(first.proposal).startswith("leave `batch.lengths` out")
    assert title(second.proposal).startswith("one size for `batch.ids`")
    assert second.gone.calls.low == 0 and second.gone.calls.high == 1


def test_a_number_that_another_size_came_with_is_still_passed(judge_all: JudgeAll) -> None:
    def make(data: Any, rate: float) -> Any:
        @jax.jit
        def step(p: Any) -> Any:
            return p * rate + jnp.sum(data)

        return step

    def program() -> None:
        for size, rate in ((17, 1.0), (17, 2.0), (18, 1.0), (17, 4.0)):
            make(np.full(size, rate, np.float32), rate)(ones)

    recording, verdicts = judge_all(program)
    for one in _again(verdicts, "step"):
        assert isinstance(one.fix, JitAndPass)
        assert (sorted(one.fix.traced), one.fix.static) == (["data", "rate"], ())
    (step, *_) = plan(recording, verdicts).steps
    assert title(step.proposal) == "pass `data` and `rate` as arguments of `step`"
    assert step.gone.calls.high == 2


def test_a_number_beside_an_optimizer_is_passed_as_equinox_takes_arrays(
    judge_all: JudgeAll,
) -> None:
    def program() -> None:
        step = eqx.filter_jit(lambda p, tx, decay: (tx.update(p, tx.init(p))[0], p * decay))
        for decay in (0.1, 0.2, 0.3):
            step(ones, optax.sgd(0.1), decay)

    recording, verdicts = judge_all(program)
    found = [one.fix for one in _again(verdicts, "<lambda>")]
    assert len(found) == 2 and all(isinstance(one, ToArray) and one.by_type for one in found)
    (step,) = plan(recording, verdicts).steps
    assert title(step.proposal) == "pass `decay` as an array, and one `tx`"
    assert "static" not in sentence(step.proposal)
    assert "tx." not in sentence(step.proposal)


def test_an_object_that_looks_the_same_is_not_blamed_for_another_dtype(
    judge_all: JudgeAll,
) -> None:
    class Decoder:
        def __init__(self) -> None:
            self.weights = jnp.ones(4)

        @partial(jax.jit, static_argnums=0)
        def step(self, x: Any) -> Any:
            return x * self.weights

    def program() -> None:
        Decoder().step(ones)
        Decoder().step(ones.astype(np.int32))

    _, verdicts = judge_all(program)
    (again,) = _again(verdicts, "step")
    assert isinstance(again.fix, CompareByValue) and not again.fix.varies
    assert again.fix.others == (("x", "dtype"),)


def test_values_of_a_tree_that_change_along_are_named_and_asked_about(
    judge_all: JudgeAll,
) -> None:
    @jax.tree_util.register_dataclass
    @dataclass
    class State:
        w: Any
        rate: float = field(metadata={"static": True})
        name: str = field(metadata={"static": True})

    step = jax.jit(lambda s: s.w * s.rate)

    def program() -> None:
        for k in (1.0, 2.0, 3.0):
            step(State(ones, k, f"run{k}"))

    recording, verdicts = judge_all(program)
    for one in _again(verdicts, "<lambda>"):
        assert one.fix is not None and one.fix.others == (("s.name", "static_data"),)
    (step_,) = plan(recording, verdicts).steps
    assert step_.sure == "ask" and "the same for" not in sentence(step_.proposal)


def test_a_function_jitted_as_it_is_and_transformed_is_two_steps(judge_all: JudgeAll) -> None:
    def loss(data: Any, x: Any) -> Any:
        return ((data - x) ** 2).sum()

    def program() -> None:
        for k in (1.0, 2.0, 3.0):
            data = np.full(4, k, np.float32)
            jax.jit(partial(loss, data))(ones)
            jax.jit(jax.grad(partial(loss, data)))(ones)

    recording, verdicts = judge_all(program)
    steps = plan(recording, verdicts).steps
    assert [one.gone.calls.high for one in steps] == [2, 2]
    said = [sentence(one.proposal) for one in steps]
    assert sum("argnums" in one for one in said) == 1


def test_an_array_that_some_calls_lack_has_the_length_of_the_others(judge_all: JudgeAll) -> None:
    @jax.jit
    def total(p: Any) -> Any:
        return p["w"] * 2 + p.get("b", 0)

    def program() -> None:
        for size, has in ((2, False), (3, False), (2, True), (3, True)):
            both = {"w": np.ones(size, np.float32), "b": np.zeros(size, np.float32)}
            total(both if has else {"w": both["w"]})

    recording, verdicts = judge_all(program)
    sized = [one.proposal for one in plan(recording, verdicts).steps if one.proposal.sizes]
    (found,) = sized
    assert found.pairs is None and found.sizes is not None
    assert found.sizes.chosen.sizes == (3,) and found.sizes.seen == (2, 3)


def test_no_array_stands_for_an_omitted_static_argument(judge_all: JudgeAll) -> None:
    first = jax.jit(lambda x, top=None: x if top is None else x[:top], static_argnames="top")

    def program() -> None:
        for top in (1, 2):
            first(ones)
            first(ones, top=top)

    recording, verdicts = judge_all(program)
    said = [sentence(one.proposal) for one in plan(recording, verdicts).steps]
    assert said and not any("array" in one for one in said)


def test_a_function_that_may_hold_another_number_is_asked_about(judge_all: JudgeAll) -> None:
    step = jax.jit(lambda p, rate, loss: p - rate * loss(p), static_argnames=("rate", "loss"))

    def program() -> None:
        for rate, delta in ((0.1, 1.5), (0.2, 1.5), (0.3, 3.5)):
            _held["delta"] = delta
            step(ones, rate=rate, loss=lambda x: x * _held["delta"])

    _, verdicts = judge_all(program)
    told = [one.fix for one in _again(verdicts, "<lambda>")]
    assert told and all(one is not None and one.proof is Proof.MEANING for one in told)


def test_a_constant_is_not_said_to_decide_the_program(judge_all: JudgeAll) -> None:
    class Config(NamedTuple):
        rate: float
        is_last: bool

    step = jax.jit(
        lambda x, config: (x.sum() if config.is_last else x) * config.rate,
        static_argnames="config",
    )
    given = ((0.5, False), (0.25, True), (0.125, False), (0.0625, False))
    _, verdicts = judge_all(lambda: [step(ones, config=Config(*one)) for one in given])
    told = [one.fix for one in _again(verdicts, "<lambda>")]
    assert any(isinstance(one, ToArgument) and one.paths == ("config.rate",) for one in told)
    for one in told:
        if not isinstance(one, ToArgument):
            assert one is not None and one.paths == ("config.is_last",)


def test_what_python_computes_of_a_number_is_passed_beside_a_new_optimizer_as_well(
    judge_all: JudgeAll,
) -> None:
    def make(opt: Any, rate: float) -> Any:
        return jax.jit(lambda p: (opt.update(p, opt.init(p))[0], p / rate**3))

    def program() -> None:
        for rate in (1.5, 2.5, 3.5):
            make(optax.sgd(0.1), rate)(ones)

    _, verdicts = judge_all(program)
    for one in _again(verdicts, "<lambda>"):
        assert isinstance(one.fix, JitForEach) and one.fix.traced == ("rate",)
        assert one.fix.computed


def test_sizes_that_changed_below_another_structure_are_not_called_the_same(
    judge_all: JudgeAll,
) -> None:
    total = jax.jit(lambda b: sum(one.sum() for one in b.values()))

    def program() -> None:
        total({"x": np.ones(3, np.float32)})
        total({"x": np.ones(9, np.float32), "y": ones})

    recording, verdicts = judge_all(program)
    (again,) = _again(verdicts, "<lambda>")
    shown = lines(View(recording, verdicts), Group.alone(again))
    (same,) = [" ".join(line.cells) for line in shown if line.label == "same"]
    assert "dtypes" in same and "shapes" not in same


def test_what_must_change_as_well_makes_a_step_a_question(judge_all: JudgeAll) -> None:
    @jax.tree_util.register_dataclass
    @dataclass
    class State:
        w: Any
        rate: float = field(metadata={"static": True})
        schedule: Any = field(metadata={"static": True})

    total = jax.jit(lambda s: s.w.sum())
    recording, verdicts = judge_all(
        lambda: [total(State(ones, rate, lambda t: 1 / (1 + t))) for rate in (0.5, 0.25)]
    )
    (again,) = _again(verdicts, "<lambda>")
    assert isinstance(again.fix, ReuseObject) and again.avoidable == "yes"
    assert again.fix.others == (("s.rate", "static_data"),)
    (step,) = plan(recording, verdicts).steps
    assert step.sure == "ask"


def test_a_number_that_a_function_holds_is_no_leaf_of_a_model(judge_all: JudgeAll) -> None:
    class Net(eqx.Module):
        w: Any
        scale: Any

    def program() -> None:
        step = eqx.filter_jit(lambda net, tx: tx.update(net.w * net.scale, tx.init(net.w))[0])
        for k in (0.5, 0.25):
            step(Net(jnp.ones(4), k), optax.sgd(k))

    _, verdicts = judge_all(program)
    (again,) = _again(verdicts, "<lambda>")
    assert isinstance(again.fix, ToArray) and again.fix.paths == ("net.scale",)
    assert {path for path, _ in again.fix.others} == {"tx.init", "tx.update"}
    assert again.fix.kept == ()


def test_what_steers_a_function_is_not_passed_where_it_is_new_besides(
    judge_all: JudgeAll,
) -> None:
    def make(n: int) -> Any:
        def repeated(x: Any) -> Any:
            for _ in range(n):
                x = jnp.sin(x)
            return x

        return jax.jit(repeated)

    def program() -> None:
        for n, x in ((2, np.float32(1)), (3, np.float32(1)), (4, 1.0)):
            make(n)(x)

    _, verdicts = judge_all(program)
    *_, last = _again(verdicts, "repeated")
    assert last.fix is not None and last.fix.remade == "repeated"
    assert (last.fix.reading, last.fix.holding) == (("n",), ())


def test_what_is_another_one_at_each_call_is_passed_only_if_it_is_read(
    judge_all: JudgeAll,
) -> None:
    def loss(w: Any, config: Any) -> Any:
        for _ in range(config["layers"]):
            w = jnp.tanh(w)
        return w.sum()

    def make(config: Any) -> Any:
        return jax.jit(lambda w: w - config["lr"] * jax.grad(loss)(w, config))

    def program() -> None:
        for number, (lr, layers) in enumerate(((0.1, 2), (0.05, 2), (0.05, 3), (0.01, 3))):
            make({"lr": lr, "layers": layers, "name": f"run{number}"})(ones)

    recording, verdicts = judge_all(program)
    told = [one for one in verdicts if isinstance(one.fix, JitAndPass)]
    assert told and "yes" not in {one.avoidable for one in told}  # its name is another each time
    for one in told:
        assert isinstance(one.fix, JitAndPass)
        assert one.fix.always_new == ("config['name']",)
    (step,) = plan(recording, verdicts).steps
    assert step.gone.calls.low == 0
    assert "leave it out" in sentence(step.proposal)


def test_a_number_that_becomes_an_array_while_a_static_number_changes_is_a_step(
    judge_all: JudgeAll,
) -> None:
    @partial(jax.jit, static_argnames="lr")
    def update(p: Any, m: Any, lr: float) -> Any:
        m = 0.9 * m + p
        return p - lr * m, m

    def program() -> None:
        p, m = ones, 0.0
        for lr in (0.1, 0.05, 0.05):
            p, m = update(p, m, lr)

    (step,) = plan(*judge_all(program)).steps
    assert sorted(one.family for one in step.proposal.changes) == ["rank", "static", "weak_type"]
    assert (step.sure, step.gone.calls.low, step.gone.calls.high) == ("ask", 1, 1)


def test_an_array_from_the_start_is_told_where_no_miss_is_about_it_alone(
    judge_all: JudgeAll,
) -> None:
    @dataclass(eq=False)
    class Config:
        lr: float

    @partial(jax.jit, static_argnames="config")
    def update(p: Any, m: Any, config: Any) -> Any:
        m = 0.9 * m + p
        return p - config.lr * m, m

    def program() -> None:
        p, m = ones, 0.0
        for lr in (0.1, 0.1, 0.05):
            p, m = update(p, m, Config(lr))

    said = [sentence(one.proposal) for one in plan(*judge_all(program)).steps]
    assert any("`np.full((4,), value, np.float32)`" in one for one in said), said


def test_arrays_that_a_held_function_reads_are_passed_beside_its_numbers(
    judge_all: JudgeAll,
) -> None:
    def fit(x: Any, y: Any, scale: float) -> Any:
        def loss(w: Any) -> Any:
            return jnp.mean((jnp.tanh(x @ w) * scale - y) ** 2)

        return jax.jit(jax.vmap(lambda w: jax.hessian(loss)(w).trace()))(np.zeros((2, 3), "f"))

    def program(sizes: tuple[int, ...]) -> None:
        for task, size in enumerate(sizes):
            x = np.arange(3 * size, dtype=np.float32).reshape(size, 3) + task
            fit(x, x[:, 0], 1.0 + task % 2)

    for sizes in ((4, 4, 5), (4, 5, 6)):
        jax.clear_caches()
        _, verdicts = judge_all(lambda sizes=sizes: program(sizes))
        told = [one.fix for one in verdicts if isinstance(one.fix, JitAndPass)]
        assert len(told) > 1
        for one in told:
            assert {"loss.x", "loss.y", "loss.scale"} == {*one.traced, *one.static}
            assert {"loss.x", "loss.y"} <= {*one.traced}
            assert one.one_type == ()


def test_axes_that_differ_between_functions_are_not_padded_both_in_each(
    judge_all: JudgeAll,
) -> None:
    def score(w: Any, x: Any) -> Any:
        return jnp.tanh(x @ w).sum()

    alone, batched = jax.jit(score), jax.jit(jax.vmap(score, (None, 0)))

    def program() -> None:
        for rows in (5, 7, 9):
            x = np.ones((rows, 3), np.float32)
            alone(np.eye(3, dtype=np.float32), x)
            batched(np.eye(3, dtype=np.float32), np.stack([x, x]))

    recording, verdicts = judge_all(program)
    (step,) = plan(recording, verdicts).steps
    assert step.proposal.sizes is not None
    assert {*step.proposal.sizes.names} == {"score: x axis 0", "vmap(score): x axis 1"}
    assert step.gone.calls.low == 4
    assert title(step.proposal).startswith("one size for `x`")


def test_arrays_of_a_static_function_are_passed_beside_the_number_that_is_a_constant(
    judge_all: JudgeAll,
) -> None:
    @partial(jax.jit, static_argnums=0)
    def descend(f: Any, w: Any) -> Any:
        return w - 0.1 * jax.grad(f)(w)

    def ridge(x: Any, rate: float) -> Any:
        return lambda w: jnp.mean((x @ w) ** 2) + rate * (w**2).sum()

    def program() -> None:
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        for number, rate in enumerate((0.1, 0.01, 0.001)):
            descend(ridge(x + number, rate), ones[:3])

    _, verdicts = judge_all(program)
    for one in _again(verdicts, "descend"):
        assert isinstance(one.fix, ToArgument)
        assert {*one.fix.paths} == {"f.x", "f.rate"}
        assert one.fix.unread == ()


def test_one_function_for_each_object_saves_nothing_where_each_holds_something_else(
    judge_all: JudgeAll,
) -> None:
    def make(optimizer: Any) -> Any:
        def step(g: Any, state: Any) -> Any:
            return optimizer.update(g, state)

        return jax.jit(step)

    def program(rates: tuple[float, ...]) -> None:
        for rate in rates:
            optimizer = optax.MultiSteps(optax.sgd(rate), 1)
            make(optimizer)(ones, optimizer.init(ones))

    recording, verdicts = judge_all(lambda: program((0.1, 0.2, 0.3)))
    told = [one.fix for one in _again(verdicts, "step")]
    steps = plan(recording, verdicts).steps
    kept = [one for one in told if isinstance(one, JitForEach) and not one.same]
    assert len(kept) == 2, told
    assert steps == ()


def test_what_another_function_may_read_is_asked_and_not_told_to_be_read(
    judge_all: JudgeAll,
) -> None:
    grids = [Grid(4, f"run{number}") for number in range(3)]
    advance = jax.jit(lambda grid, u, wind: u * wind + grid.size, static_argnums=0)
    diagnose = jax.jit(lambda grid, u: u.sum() * grid.size, static_argnums=0)

    def program() -> None:
        for grid, wind in zip(grids, (np.int32(1), np.float32(1), np.float32(1)), strict=True):
            advance(grid, ones, wind)
            diagnose(grid, ones)

    _, verdicts = judge_all(program)
    told = [v.fix for v in verdicts if v.cause.value == "static-argument-changed"]
    told = [one for one in told if isinstance(one, LeaveOutValue)]
    assert len(told) > 1
    assert all(one.read_by == () for one in told)
    assert any(one.may_read and one.proof is Proof.MEANING for one in told)


@dataclass(frozen=True)
class Grid:
    size: int
    label: str


def test_what_arrays_of_another_size_explain_is_not_taken_as_read(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnums=1)
    def encode(x: Any, grid: Grid) -> Any:
        return x * grid.size

    def program() -> None:
        for number, size in enumerate((3, 5, 3)):
            encode(np.ones(size, np.float32), Grid(4, f"run{number}"))

    _, verdicts = judge_all(program)
    last = max(_again(verdicts, "encode"), key=lambda one: one.miss.number)
    assert isinstance(last.fix, LeaveOutValue)
    assert last.fix.others == ()
    assert last.avoidable == "yes"


def test_what_changes_only_with_another_cause_is_passed_too(judge_all: JudgeAll) -> None:
    def make(mean: Any, scale: float, kind: str) -> Any:
        @jax.jit
        def evaluate(x: Any) -> Any:
            y = (x - mean).sum() * scale
            return y if kind == "sum" else -y

        return evaluate

    def program() -> None:
        for size, kind in ((3, "sum"), (4, "other"), (5, "other")):
            x = np.arange(size, dtype=np.float32)
            for scale in (1.0, 2.0, 3.0):
                make(np.full(2, x.mean())[:1], scale, kind)(x)

    _, verdicts = judge_all(program)
    told = [one.fix for one in verdicts if isinstance(one.fix, JitAndPass)]
    assert len(told) == 6
    for one in told:
        assert {*one.traced} == {"mean", "scale"}
        assert one.static == ("kind",)


def test_what_a_static_function_holds_otherwise_in_any_call_is_passed_by_all(
    judge_all: JudgeAll,
) -> None:
    @partial(jax.jit, static_argnums=0)
    def stepped(f: Any, y: Any) -> Any:
        return y + 0.1 * f(y)

    def field(a: Any, r: float) -> Any:
        return lambda y: r * (a * y).sum()

    def program() -> None:
        for trial in range(2):
            a = np.arange(4, dtype=np.float32) + trial
            for r in (1.5, 2.5, 3.5):
                stepped(field(a, r), ones)

    _, verdicts = judge_all(program)
    told = [one.fix for one in verdicts if isinstance(one.fix, ToArgument)]
    assert told
    assert all({*one.paths} == {"f.a", "f.r"} for one in told)


def test_a_size_stays_static_and_what_changed_beside_it_once_is_passed(
    judge_all: JudgeAll,
) -> None:
    @partial(jax.jit, static_argnames=("steps", "rate"))
    def rolled(x: Any, steps: int, rate: float) -> Any:
        return x + rate * jnp.arange(steps)[-1]

    @partial(jax.jit, static_argnames="horizon")
    def forecast(x: Any, level: Any, horizon: int) -> Any:
        return level * x[0] ** jnp.arange(1, horizon + 1)

    def program() -> None:
        for steps, rate in ((4, 0.1), (8, 0.05), (8, 0.01)):
            rolled(ones, steps=steps, rate=rate)
        for horizon, level in ((3, 1.0), (4, np.float32(1)), (5, np.float32(1))):
            forecast(ones, level, horizon=horizon)

    _, verdicts = judge_all(program)
    last = max(_again(verdicts, "rolled"), key=lambda one: one.miss.number)
    assert isinstance(last.fix, ToArgument)
    assert last.fix.paths == ("rate",)
    told = [one.fix for one in _again(verdicts, "forecast")]
    assert [isinstance(one, FewValues) for one in told] == [True, True]


def test_what_is_passed_is_named_though_it_is_much(judge_all: JudgeAll) -> None:
    def make(a: float, b: float, c: float, d: float) -> Any:
        return jax.jit(lambda x: (x * a + b) * c + d)

    def program() -> None:
        for number in (0.25, 0.75):
            make(1 + number, 2 + number, 3 + number, 4 + number)(ones)

    (step,) = plan(*judge_all(program)).steps
    assert all(f"`{name}`" in sentence(step.proposal) for name in "abcd")


def test_what_sizes_results_stays_static_where_nothing_passed_has_that_size(
    judge_all: JudgeAll,
) -> None:
    @partial(jax.jit, static_argnames=("rows", "scale"))
    def filled(x: Any, rows: int, scale: float) -> Any:
        return jnp.full((rows,), scale) * x

    def program() -> None:
        for rows, x in ((3, 1.0), (5, np.float32(1))):
            filled(x, rows=rows, scale=0.5)

    (told,) = [one.fix for one in _again(judge_all(program)[1], "filled")]
    assert isinstance(told, FewValues)
    assert told.paths == ("rows",)


class _Ridge:
    def __init__(self, alpha: float, degree: int) -> None:
        self.alpha, self.degree = alpha, degree

    @partial(jax.jit, static_argnums=0)
    def fit(self, x: Any) -> Any:
        columns = jnp.stack([x**power for power in range(self.degree)], -1)
        return columns.T @ columns + self.alpha * jnp.eye(self.degree)


def test_an_object_is_compared_with_the_one_that_differs_in_the_fewest_fields(
    judge_all: JudgeAll,
) -> None:
    def program() -> None:
        for alpha in (0.1, 0.2):
            for degree in (2, 3):
                _Ridge(alpha, degree).fit(ones)

    _, verdicts = judge_all(program)
    by_number = sorted(_again(verdicts, "fit"), key=lambda one: one.miss.number)
    assert [one.fix and one.fix.paths for one in by_number] == [
        ("self.degree",),
        ("self.alpha",),
        ("self.degree",),
    ]
    assert isinstance(by_number[1].fix, ToArgument)


def test_networks_of_other_depth_are_no_call_of_one_structure(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnames="rate")
    def trained(params: Any, x: Any, rate: float) -> Any:
        for weights in params:
            x = jnp.tanh(x @ weights)
        return rate * x

    def program() -> None:
        for widths in ((3, 3), (3, 4, 3)):
            params = [np.ones(pair, np.float32) for pair in pairwise(widths)]
            rate = 0.1 if len(widths) == 2 else 0.2
            trained(params, ones[:3], rate=rate)
            trained(tuple(params), ones[:3], rate=rate)

    recording, verdicts = judge_all(program)
    found = plan(recording, verdicts)
    assert [one.gone.calls.high for one in found.steps] == [2]
    assert found.floor.calls.low == found.floor.calls.high == 2


def test_objects_that_are_new_beside_what_is_to_be_changed_are_told_to_be_reused(
    judge_all: JudgeAll,
) -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

    @partial(jax.jit, static_argnames=("scale", "flip"))
    def scaled(x: Any, scale: Any, flip: bool) -> Any:
        return x * (-scale.by if flip else scale.by)

    def program() -> None:
        for flip in (False, True):
            scaled(ones, scale=Scale(2.0), flip=flip)

    _, (*_, last) = judge_all(program)
    assert last.fix is not None
    assert last.fix.paths == ("flip",)
    assert last.fix.others == (("scale", REUSED),)
    assert "create `scale` once" in sentence_of(last.fix)


@dataclass(frozen=True)
class _Dropped:
    drop: float
    k: int = 1


def test_what_only_calls_with_another_flag_read_is_not_left_out_of_the_key(
    judge_all: JudgeAll,
) -> None:
    @partial(jax.jit, static_argnames=("config", "train"))
    def forward(x: Any, config: _Dropped, train: bool) -> Any:
        return jnp.tanh(x) * (1 - config.drop) if train else jnp.tanh(x)

    def program() -> None:
        for drop, train in ((0.1, True), (0.1, False), (0.5, False), (0.5, True)):
            forward(ones, config=_Dropped(drop), train=train)

    recording, verdicts = judge_all(program)
    by_number = sorted(_again(verdicts, "forward"), key=lambda one: one.miss.number)
    fix = by_number[1].fix
    assert isinstance(fix, LeaveOutValue)
    assert (fix.paths, fix.read_with) == (("config.drop",), ("train",))
    found = plan(recording, verdicts)
    (step,) = [one for one in found.steps if "config.drop" in title(one.proposal)]
    # The program of the other flag is needed for each value.
    assert step.gone.calls.low == step.gone.calls.high == 1
    assert found.floor.calls.low == 3


def test_what_calls_with_another_flag_do_is_not_known_from_one_value(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnames=("config", "train"))
    def left_out(x: Any, config: _Dropped, train: bool) -> Any:
        return jnp.tanh(x) * (1 - config.drop) if train else jnp.tanh(x)

    @partial(jax.jit, static_argnames=("config", "train"))
    def passed(x: Any, config: _Dropped, train: bool) -> Any:
        for _ in range(config.k if train else 0):
            x = x * 0.5
        return x + config.k

    def program() -> None:
        for drop, k, train in ((0.1, 1, True), (0.1, 1, False), (0.5, 2, False)):
            left_out(ones, config=_Dropped(drop), train=train)
            passed(ones, config=_Dropped(0.1, k), train=train)

    _, verdicts = judge_all(program)
    for name, path in (("left_out", "config.drop"), ("passed", "config.k")):
        last = max(_again(verdicts, name), key=lambda one: one.miss.number)
        assert isinstance(last.fix, LeaveOutValue | ToArgument)
        assert (last.fix.paths, last.fix.seen_with) == ((path,), ("train",))
        assert last.fix.proof is Proof.MEANING
        assert "this" in sentence_of(last.fix)


def test_a_flag_is_no_count_of_a_loop(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnames="train")
    def forward(x: Any, train: bool) -> Any:
        for _ in range(3 if train else 0):
            x = x * 0.5
        return x + 1

    def program() -> None:
        forward(ones, train=True)
        forward(ones, train=False)

    _, (*_, last) = judge_all(program)
    assert isinstance(last.fix, BranchInProgram)


def test_an_object_over_functions_with_other_numbers_is_not_told_to_be_created_once(
    judge_all: JudgeAll,
) -> None:
    class Trained(eqx.Module):
        w: Any
        opt: Any = eqx.field(static=True)

    @jax.jit
    def improved(state: Trained, x: Any) -> Trained:
        given = jax.grad(lambda w: ((w * x) ** 2).sum())(state.w)
        changed, _ = state.opt.update(given, state.opt.init(state.w))
        return Trained(optax.apply_updates(state.w, changed), state.opt)

    @jax.jit
    def measured(state: Trained, x: Any) -> Any:
        return (state.w * x).sum()

    def program() -> None:
        w = ones
        for rate in (0.1, 0.01):
            state = improved(Trained(w, optax.sgd(rate)), ones)
            measured(state, ones)
            w = state.w

    _, verdicts = judge_all(program)
    (last,) = _again(verdicts, "measured")
    assert isinstance(last.fix, LeaveOutValue)
    assert (last.fix.passing, last.fix.read_by) == ("state", ("improved",))


def test_padding_is_asked_about_where_calls_with_another_flag_came_in_one_size(
    judge_all: JudgeAll,
) -> None:
    @partial(jax.jit, static_argnames="normal")
    def features(x: Any, normal: bool) -> Any:
        return jnp.tanh(x - x.mean(0)) if normal else jnp.tanh(x)

    @partial(jax.jit, static_argnames="rate")
    def scaled(y: Any, rate: float) -> Any:
        return jnp.tanh(y) * rate

    def program() -> None:
        for size, normal, rate in ((3, False, 0.1), (3, True, 0.2), (5, False, 0.1)):
            features(np.ones((size, 2), np.float32), normal=normal)
            scaled(np.ones((2 * size + 1, 2), np.float32), rate=rate)

    recording, verdicts = judge_all(program)
    sure = {
        name: one.sure
        for one in plan(recording, verdicts).steps
        for name in one.functions
        if "one size" in title(one.proposal)
    }
    # Another number does not lead through other lines.
    assert sure == {"features": "ask", "scaled": "likely"}


def test_calls_that_pass_the_same_are_told_so_in_one_order(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnums=0)
    def filtered(model: Any, x: Any) -> Any:
        return x * model.r + model.q

    class Model(NamedTuple):
        r: float
        q: float

    def program() -> None:
        for r, q in ((0.5, 0.1), (1.0, 0.1), (1.0, 0.2)):
            filtered(Model(r, q), ones)

    _, verdicts = judge_all(program)
    found = {one.fix.paths for one in _again(verdicts, "filtered") if one.fix is not None}
    assert found == {("model.r", "model.q")}


def test_a_number_beside_a_new_function_is_no_object_in_a_title(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnames="kernel")
    def fitted(x: Any, scale: Any, kernel: Any) -> Any:
        return kernel(x) * scale

    def make() -> Any:
        return lambda x: x + 1

    def program() -> None:
        fitted(ones, 2.0, kernel=make())
        fitted(ones, np.float32(2), kernel=make())

    recording, verdicts = judge_all(program)
    (step,) = plan(recording, verdicts).steps
    assert title(step.proposal).startswith("one object for `kernel` and give `scale` a dtype")


def test_another_function_in_a_closure_is_kept_apart_and_no_size_decides(
    judge_all: JudgeAll,
) -> None:
    def layer(x: Any, act: Any, by: float) -> Any:
        return act(x) * by

    def program() -> None:
        for act, by, size in ((jnp.tanh, 1.0, 3), (jax.nn.softplus, 2.0, 4)):
            jax.jit(partial(layer, act=act, by=by))(np.ones(size, np.float32))

    _, verdicts = judge_all(program)
    (last,) = _again(verdicts, "layer")
    assert isinstance(last.fix, PadShape)
    assert not last.fix.written
    assert (last.fix.reading, last.fix.holding, last.fix.calling) == (("act",), ("by",), ())


def test_static_values_of_a_function_that_is_kept_for_each_object_save_nothing_for_sure(
    judge_all: JudgeAll,
) -> None:
    def make(rate: float, dtype: Any) -> Any:
        @jax.jit
        def dropped(x: Any, key: Any) -> Any:
            x = x.astype(dtype)
            return x * jax.random.bernoulli(key, 1 - rate, x.shape) if rate else x

        return dropped

    def program() -> None:
        for epoch in range(4):
            dtype = jnp.float32 if epoch < 2 else jnp.bfloat16
            make(0.1 * epoch, dtype)(ones, jax.random.key(epoch))

    recording, verdicts = judge_all(program)
    (step,) = [one for one in plan(recording, verdicts).steps if "dropped" in one.functions]
    assert isinstance(step.proposal.advice, JitForEach)
    assert step.proposal.advice.static == ("rate",)
    assert step.gone.calls.low == 0


def test_only_what_has_another_number_of_axes_is_told_to_have_one(judge_all: JudgeAll) -> None:
    @jax.jit
    def scaled(x: Any, by: Any) -> Any:
        return x * by.sum()

    def program() -> None:
        scaled(np.ones((3, 2), np.float32), np.ones(2, np.float32))
        scaled(np.ones((4, 2), np.float32), np.ones((2, 2), np.float32))

    _, (*_, last) = judge_all(program)
    assert isinstance(last.fix, OneRank)
    assert (last.fix.paths, last.fix.others) == (("by",), (("x", "shape"),))


def test_a_field_beside_an_array_of_another_dtype_is_not_said_to_decide(
    judge_all: JudgeAll,
) -> None:
    class State(eqx.Module):
        w: Any
        count: int = eqx.field(static=True)

    @jax.jit
    def stepped(state: State, rate: Any) -> State:
        return State(state.w - rate * state.w, state.count)

    def program() -> None:
        stepped(State(ones, 0), 1)
        stepped(State(ones, 1), 0.5)

    _, (*_, last) = judge_all(program)
    assert isinstance(last.fix, OneStructure)
    assert (last.fix.paths, last.fix.way) == (("state.count",), "unknown")


def test_what_is_a_constant_of_another_function_is_known_to_be_read_there(
    judge_all: JudgeAll,
) -> None:
    class Model(NamedTuple):
        beta: float
        tag: str

    @partial(jax.jit, static_argnums=0)
    def encoded(model: Model, x: Any) -> Any:
        return jnp.tanh(x)

    @partial(jax.jit, static_argnums=0)
    def loss(model: Model, x: Any) -> Any:
        return model.beta * x.sum()

    def program() -> None:
        for beta, tag in ((0.1, "a"), (0.5, "b")):
            encoded(Model(beta, tag), ones)
            loss(Model(beta, tag), ones)

    _, verdicts = judge_all(program)
    (last,) = _again(verdicts, "encoded")
    assert isinstance(last.fix, LeaveOutValue)
    assert (last.fix.paths, last.fix.read_by) == (("model.beta",), ("loss",))


def test_of_two_floats_the_wider_one_is_told_if_programs_compute_alike() -> None:
    both = OneDtype(paths=("y",), dtypes=("float32", "float64"))
    assert "float64, not float32" in sentence_of(both)
    assert "not float32" not in sentence_of(both.changed(proof=Proof.MEANING))


def test_later_calls_of_a_long_history_are_told_what_earlier_ones_are(
    judge_all: JudgeAll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variants, "_MAX_CALLS", 4)

    @partial(jax.jit, static_argnames=("config", "train"))
    def forward(x: Any, config: _Dropped, train: bool) -> Any:
        return x * (1 - config.drop) if train else x + 1

    def program() -> None:
        for drop, train in ((0.1, True), (0.1, False), (0.5, False), (0.5, True), (0.7, False)):
            forward(ones, config=_Dropped(drop), train=train)

    _, verdicts = judge_all(program)
    last = max(_again(verdicts, "forward"), key=lambda one: one.miss.number)
    assert isinstance(last.fix, LeaveOutValue)
    assert last.fix.read_with == ("train",)


def test_what_is_new_beside_a_field_or_a_size_is_told_to_be_reused(judge_all: JudgeAll) -> None:
    class Scale:
        by = 2.0

    class State(eqx.Module):
        w: Any
        scale: Any = eqx.field(static=True)
        rate: float = eqx.field(static=True)

    @jax.jit
    def stepped(state: State, x: Any) -> Any:
        return state.w * state.scale.by * state.rate + x

    @partial(jax.jit, static_argnames="scale")
    def scaled(y: Any, n: Any, scale: Any) -> Any:
        return jax.lax.fori_loop(0, n, lambda _, y: y * scale.by, y)

    def program() -> None:
        for rate in (0.1, 0.2):
            stepped(State(ones, Scale(), rate), ones)
        scaled(ones, 2, scale=Scale())
        with jax.default_matmul_precision("highest"):
            scaled(ones, 2, scale=Scale())

    _, verdicts = judge_all(program)
    (field,), (setting,) = (_again(verdicts, name) for name in ("stepped", "scaled"))
    assert field.fix is not None and setting.fix is not None
    assert (field.fix.paths, field.fix.others) == (("state.rate",), (("state.scale", REUSED),))
    assert ("scale", REUSED) in setting.fix.others


def test_a_dtype_is_asked_for_where_another_branch_only_saw_integers(
    judge_all: JudgeAll,
) -> None:
    @partial(jax.jit, static_argnames="mode")
    def loss(p: Any, y: Any, mode: str) -> Any:
        return ((p - y) ** 2).mean() if mode == "distance" else p[y].mean()

    whole, parts = np.array([0, 1, 1, 0], np.int32), np.array([0.5, 1, 1, 0], np.float32)

    def program() -> None:
        for y, mode in ((whole, "distance"), (parts, "distance"), (whole, "index")):
            loss(ones, y, mode)

    recording, verdicts = judge_all(program)
    asked = [one.fix for one in verdicts if isinstance(one.fix, OneDtype)]
    assert [(one.sure, one.seen_with) for one in asked] == [("ask", ("mode",))]
    assert any(
        "`mode`" in sentence(one.proposal)
        for one in plan(recording, verdicts).steps
        if isinstance(one.proposal.advice, OneDtype)
    )


def test_a_function_that_is_new_is_not_blamed_for_another_structure(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnames="act")
    def stacked(blocks: Any, x: Any, act: Any) -> Any:
        for block in blocks:
            x = act(block * x)
        return x

    def act() -> Any:
        return lambda x: x + 1

    _, verdicts = judge_all(lambda: [stacked([ones] * n, ones, act=act()) for n in (1, 2)])
    (verdict,) = _again(verdicts, "stacked")
    assert isinstance(verdict.fix, ReuseObject) and verdict.fix.proof is Proof.MEANING
    assert ("blocks", "tree") in verdict.fix.others


@pytest.mark.parametrize("family", ["meta", "signature", "static"])
def test_a_plan_says_what_to_do_where_no_miss_does(family: str) -> None:
    change = Change(family, ("net.act",), ("loss",), seen=2, to_one=True)
    proposal = Proposal("few-values", (change,), None, "train.py", 4)
    assert sentence(proposal) != f"{title(proposal)}."
    assert "meant" in sentence(proposal)


def test_what_changed_beside_a_constant_is_named_where_the_constant_is_passed(
    judge_all: JudgeAll,
) -> None:
    @dataclass(frozen=True)
    class Config:
        name: str
        smooth: float

    @partial(jax.jit, static_argnames="config")
    def smoothed(x: Any, config: Config) -> Any:
        return (1 - config.smooth) * x + config.smooth / 7

    configs = [Config("base", 0.1), Config("base", 0.3), Config("later", 0.6)]
    recording, verdicts = judge_all(lambda: [smoothed(ones, config) for config in configs])
    fixes = [one.fix for one in _again(verdicts, "smoothed")]
    for fix in fixes:
        assert isinstance(fix, ToArgument)
        assert (fix.paths, fix.unread) == (("config.smooth",), ("config.name",))
    (step,) = plan(recording, verdicts).steps
    assert (step.sure, step.gone.calls.high) == ("ask", 2)
    assert "`config.name`" in sentence(step.proposal)


def test_what_decides_a_program_under_one_flag_is_told_from_what_does_not(
    judge_all: JudgeAll,
) -> None:
    class Spec:
        def __init__(self, act: str, label: str) -> None:
            self.act, self.label = act, label

    @partial(jax.jit, static_argnames=("spec", "mode"))
    def sampled(z: Any, spec: Spec, mode: str = "fast") -> Any:
        act = jnp.sin if mode == "slow" and spec.act == "sin" else jnp.tanh
        return act(z) if mode == "slow" else z * 2

    def program() -> None:
        for spec in (Spec("tanh", "a"), Spec("sin", "b"), Spec("tanh", "c")):
            sampled(ones, spec)
            sampled(ones, spec, "slow")

    _, verdicts = judge_all(program)
    named = [one.fix.paths for one in _again(verdicts, "sampled") if one.fix]
    assert ("spec.act",) in named
    assert not any({"spec.act", "spec.label"} <= {*paths} for paths in named)


def test_what_some_call_holds_as_an_array_is_no_static_argument(judge_all: JudgeAll) -> None:
    def made(scale: Any, noise: float) -> Any:
        @jax.jit
        def kernel(x: Any) -> Any:
            return jnp.exp(-((x / scale) ** 2)) + noise * jnp.eye(4)

        return kernel

    given = (1.0, 0.1), (0.5, 0.1), (0.5, 0.2), (np.array([1, 2, 3, 4], np.float32), 0.1)
    _, verdicts = judge_all(lambda: [made(*one)(ones) for one in given])
    fixes = [one.fix for one in _again(verdicts, "kernel")]
    assert any(isinstance(one, JitAndPass) and "scale" in one.traced for one in fixes)
    for fix in fixes:
        assert not isinstance(fix, JitAndPass) or "scale" not in fix.static
        assert not isinstance(fix, JitAndPass) or fix.sure == "ask"


def test_only_keys_are_told_to_be_created_one_way(judge_all: JudgeAll) -> None:
    drawn = jax.jit(lambda key, size: jax.random.normal(key, (4,)) * size)
    given = (jax.random.PRNGKey(0), np.float32(2)), (jax.random.key(0), ones)
    _, verdicts = judge_all(lambda: [drawn(*one) for one in given])
    fix = verdicts[-1].fix
    assert fix is not None
    assert fix.code == "one-key-type" and fix.paths == ("key",)
    assert ("size", "shape") in fix.others


def test_a_step_says_what_its_other_misses_are_told(judge_all: JudgeAll) -> None:
    @dataclass(frozen=True)
    class Config:
        rate: float = 0.5
        tag: str = "base"

    @partial(jax.jit, static_argnums=0)
    def scaled(config: Config, x: Any) -> Any:
        return config.rate * x

    configs = Config(), Config(rate=0.7), Config(tag="later")
    recording, verdicts = judge_all(lambda: [scaled(config, ones) for config in configs])
    (step,) = plan(recording, verdicts).steps
    assert len(step.misses) == 2
    said = sentence(step.proposal)
    assert "`config.rate`" in said and "`config.tag`" in said


def test_functions_and_optimizers_in_one_state_are_created_once_for_all_that_get_it(
    judge_all: JudgeAll,
) -> None:
    fitted = jax.jit(lambda state, g: state.tx.update(g, state.tx.init(g))[0])
    valued = jax.jit(lambda state, x: state.apply(x))

    def program() -> None:
        for rate in (0.25, 0.5, 0.75):
            state = _State(ones, optax.sgd(rate), lambda x: x * 2)
            fitted(state, ones)
            valued(state, ones)

    steps = plan(*judge_all(program)).steps
    assert [step.gone.calls.high for step in steps] == [4]


@partial(jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=["tx", "apply"])
@dataclass
class _State:
    params: Any
    tx: Any
    apply: Any


def test_what_one_pair_does_not_read_is_left_out_where_arrays_differ_in_others(
    judge_all: JudgeAll,
) -> None:
    @partial(jax.jit, static_argnames="user")
    def served(tokens: Any, user: str) -> Any:
        return (tokens * 2).sum()

    def program() -> None:
        for user, dtype in (("ann", np.int32), ("bob", np.int32), ("cem", np.uint8)):
            served(np.ones(4, dtype), user=user)

    recording, verdicts = judge_all(program)
    again = sorted(_again(verdicts, "served"), key=lambda one: one.miss.number)
    first, second = [one.fix for one in again]
    assert isinstance(first, LeaveOutValue) and first.paths == ("user",)
    assert first.proof is Proof.MEANING  # the third call's may be another program for `cem`
    assert isinstance(second, FewValues)
    left_out, *_ = [
        step for step in plan(recording, verdicts).steps if step.proposal.advice == first
    ]
    assert left_out.sure == "ask" and left_out.gone.calls == (1, 1)

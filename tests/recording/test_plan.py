"""The plan held to the truth: programs before and after the changes that it asks for.

Each program takes the names of the changes that were made to it, which are the causes that
they do away with. What the plan says is gone by each change alone, and left after all of them,
is counted in the changed program.
"""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import enum
import functools
import textwrap
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import flax.linen as nn  # pyright: ignore[reportMissingTypeStubs]
import jax
import jax.numpy as jnp
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest
from jax.experimental.ode import odeint

from retrace.capture.session import begin_file, session
from retrace.causes import Cause
from retrace.compare.work import Work
from retrace.model import Recording, Verdict
from retrace.model.advice import (
    BranchInProgram,
    JitAndPass,
    OneDtype,
    PadShape,
    PassDecision,
    ToArgument,
)
from retrace.plan import data
from retrace.plan.corners import Size, corner_of, power_of_two
from retrace.plan.order import plan
from retrace.plan.step import Plan, Step
from retrace.plan.warm import warmth
from retrace.present import plan_json
from retrace.present.plan_sizes import size_lines
from retrace.present.plan_titles import title, titles
from retrace.present.plan_words import sentence
from retrace.present.tally import Totals
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.store.reader import read
from tests.recording.conftest import JudgeAll

Fixed: TypeAlias = frozenset[str]
Program: TypeAlias = Callable[[Fixed], object]
Planned: TypeAlias = Callable[[Program, Fixed], tuple[Plan, int]]


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    """Run a program under recording: its plan, and how many of its outermost calls missed."""
    number = 0

    def run(program: Program, fixed: Fixed) -> tuple[Plan, int]:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        writer = begin_file(folder)
        try:
            program(fixed)
        finally:
            session().detach(writer)
        recording = read([folder])
        assert recording.runs[0].losses == {}
        verdicts = judge(recording)
        outermost = [v for v in verdicts if v.miss.parent is None]
        calls = sum(verdict.cause is not Cause.EAGER_OP for verdict in outermost)
        return plan(recording, verdicts), calls

    return run


def static_and_shape(fixed: Fixed) -> None:
    static = () if "static-argument-changed" in fixed else ("n",)
    f = jax.jit(lambda x, n: (x * n).sum(), static_argnames=static)
    for n in (1.5, 2.5, 3.5):
        for size in (40, 80, 120, 160):
            f(ones(160 if "shape-changed" in fixed else size), n=n)


def steered(fixed: Fixed) -> None:
    @functools.partial(jax.jit, static_argnames="epoch")
    def step(x: Any, epoch: int) -> Any:
        return x * 2 if epoch < 3 else jnp.sin(x)

    for epoch in range(6):
        step(ones(3), epoch=epoch // 3 * 3 if fixed else epoch)


def flag(fixed: Fixed) -> None:
    @functools.partial(jax.jit, static_argnames="train")
    def model(x: Any, train: bool) -> Any:
        return jnp.where(x > 0.5, x, 0) if train else x

    for _ in range(2):
        model(ones(3), train=True)
        model(ones(3), train=bool(fixed))


def lambda_and_shape(fixed: Fixed) -> None:
    # Neither change alone takes anything away.
    kept = jax.jit(lambda v: v.sum() * 2)
    for size in (4, 8, 16):
        f = kept if fixed else jax.jit(lambda v: v.sum() * 2)
        f(ones(16 if fixed else size))


def layers(fixed: Fixed) -> None:
    def make(n: int) -> Any:
        @jax.jit
        def net(x: Any) -> Any:
            for _ in range(n):
                x = jnp.tanh(x) @ x
            return x

        return net

    made = functools.cache(make) if fixed else make
    for n in (1, 2, 1, 2):
        made(n)(ones(3, 3))


def rates(fixed: Fixed) -> None:
    shared = jax.jit(lambda w, rate: w - rate * jnp.sign(w))

    def make(rate: float) -> Any:
        @jax.jit
        def update(w: Any) -> Any:
            return w - rate * jnp.sign(w)

        return (lambda w: shared(w, rate)) if fixed else update

    for rate in (0.1, 0.2, 0.3, 0.4):
        make(rate)(ones(3))


def last_batch(fixed: Fixed) -> None:
    train = jax.jit(lambda w, x: w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w))
    evaluate = jax.jit(lambda w, x: jnp.mean((x @ w) ** 2))
    w = ones(5)
    for start in range(0, 96 if fixed else 100, 32):
        x = ones(100, 5)[start : start + 32]
        w = train(w, x)
        evaluate(w, x)


def carry_and_dtype(fixed: Fixed) -> None:
    step = jax.jit(lambda c, x: c + x.mean())
    c: Any = np.float32(0) if "weak-type-changed" in fixed else 0.0
    for index in range(4):
        half = index > 1 and "dtype-changed" not in fixed
        c = step(c, ones(3).astype(np.float16) if half else ones(3))


def cleared_and_shape(fixed: Fixed) -> None:
    f = jax.jit(lambda x: x + 1)
    for _ in range(3):
        f(ones(3) if "shape-changed" not in fixed else ones(30))
        f(ones(30))
        if "cache-cleared" not in fixed:
            jax.clear_caches()


def optional(fixed: Fixed) -> None:
    @jax.jit
    def loss(b: dict[str, Any]) -> Any:
        total = b["x"].sum()
        return total + b["m"].sum() if "m" in b else total

    for size in (8, 8) if "shape-changed" in fixed else (4, 8):
        whole = {"x": ones(size), "m": ones(size)}
        loss(whole if "tree-structure-changed" in fixed else {"x": ones(size)})
        loss(whole)


def passed(fixed: Fixed) -> None:
    f = jax.jit(lambda x, t=1.0: x * t)
    for _ in range(2):
        if fixed:
            f(ones(3), 1.0)
            continue
        f(ones(3))
        f(ones(3), 1.0)
        f(ones(3), t=1.0)


def precision(fixed: Fixed) -> None:
    f, g = jax.jit(lambda x: x @ x), jax.jit(lambda x: (x @ x).sum())
    for setting in (None, None if fixed else "highest"):
        with jax.default_matmul_precision(setting):
            f(ones(3, 3))
            g(ones(3, 3))


def rewrapped(fixed: Fixed) -> None:
    def loss(w: Any) -> Any:
        return (w**2).sum()

    kept = jax.jit(jax.vmap(jax.grad(loss)))
    for _ in range(3):
        (kept if fixed else jax.jit(jax.vmap(jax.grad(loss))))(ones(4, 3))


def backward(fixed: Fixed) -> None:
    loss = jax.jit(lambda w, x: jnp.mean((x @ w) ** 2))
    for size in (6, 6) if fixed else (4, 6):
        jax.grad(loss)(ones(3), ones(size, 3))


def scanned(fixed: Fixed) -> None:
    def kept(c: Any, x: Any) -> Any:
        return c * 0.9 + x, c

    for _ in range(4):

        def body(c: Any, x: Any) -> Any:
            return c * 0.9 + x, c

        jax.lax.scan(kept if fixed else body, jnp.zeros(()), jnp.ones(5))


def sweep(fixed: Fixed) -> None:
    # `kind` steers, `alpha` is a number of the program; in the third round both change.
    def loss(x: Any, alpha: float, kind: str) -> Any:
        return (abs(x) if kind == "l1" else x**2).sum() * alpha

    kept = jax.jit(loss, static_argnames="kind")
    for alpha in (0.1, 0.2, 0.3):
        for kind in ("l1", "l2"):
            if fixed:
                kept(ones(3), alpha=alpha, kind=kind)
            else:
                jax.jit(functools.partial(loss, alpha=alpha, kind=kind))(ones(3))


def number_of_two_types(fixed: Fixed) -> None:
    kept = jax.jit(lambda x, rate: x * rate)
    for rate in (1, 0.5, 0.25):
        if fixed:
            kept(ones(3), float(rate))
        else:
            jax.jit(lambda x: x * rate)(ones(3))


def labelled(fixed: Fixed) -> None:
    static = ("mode",) if fixed else ("mode", "label")
    f = jax.jit(
        lambda x, mode, label=None: x.sum() if mode == "sum" else x.max(), static_argnames=static
    )
    for epoch in range(3):
        for mode in ("sum", "max"):
            f(ones(3), mode=mode, **({} if fixed else {"label": f"epoch {epoch}"}))


def searched(fixed: Fixed) -> None:
    # One object and one state go through three functions: each is one change.
    class Search:
        def __init__(self, width: int) -> None:
            self.width = width

        @functools.partial(jax.jit, static_argnums=0)
        def begin(self, key: Any) -> Any:
            return jax.random.normal(key, (self.width,))

        @functools.partial(jax.jit, static_argnums=0)
        def ask(self, state: Any) -> Any:
            return jnp.full((self.width,), state["best"]) * state["scale"]

        @functools.partial(jax.jit, static_argnums=0)
        def tell(self, x: Any, state: Any) -> Any:
            return {
                "best": jnp.maximum(x.max(), state["best"]).astype(np.float32),
                "scale": (state["scale"] * 0.9).astype(np.float32),
            }

    number = np.float32 if "weak-type-changed" in fixed else float
    kept = Search(3)
    for seed in range(3):
        search = kept if STATIC in fixed else Search(3)
        search.begin(jax.random.key(seed))
        state: Any = {"best": number(0.0), "scale": number(1.0)}
        for _round in range(3):
            state = search.tell(search.ask(state), state)


SHAPE, STATIC, TREE = "shape-changed", "static-argument-changed", "tree-structure-changed"
PAIRS: list[tuple[Program, list[set[str]]]] = [
    (static_and_shape, [{STATIC}, {SHAPE}]),
    (steered, [{STATIC}]),
    (flag, [{STATIC}]),
    (lambda_and_shape, [{SHAPE}]),
    (layers, [{"function-redefined"}]),
    (rates, [{"function-redefined"}]),
    (last_batch, [{SHAPE}]),
    (carry_and_dtype, [{"weak-type-changed"}, {"dtype-changed"}]),
    (cleared_and_shape, [{"cache-cleared"}, {SHAPE}]),
    (optional, [{TREE}, {SHAPE}]),
    (passed, [{"call-signature-changed"}]),
    (precision, [{"config-changed"}]),
    (rewrapped, [{"transform-recreated"}]),
    (backward, [{SHAPE}]),
    (scanned, [{"control-flow-recreated"}]),
    (sweep, [{"partial-recreated"}]),
    (number_of_two_types, [{"lambda-recreated"}]),
    (searched, [{STATIC}, {"weak-type-changed"}]),
]


@pytest.mark.drawn
@pytest.mark.parametrize(("program", "changes"), PAIRS, ids=lambda value: _name(value))
def test_what_is_left_is_what_the_changed_program_compiles(
    program: Program, changes: list[set[str]], planned: Planned
) -> None:
    found, calls = planned(program, frozenset())
    assert (found.now.calls.low, found.now.calls.high) == (calls, calls)
    steps = [step for step in found.steps if step.gone.calls.high]
    assert len(steps) == len(changes)
    _, left = planned(program, frozenset().union(*changes))
    last = steps[-1].left.calls
    assert last.is_exact and last.low - _extra(found) <= left <= last.high
    for change in changes:
        (step,) = [s for s in steps if change & {cause.value for cause in s.causes}]
        _, alone = planned(program, frozenset(change))
        gone, more = calls - alone, step.proposal.sizes
        k = 1 if more is None else len(more.chosen.sizes)
        # The changed program has one size, the plan perhaps a few.
        assert gone == step.alone.calls.low if k == 1 else gone >= step.alone.calls.low
        assert step.alone.calls.is_exact


def _extra(found: Plan) -> int:
    sizes = [step.proposal.sizes for step in found.steps]
    return sum(len(one.chosen.sizes) - 1 for one in sizes if one is not None)


def _name(value: object) -> str:
    return getattr(value, "__name__", "")


def test_a_value_that_nothing_reads_is_told_whatever_else_varies(planned: Planned) -> None:
    found, calls = planned(labelled, frozenset())
    # By its code: the order is by seconds, which a loaded machine shuffles.
    (first,) = [step for step in found.steps if step.proposal.code == "leave-out"]
    assert first.sure == "clear"
    # What is left after it depends on that order as well.
    left = calls - first.alone.calls.high
    assert left == calls - first.alone.calls.low == planned(labelled, frozenset({"label"}))[1]


def test_what_is_left_out_of_a_key_passes_no_other_value_of_it(planned: Planned) -> None:
    class Config(NamedTuple):
        rate: float
        label: str

    def program(fixed: Fixed) -> None:
        step = jax.jit(lambda x, c: x * c.rate, static_argnames="c")
        for number in range(4):
            step(ones(3), c=Config(0.5, "" if fixed else f"run {number}"))
        for number in range(4):
            step(ones(3), c=Config(0.1 * number, ""))

    found, calls = planned(program, frozenset())
    [step] = found.steps
    assert (calls, step.proposal.code) == (8, "leave-out")
    assert step.left.calls.low <= planned(program, frozenset({"label"}))[1] == 5
    assert step.left.calls.high == 5


def test_an_optimizer_that_a_function_closes_over_keeps_its_numbers_in_its_state(
    planned: Planned,
) -> None:
    def program(fixed: Fixed) -> None:
        def rounds(rate: float) -> Any:
            return optax.sgd(rate)

        shared = optax.inject_hyperparams(optax.sgd)(learning_rate=1.0)

        @jax.jit
        def kept(w: Any, state: Any, decay: Any) -> Any:
            return optax.apply_updates(w, shared.update(w * decay, state, w)[0])

        for rate in (0.1, 0.01):
            for decay in (1.0, 5.0):
                if fixed:
                    state: Any = shared.init(ones(3))
                    state.hyperparams["learning_rate"] = np.float32(rate)
                    kept(ones(3), state, decay)
                    continue
                opt = rounds(rate)
                state = opt.init(ones(3))

                @jax.jit
                def step(w: Any, state: Any) -> Any:
                    return optax.apply_updates(w, opt.update(w * decay, state, w)[0])

                step(ones(3), state)

    found, _ = planned(program, frozenset())
    (step,) = [step for step in found.steps if step.gone.calls.high]
    advice = step.proposal.advice
    assert isinstance(advice, JitAndPass)
    assert (advice.inject, advice.traced, advice.static) == (("opt",), ("decay",), ())
    assert step.left.calls.low == planned(program, frozenset({"fixed"}))[1]


def test_a_size_for_each_line_is_asked_and_not_told(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        forward = jax.jit(lambda x: x.sum())
        for _epoch in range(2):
            forward(ones(32, 3))
            forward(ones(128, 3))

    (step,) = planned(program, frozenset())[0].steps
    assert step.sure == "ask"


def test_what_has_the_shape_of_weights_is_asked_and_not_told(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        predict = jax.jit(lambda w, x: x @ w)
        attend = jax.jit(lambda q, k: q @ k.T)
        for size in (15, 24, 40):
            predict(ones(4, size), ones(8, 4))
            attend(ones(4, 8), ones(size + 1, 8))

    steps = planned(program, frozenset())[0].steps
    assert {step.proposal.changes[0].paths: step.sure for step in steps} == {
        ("w",): "ask",
        ("k",): "likely",
    }


def test_the_covariance_of_another_dimension_is_asked_and_padded_on_both_axes(
    planned: Planned,
) -> None:
    def program(_: Fixed) -> None:
        @jax.jit
        def step(mean: Any, cov: Any, y: Any) -> Any:
            gain = jnp.linalg.solve(cov + jnp.eye(mean.size), cov)
            return mean + gain @ (y - mean), cov - gain @ cov

        for n in (2, 4, 6):
            step(ones(n), np.eye(n, dtype=np.float32), ones(n))

    (step,) = planned(program, frozenset())[0].steps
    sizes = step.proposal.sizes
    assert sizes is not None
    assert (step.sure, sizes.meant) == ("ask", "square")
    said = sentence(step.proposal)
    assert "dimension" in said and "leave it" in said and "`lu`" in said
    assert "`cov axes 0 and 1`, `mean axis 0` and `y axis 0` to 6" in said
    told = "\n".join(size_lines(1, step, 98))
    assert "`cov` (`axes = (0, 1)`) or `mean` and 1 more array with its size" in told
    assert pasted(told, np.eye(4), axes=(0, 1)).shape == (6, 6)
    assert pasted(told, np.ones((4, 3)), axes=(0,)).shape == (6, 3)


def pasted(told: str, x: Any, **names: Any) -> Any:
    """The array after the code that a plan gives to be pasted."""
    lines = [line for line in told.splitlines() if line.startswith(" " * 8)]
    own: dict[str, Any] = {"np": np, "x": x, **names}
    exec(textwrap.dedent("\n".join([one for one in lines if " = " in one])), own)
    return own["x"]


def test_each_array_is_padded_on_the_axis_where_it_has_the_size(planned: Planned) -> None:
    @jax.jit
    def score(pos: Any, tokens: Any) -> Any:
        return jnp.tanh(tokens.sum(axis=1)).mean() / pos.sum()

    def program(_: Fixed) -> None:
        for n in (4, 8, 10, 12):
            score(ones(n), ones(3, n))

    (step,) = planned(program, frozenset())[0].steps
    told = "\n".join(size_lines(1, step, 98))
    assert pasted(told, ones(3, 10), axes=(1,)).shape == (3, 12)
    assert pasted(told, ones(10), axes=(0,)).shape == (12,)
    assert "`pos` (`axes = (0,)`) or `tokens` (`axes = (1,)`)" in told


def test_the_mask_between_tokens_is_no_covariance(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda ids, mask: (mask * ids).sum(-1))
        for n in (9, 12, 15):
            f(np.ones(n, np.int32), ones(n, n))

    (step,) = planned(program, frozenset())[0].steps
    assert step.proposal.sizes is not None and step.proposal.sizes.meant == ""
    assert step.sure == "likely"


@pytest.mark.parametrize(
    ("times", "texts", "saved"), [(1, True, 0), (3, True, 4), (1, False, 2), (3, False, 5)]
)
def test_around_a_loop_each_function_that_its_body_holds_is_a_program(
    planned: Planned, times: int, texts: bool, saved: int
) -> None:
    """Jitted once for each of them, nothing is saved if each comes once.

    One in which only numbers differ is created inside, so that one program serves all.
    """

    def scale(rate: float) -> Any:
        name = f"rate {rate}" if texts else "rate"
        return lambda x: rate * x if name else x

    def run(f: Any, x: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            return f(carry), None

        return jax.lax.scan(body, x, length=3)[0]

    def program(_: Fixed) -> None:
        for f in map(scale, (0.5, 0.25, 0.125) if times == 1 else (0.5, 0.25)):
            for _repeat in range(times):
                run(f, ones(3))

    found, _ = planned(program, frozenset())
    bodies = [one for one in found.steps if one.proposal.changes[0].family == "bodies"]
    assert sum(step.gone.calls.high for step in bodies) == saved
    # The jitted function of each compiles itself once more.
    assert sum(step.gone.calls.low for step in bodies) == max(0, saved - (2 if texts else 1))


@pytest.mark.parametrize("scans", [False, True])
def test_rows_that_a_loop_goes_over_are_asked_for(judge_all: JudgeAll, scans: bool) -> None:
    """A step more changes the carry; a row more of a sum can be masked."""

    def program() -> None:
        f = jax.jit(
            lambda xs: (
                jax.lax.scan(lambda c, x: (c * 0.9 + x, None), xs[0] * 0, xs)[0]
                if scans
                else jnp.tanh(xs).sum(0)
            )
        )
        for n in (9, 12, 17):
            f(ones(n, 3))

    verdicts = judge_all(program)[1]
    for verdict in verdicts[1:]:
        if verdict.cause is not Cause.SHAPE_CHANGED:
            continue
        assert isinstance(verdict.fix, PadShape)
        assert ("scan" in verdict.fix.ordered) == scans == (verdict.fix.sure == "ask")


def test_what_an_update_calls_inside_has_the_sizes_of_the_update(planned: Planned) -> None:
    """A loss that training calls inside its step, and evaluation by itself."""

    def program(fixed: Fixed) -> None:
        loss = jax.jit(lambda w, x: jnp.tanh(x @ w).sum())
        update = jax.jit(lambda w, x: w - jax.grad(loss)(w, x))
        for size in (16, 2):
            update(ones(3), ones(16 if "update" in fixed else size, 3))
        for size in (25, 12):
            loss(ones(3), ones(25 if "loss" in fixed else size, 3))

    found, calls = planned(program, frozenset())
    assert [step.gone.calls.low for step in found.steps] == [1, 1]
    sizes = [step.proposal.sizes for step in found.steps]
    assert {one.seen for one in sizes if one is not None} == {(2, 16), (12, 25)}
    _, left = planned(program, frozenset({"update", "loss"}))
    assert (left, found.steps[-1].left.calls.low) == (calls - 2, calls - 2)


def test_a_program_that_takes_the_last_of_what_grows_is_asked(planned: Planned) -> None:
    """That of one row has another form, and tells nothing of the others."""

    def program(_: Fixed) -> None:
        f = jax.jit(lambda ids: jnp.tanh(ids * jax.lax.iota(float, ids.shape[1]))[:, -1])
        for n in range(1, 7):
            f(ones(2, n))

    (step,) = planned(program, frozenset())[0].steps
    assert step.proposal.sizes is not None and step.proposal.sizes.grows
    assert (step.sure, step.proposal.sizes.meant) == ("ask", "ordered")
    assert "although" in sentence(step.proposal)


def test_rows_of_which_the_programs_tell_nothing_are_asked_for(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda x: (jnp.sin(x) if x.shape[0] % 2 else jnp.cos(x * 2)).sum())
        for n in (9, 12, 17, 22):
            f(ones(n))

    (step,) = planned(program, frozenset())[0].steps
    assert step.proposal.sizes is not None
    assert (step.sure, step.proposal.sizes.meant) == ("ask", "unknown")
    assert "do not show" in sentence(step.proposal)


def test_a_series_beside_its_times_is_no_model(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        decay = jax.jit(lambda t, y: (y * jnp.exp(-t)).sum())
        for size in (10, 25, 40):  # what is the first axis of one is the last of the other
            decay(ones(size), ones(4, size))

    (step,) = planned(program, frozenset())[0].steps
    assert step.sure == "likely"


def test_objects_that_hold_the_same_are_one_whatever_else_varies(planned: Planned) -> None:
    def program(fixed: Fixed) -> None:
        ways = {"A": jnp.sin, "B": jnp.cos}
        f = jax.jit(lambda x, mode: ways[mode.name](x), static_argnames="mode")
        kept = enum.Enum("Mode", "A B")
        for size in (4, 6):
            modes = kept if "mode" in fixed else enum.Enum("Mode", "A B")
            for mode in modes:
                f(ones(6 if "size" in fixed else size), mode=mode)

    found, calls = planned(program, frozenset())
    (step,) = found.steps
    left = planned(program, frozenset({"mode", "size"}))[1]
    assert step.left.calls.low == found.floor.calls.low == left < calls


class Batch(NamedTuple):
    y: Any
    x: Any


def test_one_array_in_containers_of_several_types_is_one(planned: Planned) -> None:
    def program(fixed: Fixed) -> None:
        def loss(batch: Any) -> Any:
            x, y = (batch["x"], batch["y"]) if isinstance(batch, dict) else (batch[1], batch[0])
            return (x * y.sum()).sum()

        f = jax.jit(loss)
        for size in (5, 7, 6):
            size = 7 if "size" in fixed else size
            both = Batch(x=ones(size, 2), y=ones(size, 3))
            f(both)
            f(both if "tree" in fixed else tuple(both))
            f(both if "tree" in fixed else both._asdict())

    found, _ = planned(program, frozenset())
    size, tree = found.steps
    for step, fixed in ((size, "size"), (tree, "tree")):
        left = planned(program, frozenset({fixed}))[1]
        assert found.now.calls.minus(step.alone.calls).low == left
    assert tree.left.calls.low == 1


def test_what_one_step_may_leave_the_next_takes_away(planned: Planned) -> None:
    def program(fixed: Fixed) -> None:
        step = jax.jit(lambda w, e: w - (0.1 if e < 3 else 0.01) * w.mean(), static_argnums=1)
        for epoch in range(6):
            for size in (4, 2):
                stage = epoch // 3 * 3 if "epoch" in fixed else epoch
                step(ones(4 if "size" in fixed else size), stage)

    found, calls = planned(program, frozenset())
    left = found.steps[-1].left.calls
    assert 1 <= left.low <= planned(program, frozenset({"epoch", "size"}))[1] <= left.high
    assert left.high - left.low <= 1
    done = frozenset[str]()
    for step in found.steps:
        own = frozenset({"epoch" if step.proposal.sizes is None else "size"})
        alone = calls - planned(program, own)[1]
        assert step.alone.calls.low <= alone <= step.alone.calls.high
        gone = planned(program, done)[1] - planned(program, done | own)[1]
        assert step.gone.calls.low <= gone <= step.gone.calls.high
        done |= own


def test_what_jax_passes_to_a_backward_program_is_not_to_be_padded(
    judge_all: JudgeAll,
) -> None:
    """Its arrays are what the forward program computed, in lengths that nobody passed."""

    @jax.jit
    def loss(w: Any, x: Any) -> Any:
        return jnp.sum(jnp.sin(jnp.tanh(x @ w).reshape(-1)) ** 2)

    w = np.ones((4, 4), np.float32)

    def program() -> None:
        for size in (3, 5, 7, 9, 11):
            jax.grad(loss)(w, np.ones((size, 4), np.float32))

    recording, found = judge_all(program)
    derived = {v.miss.parent: v.miss.seconds for v in found if v.miss.derived == "backward"}
    spent = [v.miss.seconds + derived[v.miss.id] for v in found if v.miss.id in derived]
    (step,) = [step for step in plan(recording, found).steps if step.gone.calls.high]
    sizes = step.proposal.sizes
    assert sizes is not None and (sizes.names, sizes.follows) == (("x axis 0",), ())
    assert [one.primitive for one in sizes.along.masked] == ["reduce_sum"]
    assert sizes.program == pytest.approx(sorted(spent)[2])
    assert len(step.misses) == 2 * step.gone.calls.high == 2 * len({*step.misses} - {*derived})


def test_lines_to_which_the_same_sizes_come_are_one_step(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        for size in range(3, 9):
            x = jnp.asarray(ones(size))
            y = x * 2
            z = y[:, None] - y
            jnp.tanh(z)

    (step,) = planned(program, frozenset())[0].steps
    assert step.proposal.changes[0].family == "eager-sizes"
    assert step.proposal.changes[0].lines > 2


def test_sizes_that_come_to_a_library_too_are_one_step(planned: Planned) -> None:
    """A loop over data that grow: what a library runs on them is as much of it."""

    def program(_: Fixed) -> None:
        for size in range(53, 59):  # no other test has these
            x = jnp.asarray(ones(size)) * 2
            optax.l2_loss(x)
            optax.l2_loss(jnp.asarray(ones(2)))

    (step,) = planned(program, frozenset())[0].steps
    (change,) = step.proposal.changes
    assert (change.family, change.lines) == ("eager-sizes", 2)
    # Seen for certain is what the user's own line has.
    assert 5 <= step.gone.eager.low <= 10
    assert step.gone.eager.high >= 15


def test_lines_of_different_sizes_are_steps_of_their_own(planned: Planned) -> None:
    """A slice gets its sizes as parameters, while its array stays as it is."""

    def program(_: Fixed) -> None:
        for size in (61, 67, 71, 79, 73):
            jnp.tanh(jnp.asarray(ones(size)))
        x = jnp.asarray(ones(83))
        for size in range(4, 9):
            jax.lax.slice(x, (0,), (size,))

    steps = planned(program, frozenset())[0].steps
    changes = [change for step in steps for change in step.proposal.changes]
    assert [(change.family, change.lines) for change in changes] == 2 * [("eager-sizes", 1)]
    for step, told in zip(steps, titles(steps), strict=True):
        assert told.endswith(f" line {step.proposal.line}") and "this" not in told


def test_a_slice_to_each_size_and_what_runs_on_it_are_one_step(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        x = jnp.asarray(ones(83))
        for size in range(14, 19):
            part = jax.lax.slice(x, (0,), (size,))
            jnp.tanh(part)

    (step,) = planned(program, frozenset())[0].steps
    (change,) = step.proposal.changes
    assert (change.family, change.lines) == ("eager-sizes", 2)


def test_a_library_that_gets_other_sizes_is_no_part_of_the_step(planned: Planned) -> None:
    """Some sizes occur on both lines, but the arrays are different ones."""

    def program(_: Fixed) -> None:
        for size in (61, 62, 64, 66, 68):
            jnp.cosh(jnp.asarray(ones(size)))
        for size in (61, 63, 64, 65, 66, 67):
            optax.huber_loss(jnp.asarray(ones(size)))

    steps = planned(program, frozenset())[0].steps
    changes = [change for step in steps for change in step.proposal.changes]
    assert [one.lines for one in changes if one.family == "eager-sizes"] == [1]


def test_no_two_steps_have_one_title(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        def first(x: Any) -> Any:
            return x + 1

        def second(x: Any) -> Any:
            return x.sum()

        for f, sizes in ((first, (3, 4)), (second, (5, 7)), (lambda x: x * 2, (8, 9))):
            jitted = jax.jit(f)
            for size in sizes:
                jitted(ones(size))

    steps = planned(program, frozenset())[0].steps
    assert len({title(step.proposal) for step in steps}) == 1
    assert len(set(titles(steps))) == len(steps) == 3


def test_a_title_names_the_same_arguments_once(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda state: state["total"] * 2)
        f({"total": 0})
        f({"total": jnp.float32(1)})

    (step,) = planned(program, frozenset())[0].steps
    assert [change.family for change in step.proposal.changes] == ["dtype", "weak_type"]
    assert title(step.proposal).count("total") == 1


def test_sizes_that_were_chosen_are_asked_from_large_to_small_too(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda x: x.sum())
        for size in (16, 8, 4):
            f(ones(size))

    (step,) = planned(program, frozenset())[0].steps
    assert step.sure == "ask"


def test_a_step_is_advised_though_each_miss_was_told_of_something_else(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda c, x, k: c + (x * k).mean(), static_argnames="k")
        c: Any = 0.0
        for k in (1, 2):
            for size in (4, 8):
                c = f(c, ones(size), k=k)

    found, _ = planned(program, frozenset())
    (step,) = [s for s in found.steps if any("k" in c.paths for c in s.proposal.changes)]
    assert isinstance(step.proposal.advice, ToArgument)
    assert step.proposal.advice.paths == ("k",)


def test_one_choice_in_several_types_is_a_decision(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda x, train: x * 2 if train else x, static_argnames="train")
        for train in (True, np.bool_(True), 1, False):
            f(ones(3), train=train)

    found, calls = planned(program, frozenset())
    (step,) = found.steps
    # Old releases of JAX take True, np.True_ and 1 for one key.
    told = PassDecision if calls > 2 else BranchInProgram
    assert isinstance(step.proposal.advice, told)
    assert step.left.calls.low == (2 if calls > 2 else 1)


def test_all_dtypes_of_an_argument_are_told(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda x: x * 2)
        for dtype in (np.int32, np.float32, np.bool_):
            f(np.ones(3, dtype))

    def numbers(_: Fixed) -> None:
        f = jax.jit(lambda x: x * 2)
        for number in (True, 1, 1.0, np.float32(1)):
            f(number)

    for each in (program, numbers):
        first, *_rest = planned(each, frozenset())[0].steps
        assert isinstance(first.proposal.advice, OneDtype)
        assert set(first.proposal.advice.dtypes) == {"int32", "float32", "bool"}


def test_a_loop_that_compiles_again_for_its_body_is_counted(planned: Planned) -> None:
    def program(fixed: Fixed) -> None:
        def update(_: Any, state: Any) -> Any:
            return {"x": state["x"] * 2, "most": jnp.maximum(state["x"].max(), state["most"])}

        body = jax.jit(update)
        state: Any = {"x": ones(3), "most": np.float32(0.0) if fixed else 0.0}
        for _round in range(3):
            state = jax.lax.fori_loop(0, 4, body, state)

    found, _ = planned(program, frozenset())
    again, _ = planned(program, frozenset({"weak-type-changed"}))
    (step,) = [one for one in found.steps if Cause.WEAK_TYPE_CHANGED in one.causes]
    assert step.gone.eager.low == found.now.eager.low - again.now.eager.low > 0
    assert step.sure == "clear"
    assert [change.paths for change in step.proposal.changes] == [("state['most']",)]


def test_what_is_made_of_a_body_that_is_defined_again_goes_with_it(planned: Planned) -> None:
    """`odeint` makes a function of its body: a static argument of what it runs, and the cost."""

    def program(fixed: Fixed) -> None:
        def solve(y: Any, times: Any, g: Any) -> Any:
            return odeint(lambda y, _: -g * y, y, times)

        run = jax.jit(solve) if fixed else solve
        for g in np.linspace(1, 2, 4, dtype=np.float32):
            run(ones(2), np.linspace(0, 1, 3, dtype=np.float32), g)

    found, _ = planned(program, frozenset())
    again, _ = planned(program, frozenset({"control-flow-recreated"}))
    (step,) = found.steps
    assert step.worth and step.sure == "ask"
    # An older JAX does not show the trace of the body, only what is made of it.
    assert step.proposal.changes[0].family in ("bodies", "eager")
    assert step.gone.seconds.high > 0.5 * (found.now.seconds.high - again.now.seconds.high) > 0
    assert found.floor.eager.high <= 4


def test_what_is_clearly_avoidable_is_told_in_calls_as_well(judge_all: JudgeAll) -> None:
    def program() -> None:
        f = jax.jit(lambda x, n: x * n, static_argnames="n")
        outer = jax.jit(lambda x, n: f(x, n=n).sum(), static_argnames="n")
        for number in (1.5, 2.5, 3.5):
            outer(ones(3), n=number)

    recording, verdicts = judge_all(program)
    totals = Totals()
    totals.add(View(recording, verdicts), verdicts)
    own = [v for v in verdicts if v.avoidable == "yes"]
    assert totals.avoidable == len(own) > totals.avoidable_calls
    assert totals.avoidable_calls == sum(v.miss.parent is None for v in own) > 0


def nested_twice(_: Fixed) -> None:
    inner = jax.jit(jnp.tanh)
    outer = jax.jit(lambda x: inner(x).sum() + inner(x).max())
    outer(ones(3))
    outer(ones(3))


def plain_and_gradient(_: Fixed) -> None:
    def loss(w: Any) -> Any:
        return (w**2).sum()

    f, g = jax.jit(loss), jax.jit(jax.grad(loss))
    for _round in range(2):
        f(ones(3))
        g(ones(3))


def ahead_of_time(_: Fixed) -> None:
    serve = jax.jit(lambda x: jnp.tanh(x) + 1)
    serve.lower(ones(3)).compile()
    serve(ones(3))


def layers_of_several_widths(_: Fixed) -> None:
    tx = optax.adam(0.01)

    @jax.jit
    def step(w: Any, state: Any, x: Any) -> Any:
        grads = jax.grad(lambda w: ((x @ w) ** 2).mean())(w)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(w, updates), state

    for width in (15, 24, 40):  # a lone matrix, and what an optimizer keeps of it
        w: Any = ones(4, width)
        state = tx.init(w)
        for _round in range(2):
            w, state = step(w, state, ones(8, 4))


def recurrent_layers_of_several_widths(_: Fixed) -> None:
    @jax.jit
    def run(p: Any, xs: Any) -> Any:
        def body(h: Any, x: Any) -> tuple[Any, None]:
            return jnp.tanh(h @ p["h"] + x @ p["x"] + p["b"]), None

        return jax.lax.scan(body, jnp.zeros((2, len(p["b"]))), xs)[0].sum()

    for width in (15, 24, 40):
        run({"h": ones(width, width), "x": ones(3, width), "b": ones(width)}, ones(5, 2, 3))


def initializer_that_a_library_wraps(_: Fixed) -> None:
    def zeros(_: Any, shape: tuple[int, ...]) -> Any:
        return jnp.zeros(shape)

    class Bias(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return x + self.param("bias", zeros, x.shape[1:])

    model, x = Bias(), jnp.ones((10, 5))
    parameters = model.init(jax.random.PRNGKey(0), x)
    for _round in range(3):
        model.apply(parameters, x)


def function_that_a_library_makes_at_each_call(_: Fixed) -> None:
    source = """
def fit(x):
    def update(x):
        return x * 2
    return jax.jit(update)(x)
"""
    names: dict[str, Any] = {"jax": jax}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec"), names)
    for _round in range(3):
        names["fit"](ones(5))


def eager_line_of_two_sizes(_: Fixed) -> None:
    for size in (11, 13):
        jnp.sum(np.float32(3) * jnp.cos(ones(size)))


def operations_of_what_drives_a_script(_: Fixed) -> None:
    operations = ("sin", "cos", "tanh", "exp", "floor", "ceil", "sign", "square", "abs", "sqrt")
    lines = [f"    jnp.{name}(x)" for name in (*operations, "cbrt", "log1p")]
    names: dict[str, Any] = {"jnp": jnp}
    exec("\n".join(["def main(x):", *lines]), names)
    names["main"](ones(17))


NOTHING_TO_CHANGE = (
    function_that_a_library_makes_at_each_call,
    operations_of_what_drives_a_script,
    eager_line_of_two_sizes,
    recurrent_layers_of_several_widths,
    nested_twice,
    plain_and_gradient,
    ahead_of_time,
    layers_of_several_widths,
    initializer_that_a_library_wraps,
)


@pytest.mark.parametrize("program", NOTHING_TO_CHANGE)
def test_programs_without_anything_to_change_have_no_step(
    program: Program, planned: Planned
) -> None:
    found, calls = planned(program, frozenset())
    assert found.steps == ()
    assert found.now.calls.low == found.floor.calls.low == calls


def test_one_length_behind_two_arguments_and_two_functions_is_told_once(
    planned: Planned,
) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda ids, mask: (ids * mask).sum())
        g = jax.jit(lambda x: x.max())
        for size in (5, 9, 17, 33, 40, 64, 70, 90):
            f(ones(2, size), ones(2, size))
            g(ones(size + 1)[1:])

    found, _ = planned(program, frozenset())
    (step,) = found.steps
    sizes = step.proposal.sizes
    assert sizes is not None
    assert {name.partition(" ")[0] for name in sizes.names} == {"ids", "mask", "x"}
    assert step.gone.calls.low == 2 * (8 - len(sizes.chosen.sizes))


def test_the_line_is_that_which_passes_what_is_to_be_padded(planned: Planned) -> None:
    """The smaller batch comes first: the call that misses again passes the full one."""

    def program(_: Fixed) -> None:
        f = jax.jit(lambda x: (x * 2).sum(axis=1))
        f(ones(62, 3))
        for size in (64, 64):
            f(ones(size, 3))

    found, _ = planned(program, frozenset())
    start = program.__code__.co_firstlineno
    (step,) = found.steps
    assert step.proposal.sizes is not None and step.proposal.sizes.chosen.sizes == (64,)
    assert step.proposal.line == start + 2


def test_what_grows_by_one_is_allocated_once(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda cache: (cache @ cache.T).sum())
        for size in range(1, 9):
            f(ones(size, 4))

    found, _ = planned(program, frozenset())
    (step,) = found.steps
    assert step.proposal.sizes is not None
    assert step.proposal.sizes.grows
    assert (step.left.calls.low, step.proposal.sizes.chosen.sizes) == (1, (8,))


def test_an_axis_that_another_one_decides_goes_with_it(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda x, blocks: x.sum() + blocks.sum())
        for size in (5, 9, 14, 17, 30, 33, 40, 64):
            f(ones(size), ones(-(-size // 16)))

    found, calls = planned(program, frozenset())
    (step,) = found.steps
    assert step.proposal.sizes is not None
    assert step.gone.calls.low == calls - len(step.proposal.sizes.chosen.sizes)


SHORTER_BATCHES = [(64, 16), (32, 32), (16, 64), (8, 128), (30, 32), (14, 64), (7, 128)]
NODES_AND_EDGES = [(12, 90), (31, 40), (18, 150), (25, 25), (38, 120), (15, 60), (22, 180)]


@pytest.mark.parametrize("sizes", [SHORTER_BATCHES, NODES_AND_EDGES])
@pytest.mark.parametrize("arrays", [1, 2])
def test_axes_of_which_some_pairs_occur_are_padded_together(
    sizes: list[tuple[int, int]], arrays: int, planned: Planned
) -> None:
    """A batch of few long texts or many short ones; the nodes and edges of a graph."""
    to: dict[tuple[int, int], tuple[int, int]] = {}

    def program(_: Fixed) -> None:
        f = jax.jit(lambda *given: sum(one.sum() for one in given))
        for size in sizes:
            a, b = to.get(size, size)
            f(*([ones(a, b)] if arrays == 1 else [ones(a), ones(b)]))

    found, calls = planned(program, frozenset())
    (step,) = found.steps
    pairs = step.proposal.pairs
    assert pairs is not None
    assert set(pairs.seen) in ({*sizes}, {(b, a) for a, b in sizes})
    turned = set(pairs.seen) != {*sizes}
    for a, b in sizes:
        size = corner_of((b, a) if turned else (a, b), pairs.chosen.sizes)
        to[a, b] = (size[1], size[0]) if turned else (size[0], size[1])
    _, left = planned(program, frozenset())
    assert left == len(pairs.chosen.sizes) == step.left.calls.low == step.left.calls.high < calls
    told = plan_json.to_json(found, None)["steps"][0]["fix"]["choices"]["powers_of_two"]
    assert {tuple(size) for size in told["sizes"]} == {
        tuple(power_of_two(own) for own in size) for size in pairs.seen
    }
    assert told["k"] == len(told["sizes"])


def test_a_combination_has_no_length_of_an_array_that_its_calls_leave_out(
    judge_all: JudgeAll,
) -> None:
    @jax.jit
    def decoded(token: Any, cache: Any = None) -> Any:
        return token.sum() if cache is None else token.sum() + jnp.tanh(cache).sum()

    def program() -> None:
        for length in (3, 4):
            decoded(ones(length, 2))
        for length in (3, 4, 5, 6):
            decoded(ones(1, 2), ones(length, 2))

    recording, verdicts = judge_all(program)
    found = [one.proposal.pairs for one in plan(recording, verdicts).steps if one.proposal.pairs]
    assert len(found) == 1
    seen = {(0, 3), (0, 4), (3, 1), (4, 1), (5, 1), (6, 1)}
    turned = found[0].axes[0].startswith("token")
    assert {(b, a) if turned else (a, b) for a, b in found[0].seen} == seen
    assert {(0 in size) for size in found[0].chosen.sizes} == {True, False}


def test_rows_of_the_data_weigh_what_is_padded_together(judge_all: JudgeAll) -> None:
    def program() -> None:
        f = jax.jit(lambda x, mask: (x.sum(-1) * mask).sum())
        for a, b in SHORTER_BATCHES:
            f(ones(a, b, 3), ones(a, b))

    recording, verdicts = judge_all(program)
    rows = [(64, 16)] * 50 + [(10, 100)] * 2 + [(4, 200)]
    columns = [data.Source(Path("rows.csv"), column) for column in zip(*rows, strict=True)]
    weighed = data.Data({"x axis 0": columns[0], "mask axis 1": columns[1]})
    (step,) = plan(recording, verdicts, weighed).steps
    pairs = step.proposal.pairs
    assert pairs is not None
    assert (pairs.data, pairs.beyond, weighed.unused()) == (53, 2, [])
    called = [*rows, *(size for size in SHORTER_BATCHES if size not in rows)]
    turned = pairs.axes[0].endswith("axis 1")
    called = [(b, a) if turned else (a, b) for a, b in called]
    real = sum(map(prod, called))
    for choice in pairs.curve:
        paid = sum(prod(corner_of(size, choice.sizes)) for size in called)
        assert choice.padding == pytest.approx(1 - real / paid)
    assert pairs.powers.padding == pytest.approx(
        1 - real / sum(prod(map(power_of_two, size)) for size in called)
    )
    told = plan_json.to_json(plan(recording, verdicts, weighed), None)["steps"][0]["fix"][
        "choices"
    ]
    assert (told["weighted_by"], told["beyond"]) == (53, 2)


@pytest.mark.drawn
def test_flops_of_a_corner_are_those_of_its_program(judge_all: JudgeAll) -> None:
    """Its program is compiled and counted, though no call was as long on both axes."""

    def attend(w: Any, x: Any) -> Any:
        y = x @ w
        return (jax.nn.softmax(y @ y.swapaxes(1, 2)) @ y).sum()

    def recorded(sizes: Sequence[Size]) -> tuple[Recording, list[Verdict]]:
        jax.clear_caches()
        f = jax.jit(attend)
        return judge_all(lambda: [f(ones(8, 8), ones(a, b, 8)) for a, b in sizes])

    sizes = [*SHORTER_BATCHES, (24, 20), (12, 80), (40, 21)]
    (step,) = plan(*recorded(sizes)).steps
    pairs = step.proposal.pairs
    assert pairs is not None
    rounded = [tuple(map(power_of_two, size)) for size in sizes]
    every = {*sizes, *rounded, *(size for choice in pairs.curve for size in choice.sizes)}
    recording, verdicts = recorded(sorted(every))
    work = Work(recording.listings)
    counted: dict[Size, float] = {}
    for verdict in verdicts:
        program = verdict.miss.program
        if (
            program is not None
            and verdict.miss.parent is None
            and verdict.miss.function.name == "attend"
        ):
            a, b, _ = verdict.miss.key.leaves[1].shape
            counted[int(a), int(b)] = work.of(recording.listings[program.listing or ""]) or 0.0
    assert counted.keys() == every
    real = sum(counted[size] for size in sizes)
    for choice in pairs.curve:
        paid = sum(counted[corner_of(size, choice.sizes)] for size in sizes)
        assert choice.flops == pytest.approx(1 - real / paid)
    assert pairs.powers.flops == pytest.approx(1 - real / sum(map(counted.__getitem__, rounded)))
    assert any(one not in sizes for choice in pairs.curve for one in choice.sizes)


def test_sizes_of_which_all_pairs_occur_are_chosen_axis_by_axis(planned: Planned) -> None:
    def program(_: Fixed) -> None:
        f = jax.jit(lambda x: x.sum())
        for a in (3, 5, 8):
            for b in (10, 17, 30):
                f(ones(a, b))

    found, _ = planned(program, frozenset())
    assert [step.proposal.pairs for step in found.steps] == [None, None]


def test_a_trace_inside_another_function_serves_no_call(planned: Planned) -> None:
    def program(fixed: Fixed) -> None:
        static = () if fixed else ("k",)
        inner = jax.jit(lambda x, k: x * k, static_argnames=static)
        outer = jax.jit(lambda x, k: inner(x, k=k).sum(), static_argnames=static)
        for k in (1.5, 2.5, 3.5):
            outer(ones(3), k=k)
        for k in (1.5, 2.5, 3.5):
            inner(ones(3), k=k)

    found, _ = planned(program, frozenset())
    _, left = planned(program, frozenset({STATIC}))
    assert (found.steps[-1].left.calls.low, left) == (2, 2)


def test_a_warm_up_lists_every_program_and_what_escaped_it(judge_all: JudgeAll) -> None:
    f = jax.jit(lambda x: x * 2)

    def program() -> None:
        for size in (8, 16, 32):
            f(ones(size))
        for size in (8, 40, 16):
            f(ones(size))

    found = warmth(judge_all(program)[1])
    assert [call.arguments for call in found.calls] == [
        f"jax.ShapeDtypeStruct(({size},), 'float32')" for size in (8, 16, 32, 40)
    ]
    (escaped,) = found.escaped
    assert (escaped.shapes, escaped.nearest) == ("x [40]", "[32]")


class Line(NamedTuple):
    slope: Any

    def __call__(self, x: Any) -> Any:
        return x * self.slope


class Wave(NamedTuple):
    slope: Any

    def __call__(self, x: Any) -> Any:
        return jnp.sin(x * self.slope)


def test_objects_of_two_classes_that_compute_something_else_are_no_step(
    planned: Planned, judge_all: JudgeAll
) -> None:
    """Each model has its own program: no structure suits both."""

    def program(_: Fixed) -> None:
        apply = jax.jit(lambda model, x: model(x))
        for model in (Line, Wave):
            for size in (3, 3):
                apply(model(ones(size)), ones(size))

    found, calls = planned(program, frozenset())
    assert (calls, found.steps) == (2, ())
    again = judge_all(lambda: program(frozenset()))[1][-1]
    assert again.cause is Cause.TREE_STRUCTURE_CHANGED
    assert (again.avoidable, again.fix) == ("no", None)


def test_a_structure_that_the_class_of_a_static_argument_decides_is_no_step(
    planned: Planned,
) -> None:
    """Two algorithms with states of their own: nobody makes these one structure."""

    class Both:
        def __eq__(self, other: object) -> bool:
            return type(other) is type(self)

        def __hash__(self) -> int:
            return hash(type(self))

    class Plain(Both):
        pass

    class Momentum(Both):
        pass

    step = jax.jit(lambda one, state: jax.tree.map(lambda x: x * 2, state), static_argnums=0)

    def about_structure(step: Step) -> bool:
        return any(change.family == "tree" for change in step.proposal.changes)

    def program(_: Fixed) -> None:
        for one, state in ((Plain(), (ones(3),)), (Momentum(), (ones(3), ones(3)))):
            for _again in range(2):
                step(one, state)

    found, calls = planned(program, frozenset())
    assert calls == 2
    assert not any(map(about_structure, found.steps))

    def mixed(_: Fixed) -> None:  # where one class has both, the structure is asked about
        for state in ((ones(3),), (ones(3), ones(3))):
            for one in (Plain(), Momentum()):
                step(one, state)

    jax.clear_caches()
    found, _ = planned(mixed, frozenset())
    assert any(map(about_structure, found.steps))


def test_a_number_of_axes_is_a_step_only_where_the_sizes_fit(judge_all: JudgeAll) -> None:
    @jax.jit
    def rows(x: Any) -> Any:
        return jnp.sin(jnp.atleast_2d(x))

    def program(*shapes: tuple[int, ...]) -> list[str]:
        found = plan(*judge_all(lambda: [rows(np.ones(s, np.float32)) for s in shapes]))
        return [change.family for step in found.steps for change in step.proposal.changes]

    assert program((2,), (300, 2)) == []
    assert program((7,), (1, 7)) == ["rank"]


def test_two_functions_over_two_structures_are_two_programs(judge_all: JudgeAll) -> None:
    """Nothing that is passed makes one of them."""

    @functools.partial(jax.jit, static_argnames="field")
    def solve(field: Any, y: Any) -> Any:
        return field(y)

    def program(one: Any, other: Any) -> None:
        solve(field=one, y=np.ones(3, np.float32))
        solve(field=other, y=(np.ones(3, np.float32),))

    def plain(y: Any) -> Any:
        return jnp.sin(y)

    def pair(y: Any) -> Any:
        return y[0] * 2 + jnp.cos(y[0])

    assert plan(*judge_all(lambda: program(plain, pair))).steps == ()


def test_a_container_with_static_data_of_its_own_can_be_one_container(
    judge_all: JudgeAll,
) -> None:
    """Its data changed with its type, and arrays came in another order."""

    class Frozen(dict[str, Any]):
        pass

    def flatten(one: Frozen) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        return tuple(one.values()), tuple(one.keys())

    def unflatten(names: tuple[str, ...], given: Any) -> Frozen:
        return Frozen(zip(names, given, strict=True))

    jax.tree_util.register_pytree_node(Frozen, flatten, unflatten)

    @jax.jit
    def step(nodes: Any) -> Any:
        return Frozen(mass=nodes["mass"] + 1, area=nodes["area"] * 2)

    def program() -> None:
        nodes: Any = {"mass": np.ones(3, np.float32), "area": np.ones(3, np.float32)}
        for _ in range(3):
            nodes = step(nodes)

    (one,) = plan(*judge_all(program)).steps
    assert {change.family for change in one.proposal.changes} == {"meta", "tree"}
    assert title(one.proposal) == "one structure for `nodes`"


def test_a_step_of_two_changes_stands_where_its_saving_is(judge_all: JudgeAll) -> None:
    """It is only found once no single change saves anything more."""

    @jax.jit
    def small(x: Any) -> Any:
        return x + 1

    def large() -> Any:
        @jax.jit
        def deep(x: Any) -> Any:
            for number in range(60):
                x = jnp.sin(x) @ jnp.cos(x.T) @ x * number
            return x

        return deep

    def program() -> None:
        for shape in ((7,), (1, 7)):
            small(np.ones(shape, np.float32))
        for size in (20, 30):
            large()(np.ones((size, 4), np.float32))

    steps = plan(*judge_all(program)).steps
    assert [len(step.proposal.changes) for step in steps] == [2, 1]
    assert steps[0].gone.seconds.low > steps[1].gone.seconds.high


@pytest.mark.parametrize("compiled", [False, True])
def test_what_was_only_traced_before_a_clear_is_compiled_in_any_case(
    planned: Planned, compiled: bool
) -> None:
    def program(_: Fixed) -> None:
        double = jax.jit(lambda x: x * 2)
        x = np.ones(3, np.float32)
        if compiled:
            double(x)
        else:
            jax.eval_shape(double, x)
        jax.clear_caches()
        double(x)

    found = planned(program, frozenset())[0]
    assert [step.proposal.code for step in found.steps] == ["keep-caches"] * compiled


def test_a_title_names_the_field_that_decides_not_the_whole_object(planned: Planned) -> None:
    class Config(NamedTuple):
        depth: int
        gain: float

    def deep(cfg: Config, x: Any) -> Any:
        for _ in range(cfg.depth):
            x = jnp.tanh(x)
        return x

    def program(_: Fixed) -> None:
        nested = jax.jit(deep, static_argnums=0)
        scaled = jax.jit(lambda cfg, x: cfg.gain * x, static_argnums=0)
        for depth, gain in ((1, 0.5), (2, 0.25), (3, 0.125)):
            scaled(Config(depth, gain), nested(Config(depth, gain), ones(3)))

    steps = planned(program, frozenset())[0].steps
    told = [title(step.proposal) for step in steps]
    assert len(told) == 2
    assert sum("cfg.depth" in one for one in told) == 1
    assert not any("`cfg`" in one for one in told)

"""What must not be told: whoever followed it got other results, an error, or as many misses.

Each is the smallest form of a program in which the advice was followed to the letter.
"""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx  # pyright: ignore[reportMissingTypeStubs]
import jax
import jax.numpy as jnp
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest
from jax.experimental import sparse

from retrace.causes import Cause
from retrace.model import Value, Verdict
from retrace.model.advice import (
    CompareByValue,
    DefineBodyOnce,
    FewSizes,
    JitAndPass,
    JitForEach,
    JitOnce,
    LeaveOutValue,
    OneKeyType,
    OneMesh,
    OneSharding,
    OneStructure,
    OneType,
    PadShape,
    PassDecision,
    PlaceFirst,
    Proof,
    ReuseObject,
    ToArgument,
    ToArray,
)
from retrace.plan.order import plan
from retrace.present.advice import advised
from retrace.present.group import Group
from retrace.present.message import fixes
from retrace.present.plan_titles import title
from retrace.present.plan_words import sentence
from retrace.reason.fields import is_complete
from retrace.reason.verdict import judge
from retrace.store.reader import read
from tests.process import retrace
from tests.recording.conftest import JudgeAll

ones = np.ones(4, np.float32)


def _of(verdicts: list[Verdict], name: str) -> list[Verdict]:
    return [one for one in verdicts if one.miss.function.name == name]


def test_a_trace_under_another_setting_is_another_program(judge_all: JudgeAll) -> None:
    """The call goes on from the trace inside `vmap`, not from the one that is nearest."""

    @jax.jit
    def product(a: Any, b: Any) -> Any:
        return a @ b

    square = np.ones((4, 4), np.float32)

    def program() -> None:
        jax.vmap(product)(square[None], square[None])
        with jax.default_matmul_precision("highest"):
            product(square, square)
        product(square, square)

    _, verdicts = judge_all(program)
    last = verdicts[-1]
    assert last.cause is Cause.CONFIG_CHANGED and last.miss.stages.keys() == {"lower", "compile"}
    assert last.program is not None and last.program.kind != "identical"
    assert last.fix is not None and last.fix.proof is Proof.MEANING


class Keyed(dict[str, int]):
    """Equal by contents, but JAX looks it up by its hash first."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


class KeyedTuple(tuple[int, ...]):
    __slots__ = ()
    __hash__ = object.__hash__


class Named(dict[str, int]):
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


@pytest.mark.parametrize("kind", [Keyed, KeyedTuple])
def test_a_container_with_a_hash_of_its_own_is_another_key(
    judge_all: JudgeAll, kind: type
) -> None:
    values = ([("p", 2)], (2,))[kind is KeyedTuple]
    kept: list[Any] = []

    @partial(jax.jit, static_argnums=1)
    def total(x: Any, power: Any) -> Any:
        return (x ** next(iter(power.values() if isinstance(power, dict) else power))).sum()

    def program() -> None:
        for size in (4, 8):
            for _ in range(3):
                kept.append(kind(values))
                total(np.ones(size, np.float32), kept[-1])

    recording, verdicts = judge_all(program)
    own = _of(verdicts, "total")
    if len(own) == 2:
        pytest.skip("this JAX, as 0.10, asks for no hash of them")
    assert len(own) == 6
    assert {one.cause for one in own[1:3]} == {Cause.STATIC_ARGUMENT_CHANGED}
    steps = {step.proposal.changes[0].family: step for step in plan(recording, own).steps}
    # Padded alone, each call would still pass another object.
    assert steps["shape"].alone.calls.high <= 1
    assert steps["static"].alone.calls.high == 4


def test_a_container_that_hashes_its_contents_is_one_key(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnums=1)
    def total(x: Any, power: Any) -> Any:
        return (x ** power["p"]).sum()

    _, verdicts = judge_all(lambda: [total(ones, Named(p=p)) for p in (2, 2, 3, 2)])
    _, again = _of(verdicts, "total")
    assert again.cause is Cause.STATIC_ARGUMENT_CHANGED
    assert {one.exact for one in again.changes if one.component == "static"} == {True}


class Evaluator:
    def __init__(self, start: Any, scale: float, name: str = "") -> None:
        self.start, self.scale, self.name = start, scale, name

    @partial(jax.jit, static_argnums=0)
    def predict(self, x: Any) -> Any:
        return self.scale * jnp.sin(x) + self.start


@pytest.mark.parametrize("array", [np.array, jnp.asarray])
def test_an_object_that_holds_arrays_has_no_equality_by_value(
    judge_all: JudgeAll, array: Callable[[Any], Any]
) -> None:
    start = array(ones)

    def program(scales: tuple[float, ...], names: str) -> None:
        for scale, name in zip(scales, names, strict=True):
            Evaluator(start, scale, name).predict(ones)

    _, verdicts = judge_all(lambda: program((1.0, 1.0), "aa"))
    (_, same) = _of(verdicts, "predict")
    assert isinstance(same.fix, CompareByValue)
    assert "__eq__" not in advised(same.fix)


def test_a_field_beside_arrays_is_left_out_of_an_equality_of_their_identities(
    judge_all: JudgeAll,
) -> None:
    _, verdicts = judge_all(
        lambda: [Evaluator(ones, 1.0, name).predict(ones) for name in ("a", "b")]
    )
    (_, other) = _of(verdicts, "predict")
    assert isinstance(other.fix, LeaveOutValue)
    assert other.fix.paths == ("self.name",)
    assert other.fix.arrays == ("self.start",)
    assert other.fix.proof is Proof.MEANING
    assert "`self.start` by identity" in advised(other.fix)


def test_a_number_beside_device_arrays_is_passed_and_the_object_kept(judge_all: JudgeAll) -> None:
    start = jnp.asarray(ones)
    _, verdicts = judge_all(
        lambda: [Evaluator(start, scale).predict(ones) for scale in (1.0, 2.0)]
    )
    (_, other) = _of(verdicts, "predict")
    assert isinstance(other.fix, ToArray)
    assert other.fix.paths == ("self.scale",)
    assert other.fix.kept == ("self",)


class Env:
    def __init__(self, arrays: Any = None) -> None:
        self.scale = 2.0
        self.arrays = arrays

    def reward(self, x: Any) -> Any:
        return x * self.scale if self.arrays is None else x * self.arrays


def test_an_object_or_function_that_is_new_each_time_keeps_no_function(
    judge_all: JudgeAll,
) -> None:
    def policy(weights: Any) -> Any:
        return lambda x: x @ weights

    def evaluate(env: Env, act: Any) -> None:
        jax.jit(jax.vmap(lambda x: env.reward(act(x))))(ones.reshape(2, 2))

    def program() -> None:
        for start in (1.0, 2.0, 3.0):
            evaluate(Env(), policy(jnp.full(2, start)))

    def called(env: Env) -> None:
        jax.jit(lambda x: env.reward(x))(ones[:2])

    def of_arrays() -> None:
        for start in (1.0, 2.0, 3.0):
            called(Env(jnp.full(2, start)))

    for run in (program, of_arrays):
        _, verdicts = judge_all(run)
        again = [one for one in verdicts if one.nearest and one.cause is not Cause.EAGER_OP]
        assert again
        for one in again:
            assert not isinstance(one.fix, JitForEach)
            assert isinstance(one.fix, JitAndPass)
            assert one.fix.reads
            assert one.fix.proof is Proof.MEANING


def test_one_advice_on_two_changes_is_told_once_in_a_title(judge_all: JudgeAll) -> None:
    class Options:
        def __init__(self, steps: int) -> None:
            self.steps = steps

    @partial(jax.jit, static_argnums=(2, 3))
    def rank(a: Any, x: Any, damping: float, options: Options) -> Any:
        a = a[0] if isinstance(a, tuple) else a
        for _ in range(options.steps):
            x = damping * (a @ x) + 1.0
        return x

    square = np.eye(4, dtype=np.float32)

    def program() -> None:
        for damping in (0.8, 0.85, 0.9):
            rank((square, square), ones, damping, Options(3))
        rank(square, ones, 0.85, Options(3))

    recording, verdicts = judge_all(program)
    steps = plan(recording, _of(verdicts, "rank")).steps
    titles = [title(step.proposal) for step in steps]
    assert sum("`damping`" in one for one in titles) == 1
    assert all(one.count("`damping`") <= 1 for one in titles)


def test_what_a_held_function_reads_is_not_passed_besides_it(judge_all: JudgeAll) -> None:
    def policy(weights: Any) -> Any:
        return lambda x: x @ weights

    def evaluate(env: Env, act: Any, x: Any) -> None:
        jax.jit(jax.vmap(lambda x: env.reward(act(x))))(x)

    def program() -> None:
        for rows in (2, 3):
            evaluate(Env(), policy(jnp.full(2, float(rows))), np.ones((rows, 2), np.float32))

    _, verdicts = judge_all(program)
    (again,) = [one for one in verdicts if one.cause is Cause.SHAPE_CHANGED and one.nearest]
    assert again.fix is not None and again.fix.remade is not None
    assert again.fix.calling == ("act",)
    assert not again.fix.reading and not again.fix.read_too


offsets = np.arange(4, dtype=np.float32)
optimizer: Any = None


def test_an_array_of_known_content_is_not_suspected(judge_all: JudgeAll) -> None:
    """The program is another one for what only an object of a library holds."""

    def program() -> None:
        global optimizer
        for rate in (1.0, 2.0):
            optimizer = optax.sgd(rate, momentum=0.9)

            @jax.jit
            def step(x: Any, state: Any) -> Any:
                return optimizer.update(x + offsets, state)

            step(ones, optimizer.init(ones))

    _, verdicts = judge_all(program)
    (_, again) = _of(verdicts, "step")
    assert isinstance(again.fix, JitOnce)
    assert again.fix.unknown == ("optimizer",)


@pytest.mark.parametrize("content", ["40f2ebf9e11a6cc1", None])
def test_an_array_that_was_too_large_to_be_read_may_be_another(content: str | None) -> None:
    data = {"array": "float32[200000]", "content": content}
    assert is_complete(Value("numpy.ndarray", "", None, False, data)) == (content is not None)


def test_operations_are_not_put_down_to_a_size_where_a_type_changed_too(
    judge_all: JudgeAll,
) -> None:
    step = jax.jit(lambda w, x, rate: w - rate * x.sum() * w)
    _, verdicts = judge_all(
        lambda: [step(ones, ones, 0.1), step(ones, ones[:3], np.float32(0.1))]
    )
    (_, again) = _of(verdicts, "<lambda>")
    assert again.program is not None and again.program.counts_differ
    assert isinstance(again.fix, PadShape)
    assert not again.fix.written and again.fix.proof is Proof.MEANING


def _ring(u: Any) -> Any:
    i = jnp.arange(u.shape[0])
    return u[i - 2] - 2 * u[i - 1] + u


def _set(u: Any) -> Any:
    return u.at[jnp.asarray([0, -1])].set(0.0) * 2


def _counted(u: Any) -> Any:
    return u[jnp.arange(u.shape[0])] * 2


@pytest.mark.parametrize(("function", "wraps"), [(_ring, True), (_set, True), (_counted, False)])
def test_added_rows_are_found_by_negative_indices(
    judge_all: JudgeAll, function: Callable[[Any], Any], wraps: bool
) -> None:
    jitted = jax.jit(function)
    data = [np.arange(size, dtype=np.float32) ** 2 for size in (6, 8, 10)]
    recording, verdicts = judge_all(lambda: [jitted(one) for one in data])
    (step,) = plan(recording, _of(verdicts, function.__name__)).steps
    padded = jitted(np.pad(data[0], (0, 4), mode="edge"))[:6]
    assert np.array_equal(padded, jitted(data[0])) != wraps
    assert step.proposal.sizes is not None
    assert step.sure == ("ask" if wraps else "likely")
    told = " ".join(sentence(step.proposal).split())
    assert ("unless an index at" in told) == wraps


def test_what_a_line_calls_through_another_function_picks_elements(judge_all: JudgeAll) -> None:
    dense = [np.diag(np.arange(size) % 3 > 0).astype(np.float32) for size in (5, 5, 5)]
    dense = [one * (np.arange(25).reshape(5, 5) % (2 + i) == 0) for i, one in enumerate(dense)]

    def program() -> None:
        for one in dense:
            sparse.BCOO.fromdense(one).data.block_until_ready()

    recording, verdicts = judge_all(program)
    steps = plan(recording, verdicts).steps
    fixes = [step.proposal.advice for step in steps if isinstance(step.proposal.advice, FewSizes)]
    (fix,) = [one for one in fixes if one.picks]
    assert fix.inside
    assert "nse=" in advised(fix)


_MOVED = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
evaluate = jax.jit(lambda p, x: ((x @ p) ** 2).mean())
x = np.ones((4, 6), np.float32)
p = jax.device_put(np.ones((6, 1), np.float32), NamedSharding(mesh, P()))
evaluate(p, x)
evaluate(p, jax.device_put(x, NamedSharding(mesh, P("data"))))
evaluate(jax.device_put(np.ones((6, 1), np.float32), jax.devices()[0]), x)
"""


def _recorded_on_four_devices(text: str, folder: Path) -> Path:
    script, out = folder / "program.py", folder / "recorded"
    script.write_text(text)
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = retrace("run", "-q", "--out", out, script, cwd=folder, **flags)
    assert done.returncode == 0, done.stderr
    return out


def test_what_was_moved_off_a_mesh_is_not_to_be_moved_before(tmp_path: Path) -> None:
    """Between its calls it is used with what lies on the mesh, where one device is an error."""
    out = _recorded_on_four_devices(_MOVED, tmp_path)
    _, later, moved = _of(judge(read([out])), "<lambda>")
    assert isinstance(later.fix, PlaceFirst)
    assert isinstance(moved.fix, OneSharding) and moved.fix.proof is Proof.MEANING


def test_an_array_that_begins_empty_grows_like_the_next_ones(judge_all: JudgeAll) -> None:
    @jax.jit
    def decode(cache: Any, row: Any) -> Any:
        return jnp.concatenate([cache, row * (1 + cache.sum())])

    def program() -> None:
        cache, row = np.zeros((0, 3), np.float32), np.ones((1, 3), np.float32)
        for _ in range(4):
            cache = np.asarray(decode(cache, row))

    _, verdicts = judge_all(program)
    _, begun, *grown = _of(verdicts, "decode")
    assert isinstance(begun.fix, PadShape)
    assert {one.fix for one in grown} == {begun.fix}


def _static(rate: float) -> Any:
    return partial(_rated, rate=rate)


def _held(rate: float) -> Any:
    return jax.jit(lambda x: jnp.tanh(x).sum() * rate / x.shape[0])


@partial(jax.jit, static_argnames="rate")
def _rated(x: Any, rate: float) -> Any:
    return jnp.tanh(x).sum() * rate / x.shape[0]


@pytest.mark.parametrize("rates", [(0.1, 0.05, 0.025), (0.1, 0.1, 0.1)])
@pytest.mark.parametrize("make", [_static, _held])
def test_another_number_beside_the_size_is_not_told_as_the_size(
    judge_all: JudgeAll, rates: tuple[float, ...], make: Callable[[float], Any]
) -> None:
    def program() -> None:
        for size, rate in zip((8, 12, 16), rates, strict=True):
            make(rate)(np.ones(size, np.float32))

    recording, verdicts = judge_all(program)
    own = [one for one in verdicts if one.miss.function.name in ("_rated", "<lambda>")]
    sized = [one for one in plan(recording, own).steps if one.proposal.sizes is not None]
    told = " ".join(" ".join(sentence(one.proposal).split()) for one in sized)
    assert ("the size itself" in told) == (len({*rates}) == 1)
    assert ("if it follows" in told) == (len({*rates}) > 1)


def test_a_function_created_again_is_kept_though_another_one_is_passed_once(
    judge_all: JudgeAll,
) -> None:
    def scale(a: Any, x: Any) -> Any:
        return a * x

    jitted = jax.jit(lambda f, x: f(x))

    def program() -> None:
        jitted(jax.tree_util.Partial(scale, 2.0), ones)
        for number in range(3):
            jitted(jax.tree_util.Partial(lambda s, x: s + x, float(number)), ones)

    recording, verdicts = judge_all(program)
    (own,) = {one.miss.function.name for one in verdicts if one.cause is not Cause.EAGER_OP}
    _, other, *again = _of(verdicts, own)
    assert other.avoidable == "maybe" and isinstance(other.fix, OneStructure)
    assert [one.avoidable for one in again] == ["yes", "yes"]
    assert all(isinstance(one.fix, ReuseObject) for one in again)
    (step,) = plan(recording, _of(verdicts, own)).steps
    assert step.gone.calls.high == 2 and step.sure == "clear"
    assert title(step.proposal).startswith("create `f.func` once")
    group = Group(other)
    for one in (other, *again):
        group.add(one)
    first, second = fixes(group)
    assert "2 of the 3" in first + second and "1 of the 3" in first + second


@jax.tree_util.register_pytree_node_class
class Trained:
    def __init__(self, weights: Any, rate: Any) -> None:
        self.weights, self.rate = weights, rate

    def tree_flatten(self) -> tuple[tuple[Any], float]:
        return (self.weights,), self.rate

    @classmethod
    def tree_unflatten(cls, rate: float, children: tuple[Any]) -> Trained:
        return cls(*children, rate)


def test_a_number_that_results_carry_may_become_a_leaf_of_them_too(judge_all: JudgeAll) -> None:
    @jax.jit
    def train(state: Trained) -> Trained:
        return Trained(state.weights * state.rate, state.rate)

    _, verdicts = judge_all(lambda: [train(Trained(ones, rate)) for rate in (0.5, 0.25, 0.75)])
    _, *later = _of(verdicts, "train")
    for one in later:
        assert isinstance(one.fix, ToArray) and one.fix.carried
        assert one.fix.proof is Proof.MEANING
        assert "carry it" in advised(one.fix)


@pytest.mark.parametrize(
    "calls", [((5, 1.5), (6, 2.5), (6, 3.5)), ((5, 1.5), (5, 2.5), (6, 3.5))]
)
def test_a_size_that_changed_along_with_a_number_is_left_over(
    judge_all: JudgeAll, calls: tuple[tuple[int, float], ...]
) -> None:
    """Once the number is passed, only the size tells the two programs that remain apart."""
    step = jax.jit(lambda x, n: (x * n).sum(), static_argnames="n")
    traced: list[tuple[int, ...]] = []

    def run(function: Any) -> None:
        for size, n in calls:
            function(np.ones(size, np.float32), n=n)

    recording, verdicts = judge_all(lambda: run(step))
    first, second = plan(recording, _of(verdicts, "<lambda>")).steps
    assert isinstance(first.proposal.advice, ToArray | ToArgument)
    assert first.left.calls.low == first.left.calls.high == 2
    assert second.proposal.sizes is not None
    assert (second.left.calls.low, second.left.calls.high) == (1, 2)
    run(jax.jit(lambda x, n: (traced.append(x.shape), x * n)[1].sum()))
    assert sorted(traced) == [(5,), (6,)]


def test_an_object_that_is_equal_under_another_hash_is_another_key(judge_all: JudgeAll) -> None:
    @dataclass
    class Config:
        limit: float = 0.2
        __hash__ = object.__hash__

    jitted = jax.jit(lambda config, x: x * config.limit, static_argnums=0)
    kept = [Config() for _ in range(3)]
    _, verdicts = judge_all(lambda: [jitted(config, ones) for config in kept])
    found = _of(verdicts, "<lambda>")
    if len(found) == 1:
        pytest.skip("this JAX, as 0.10, asks for no hash of them")
    for one in found[1:]:
        assert one.cause is Cause.STATIC_ARGUMENT_CHANGED and one.avoidable == "yes"
        assert isinstance(one.fix, CompareByValue)


def test_a_function_created_again_beside_its_default_is_one_step(judge_all: JudgeAll) -> None:
    @partial(jax.jit, static_argnames="reduce")
    def metric(x: Any, reduce: Any = jnp.mean) -> Any:
        return reduce(x)

    def program() -> None:
        metric(ones)
        for _ in range(3):
            metric(ones, reduce=lambda x: jnp.max(x))

    recording, verdicts = judge_all(program)
    steps = plan(recording, _of(verdicts, "metric")).steps
    (step,) = [one for one in steps if isinstance(one.proposal.advice, ReuseObject)]
    assert step.gone.calls.low == step.gone.calls.high == 2


def test_one_truth_in_two_types_is_one_type(judge_all: JudgeAll) -> None:
    """`if` on what is no longer static raises, though the program is the same."""
    jitted = jax.jit(lambda x, flag: x if flag else -x, static_argnums=1)
    _, verdicts = judge_all(lambda: [jitted(ones, flag) for flag in (True, np.bool_(True))])
    *_, later = _of(verdicts, "<lambda>")
    assert isinstance(later.fix, OneType) and later.fix.type == "bool"


def test_a_raw_key_in_place_of_a_typed_one_is_one_step(judge_all: JudgeAll) -> None:
    draw = jax.jit(lambda key: jax.random.normal(key, (3,)))
    keys = (jax.random.key(1), jax.random.PRNGKey(1))
    recording, verdicts = judge_all(lambda: [draw(key) for key in keys])
    assert np.array_equal(*map(draw, keys))
    (step,) = plan(recording, _of(verdicts, "<lambda>")).steps
    assert isinstance(step.proposal.advice, OneKeyType) and not step.proposal.advice.others
    assert step.gone.calls.low == 1


def test_an_array_that_some_calls_omit_and_others_give_as_none_is_one_step(
    judge_all: JudgeAll,
) -> None:
    @jax.jit
    def total(x: Any, mask: Any = None) -> Any:
        return (x if mask is None else x * mask).sum()

    def program() -> None:
        total(ones, mask=None)
        total(ones, mask=ones)
        total(ones)

    recording, verdicts = judge_all(program)
    (step,) = plan(recording, _of(verdicts, "total")).steps
    assert step.sure == "ask" and step.gone.calls.high == 2


def test_a_function_that_looks_the_same_is_not_blamed_beside_another_number(
    judge_all: JudgeAll,
) -> None:
    def make(k: float) -> Any:
        return jax.jit(lambda x, g: g(x) + k * 2.0, static_argnames="g")

    def program() -> None:
        for k in (1.0, 2.0):
            make(k)(ones, g=lambda v: v * 2)

    _, verdicts = judge_all(program)
    *_, later = _of(verdicts, "<lambda>")
    assert isinstance(later.fix, ReuseObject) and later.fix.proof is Proof.MEANING


def test_a_number_with_a_program_of_its_own_is_not_passed(judge_all: JudgeAll) -> None:
    step = jax.jit(lambda x, n: x * n if n < 3 else x.sum(), static_argnames="n")
    recording, verdicts = judge_all(lambda: [step(ones, n=n) for n in (1.5, 2.5, 5.0)])
    (passed, *_) = plan(recording, _of(verdicts, "<lambda>")).steps
    assert passed.gone.calls.low == passed.gone.calls.high == 1


_MESHES = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

@jax.jit
def predict(w, x):
    return w * x

x = np.ones(4, np.float32)
first, second = (Mesh(np.array(jax.devices()), name) for name in ("a", "b"))
on = [NamedSharding(mesh, P()) for mesh in (first, second)]
rows = jax.device_put(x, on[0])
predict(x, rows)
predict(jax.device_put(x, on[0]), rows)
predict(jax.device_put(x, on[1]), x)
predict(jax.device_put(x, on[1]), jax.device_put(x, on[1]))
"""


def test_what_was_placed_before_the_call_before_is_placed_at_every_call(
    judge_all: JudgeAll,
) -> None:
    double = jax.jit(lambda x: x * 2)
    half = np.ones(4, np.float16)
    device = jax.devices()[0]
    given = [jax.device_put(ones, device), half, jax.device_put(half, device)]
    _, verdicts = judge_all(lambda: [double(one) for one in given])
    by_number = sorted(_of(verdicts, "<lambda>"), key=lambda one: one.miss.number)
    fix = by_number[-1].fix
    assert isinstance(fix, PlaceFirst) and fix.always and not fix.split


_SPECS = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

@jax.jit
def predict(w, x):
    return w * x

x = np.ones(4, np.float32)
device = jax.devices()[1]
meshes = [Mesh(np.array(jax.devices()), name) for name in ("a", "b")]
for mesh, spec in zip(meshes, (P(), P("b"))):
    predict(jax.device_put(x, NamedSharding(mesh, spec)), x)
predict(x, x)
predict(x, jax.device_put(x, device))
"""


def test_an_array_is_not_placed_where_the_others_of_an_earlier_call_are_not(
    tmp_path: Path,
) -> None:
    out = _recorded_on_four_devices(_SPECS, tmp_path)
    _, mesh, away, moved = _of(judge(read([out])), "predict")
    assert isinstance(mesh.fix, OneMesh) and mesh.fix.specs
    # Of what is split, sums run in another order.
    assert mesh.fix.split and mesh.fix.sure == "ask"
    assert isinstance(away.fix, OneSharding)
    # The calls before have `w` on four devices: `x` on one of them would raise.
    assert isinstance(moved.fix, OneSharding) and moved.fix.paths == ("x",)
    assert moved.avoidable == "maybe"


def test_arrays_on_another_mesh_are_placed_on_one_from_the_first_call(tmp_path: Path) -> None:
    out = _recorded_on_four_devices(_MESHES, tmp_path)
    _, placed, other, back = [one.fix for one in _of(judge(read([out])), "predict")]
    assert isinstance(placed, OneMesh)
    assert isinstance(other, OneMesh)
    assert placed.paths == other.paths == ("w",)
    # It was placed on both meshes, so that no one place is where the others have it.
    assert isinstance(back, OneSharding)
    assert back.paths == ("x",)
    shown = retrace("show", "predict #3", out, cwd=tmp_path)
    assert "P()), committed -> uncommitted" in " ".join(shown.stdout.split())


def test_a_number_that_becomes_an_array_keeps_the_dtype_of_results(judge_all: JudgeAll) -> None:
    short = jnp.ones(3, jnp.bfloat16)
    rates = (0.1, 0.3, 0.7)

    @eqx.filter_jit
    def moved(x: Any, rate: Any) -> Any:
        return x - rate * x

    def program() -> list[Any]:
        return [moved(short, rate) for rate in rates]

    results: list[Any] = []
    _, verdicts = judge_all(lambda: results.extend(program()))
    again = [one for one in verdicts if one.nearest]
    assert len(again) == 2
    for verdict in again:
        assert isinstance(verdict.fix, ToArgument) and verdict.avoidable == "yes"
        assert verdict.fix.dtype == "bfloat16" and not verdict.fix.computed
    # To the letter, and with what `np.asarray` makes of a number, which decides otherwise.
    for rate, before in zip(rates, results, strict=True):
        after = moved(short, np.asarray(rate, jnp.bfloat16))
        assert after.dtype == before.dtype
        assert np.array_equal(after, before)
    assert moved(short, np.asarray(0.1)).dtype != results[0].dtype


def test_a_wrapper_that_takes_numbers_as_static_is_passed_an_array(judge_all: JudgeAll) -> None:
    def scaled(x: Any, rate: float) -> Any:
        return x * rate

    def program() -> None:
        for rate in (0.25, 0.5, 0.75):
            eqx.filter_jit(partial(scaled, rate=rate))(ones)

    _, verdicts = judge_all(program)
    found = [one.fix for one in verdicts if one.nearest]
    assert len(found) == 2
    for fix in found:
        assert isinstance(fix, JitAndPass) and fix.by_type and fix.dtype == "float32"


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.float16])
def test_a_number_of_more_digits_than_the_program_has_is_still_its_constant(
    judge_all: JudgeAll, dtype: Any
) -> None:
    scaled = jax.jit(lambda x, rate, name: x * rate if name else x, static_argnums=(1, 2))

    def program() -> None:
        for rate, name in ((1 / 3, 5), (1 / 7, 6), (1 / 9, 7)):
            scaled(np.ones(3, dtype), rate, name)

    _, verdicts = judge_all(program)
    found = [one.fix for one in verdicts if one.nearest]
    assert len(found) == 2
    for fix in found:
        assert isinstance(fix, ToArgument)
        assert fix.paths == ("rate",) and fix.unread == ("name",) and not fix.computed


class _Fitting:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def moved(self, x: Any, *, clip: float) -> Any:
        return x - self.rate * jnp.clip(x, -clip, clip)

    def loss(self, x: Any) -> Any:
        return (x**2).sum()


def test_a_partial_of_a_bound_method_is_kept_for_each_object(judge_all: JudgeAll) -> None:
    def program() -> None:
        for rate in (0.25, 0.5):
            fitting = _Fitting(rate)
            for clip in (1.0, 0.5, 0.25):
                jax.jit(partial(fitting.moved, clip=clip))(ones)
                jax.jit(fitting.loss)(ones)

    recording, verdicts = judge_all(program)
    moved = [one.fix for one in verdicts if one.nearest and one.miss.function.name == "moved"]
    assert len(moved) == 5
    for fix in moved:
        # The method itself, jitted once, would take the object as an argument.
        assert isinstance(fix, JitForEach)
        assert fix.paths == ("self",) and fix.traced == ("clip",)
    steps = {step.functions[0]: step for step in plan(recording, verdicts).steps}
    assert steps["moved"].gone.calls == (4, 4)
    assert steps["loss"].gone.calls == (4, 5)  # one object for both rates is more than said

    # To the letter: one jitted function for each object, with the number as an argument.
    followed: list[int] = []
    for rate in (0.25, 0.5):
        own = jax.jit(_Fitting(rate).moved)
        results = [own(ones, clip=clip) for clip in (1.0, 0.5, 0.25)]
        followed.append(own._cache_size())  # pyright: ignore[reportAttributeAccessIssue]
        plain = [jax.jit(partial(_Fitting(rate).moved, clip=c))(ones) for c in (1.0, 0.5, 0.25)]
        assert all(np.array_equal(a, b) for a, b in zip(results, plain, strict=True))
    assert followed == [1, 1]


def test_what_python_makes_of_a_number_and_a_text_is_passed_in_their_place(
    judge_all: JudgeAll,
) -> None:
    settings = ((0.5, "a"), (0.25, "b"), (0.75, "c"))
    kept = jax.jit(lambda cfg, x: (1 - cfg.rate) * x, static_argnums=0)

    def program() -> None:
        for rate, label in settings:
            kept(_Named(rate, label), ones)

    recording, verdicts = judge_all(program)
    again = [one for one in verdicts if one.nearest]
    assert len(again) == 2
    for verdict in again:
        assert isinstance(verdict.fix, ToArgument)
        assert verdict.fix.paths == ("cfg.rate", "cfg.label")
        assert verdict.fix.texts == ("cfg.label",)
        assert verdict.avoidable == "maybe"
    (step,) = plan(recording, verdicts).steps
    assert step.sure == "ask" and "cfg.label" in title(step.proposal)
    assert step.gone.calls == (2, 2)

    followed = jax.jit(lambda left, x: left * x)
    for rate, label in settings:
        plain = kept(_Named(rate, label), ones)
        assert np.array_equal(followed(1 - rate, ones), plain)
    assert followed._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(frozen=True)
class _Named:
    rate: float
    label: str


def test_a_flag_of_a_body_is_a_static_argument_of_the_function_around(
    judge_all: JudgeAll,
) -> None:
    def made(rate: float, ahead: bool) -> Callable[[Any, Any], Any]:
        return lambda carry, g: ((carry + rate * g if ahead else carry * rate), carry)

    def program() -> None:
        for rate, ahead in ((0.25, False), (0.5, True), (0.75, False)):
            jax.lax.scan(made(rate, ahead), ones, ones)

    _, verdicts = judge_all(program)
    told = [one.fix for one in verdicts if isinstance(one.fix, DefineBodyOnce)]
    assert told
    for fix in told:
        assert "ahead" not in fix.holds or fix.flags == ("ahead",)
    assert any(fix.flags for fix in told)


def test_whole_numbers_and_others_are_two_programs_of_one_argument(judge_all: JudgeAll) -> None:
    values = (0.5, 2, 2.5, 3, 4)
    weighed = jax.jit(lambda mask, w: (mask * w).sum(), static_argnums=1)
    mask = np.array([True, False, True])

    def program() -> None:
        for value in values:
            weighed(mask, value)

    recording, verdicts = judge_all(program)
    ordered = sorted(verdicts, key=lambda one: one.miss.number)
    again = [one for one in ordered if one.nearest]
    assert all(isinstance(one.fix, ToArgument) and one.fix.sure == "clear" for one in again)
    assert [one.avoidable for one in again] == ["no", "yes", "yes", "yes"]
    (step,) = plan(recording, verdicts).steps
    assert step.gone.calls == (3, 3)

    followed = jax.jit(lambda mask, w: (mask * w).sum())
    for value in values:
        plain, other = weighed(mask, value), followed(mask, value)
        assert (plain.dtype, plain.weak_type) == (other.dtype, other.weak_type)
        assert np.array_equal(plain, other)
    assert followed._cache_size() == 2  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(("dtype", "sure"), [(jnp.bfloat16, "ask"), (np.float32, "clear")])
def test_an_optimizer_of_16_bits_is_injected_only_on_a_question(
    judge_all: JudgeAll, dtype: Any, sure: str
) -> None:
    def program() -> None:
        for rate in (0.5, 0.25, 0.125):
            opt = optax.sgd(rate)

            def step(w: Any, opt: Any = opt) -> Any:
                return optax.apply_updates(w, opt.update(w, opt.init(w))[0])

            jax.jit(step)(np.ones(3, dtype))

    _, verdicts = judge_all(program)
    fixes = [one.fix for one in verdicts if one.nearest and isinstance(one.fix, JitAndPass)]
    assert [(one.inject, one.promotes, one.sure) for one in fixes] == [
        (("opt",), sure == "ask", sure)
    ] * 2


def test_what_a_library_computes_with_is_passed_only_on_a_question(judge_all: JudgeAll) -> None:
    def rate(count: Any, steps: int) -> Any:
        return optax.linear_schedule(1.0, 0.0, steps)(count)

    kept = jax.jit(rate, static_argnums=1)
    _, verdicts = judge_all(lambda: [kept(np.int32(3), steps) for steps in (10, 20, 40)])
    again = [one for one in verdicts if one.nearest]
    assert len(again) == 2
    for verdict in again:
        assert isinstance(verdict.fix, ToArgument)
        assert verdict.fix.sure == "ask" and verdict.avoidable == "maybe"
        assert "of optax" in advised(verdict.fix)
    # So it is where calls alternate between types, and their history tells.
    mixed = jax.jit(lambda x, by: optax.incremental_update(x, x, by), static_argnums=1)
    whole = np.arange(4, dtype=np.int32)
    _, verdicts = judge_all(lambda: [mixed(whole, by) for by in (0.5, 2, 0.25, 3)])
    own = [one.fix for one in _of(verdicts, "<lambda>") if one.nearest]
    assert len(own) == 3
    for fix in own:
        assert isinstance(fix, ToArgument) and fix.makers and fix.sure == "ask"
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(rate)(np.int32(3), 10)


def test_a_rule_that_takes_no_array_is_asked_about(judge_all: JudgeAll) -> None:
    clipped: Any = jax.custom_vjp(lambda x, most: x, nondiff_argnums=(1,))

    def back(most: float, _: None, g: Any) -> tuple[Any]:
        return (jnp.clip(g, -most, most),)

    clipped.defvjp(lambda x, most: (x, None), back)

    def slope(x: Any, most: float) -> Any:
        return jax.grad(lambda x: (clipped(x, most) ** 2).sum())(x)

    x = np.arange(4, dtype=np.float32)
    kept = jax.jit(slope, static_argnums=1)
    _, verdicts = judge_all(lambda: [kept(x, most) for most in (0.5, 1.0, 2.0)])
    fixes = [one.fix for one in _of(verdicts, "slope") if one.nearest]
    assert [(type(fix), fix and fix.sure) for fix in fixes] == [(ToArgument, "ask")] * 2
    assert fixes[0] is not None
    assert "`clipped`" in advised(fixes[0])
    with pytest.raises(jax.errors.UnexpectedTracerError):
        jax.jit(slope)(x, 0.5)


def test_numbers_of_two_types_in_tuples_are_told_to_be_of_one(judge_all: JudgeAll) -> None:
    def line(x: Any, w: Any) -> Any:
        return x * w[0] + w[1]

    values = ((0.5, 1.5), (2, 3), (2.5, 4.5), (3, 4))
    static = jax.jit(line, static_argnums=1)
    recording, verdicts = judge_all(lambda: [static(ones, w) for w in values])
    for fix in [one.fix for one in verdicts if one.nearest]:
        assert isinstance(fix, ToArgument) and fix.one_type
    (step,) = plan(recording, verdicts).steps
    assert step.gone.calls.high == 3

    followed, as_they_are = (jax.jit(lambda x, w: line(x, w)) for _ in range(2))
    for w in values:
        plain = static(ones, w)
        other = followed(ones, tuple(map(float, w)))
        assert plain.dtype == other.dtype and np.array_equal(plain, other)
        as_they_are(ones, w)
    assert followed._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]
    assert as_they_are._cache_size() == 2  # pyright: ignore[reportAttributeAccessIssue]


def test_powers_of_two_types_are_no_decision(judge_all: JudgeAll) -> None:
    raised = jax.jit(lambda x, k: x**k, static_argnums=1)
    _, verdicts = judge_all(lambda: [raised(ones, k) for k in (2.0, 3.0, 2, 3, 4)])
    fixes = [one.fix for one in verdicts if one.nearest]
    assert len(fixes) == 4
    assert not any(isinstance(one, PassDecision) for one in fixes)


def test_a_trip_count_is_passed_and_longer_sums_round_otherwise(judge_all: JudgeAll) -> None:
    turned = jax.jit(
        lambda x, n: jax.lax.fori_loop(0, n, lambda _, y: jnp.sin(y), x), static_argnums=1
    )
    added = jax.jit(lambda x: (x * x).sum())

    def program() -> None:
        for n in (3, 4, 5):
            turned(ones, n)
            added(np.ones(n, np.float32))

    steps = plan(*judge_all(program)).steps
    told = [(title(step.proposal), sentence(step.proposal)) for step in steps]
    trips, padded = sorted(told, key=lambda one: "bits" in one[1])
    assert trips[0].startswith("pass `n`")
    assert "last bits" in padded[1]

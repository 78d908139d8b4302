"""Advice taken to the letter: the misses are gone, and the results are what they were.

Each pair is a program with a mistake and the same program with the edit that its advice asks
for. The advice must be given for the first; the second must miss no more than it has programs;
both must return equal arrays of equal dtypes.
"""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest
from jax.tree_util import Partial, register_dataclass

from retrace.causes import Cause
from tests.recording.conftest import JudgeAll

Program = Callable[[], Any]
ones = np.ones(4, np.float32)


class Pair(NamedTuple):
    """A program, and the same after its advice was followed."""

    codes: tuple[str, ...]
    """The advice; where JAX hides what a print is given, the one without that knowledge."""
    before: Program
    after: Program
    programs: int = 1
    """That the mended program compiles, its eager operations left out."""


PAIRS: dict[str, Pair] = {}


def pair(*codes: str, programs: int = 1) -> Callable[[Callable[..., Any]], None]:
    """Register a program that takes whether the advice was followed."""

    def add(program: Callable[[bool], Any]) -> None:
        PAIRS[program.__name__] = Pair(
            codes, functools.partial(program, False), functools.partial(program, True), programs
        )

    return add


@pair("cast-carry")
def counter_beside_bytes(followed: bool) -> Any:
    step = jax.jit(lambda n, image: (n + np.int32(1), image.astype(jnp.float32).mean()))
    count = np.int32(0) if followed else 0
    for _ in range(300):
        count, _ = step(count, np.ones((2, 2), np.uint8))
    return count  # 300, which no byte holds


@pair("cast-carry")
def scale_beside_halves(followed: bool) -> Any:
    step = jax.jit(lambda scale, x: scale * np.float32(1) + 0 * x.astype(jnp.float32).sum())
    scale = np.float32(65536.0) if followed else 65536.0
    for _ in range(3):
        scale = step(scale, np.ones(2, np.float16))
    return scale  # which no float16 holds


@pair("cast-result")
def result_made_weak(followed: bool) -> Any:
    def step(flag: Any, x: Any) -> Any:
        found = jnp.where(x.sum() > flag, 1.0, 0.0)
        return found.astype(jnp.float32) if followed else found

    jitted, flag = jax.jit(step), np.float32(0)
    for _ in range(3):
        flag = jitted(flag, ones)
    return flag


@pair("static-to-dynamic")
def penalty_in_a_lambda(followed: bool) -> Any:
    def penalised(penalty: float) -> Any:
        return lambda w: (w * w).sum() * penalty

    def fit(w: Any, loss: Any) -> Any:
        return loss(w)

    def fit_with(w: Any, penalty: Any) -> Any:
        return (w * w).sum() * penalty

    jitted = jax.jit(fit_with) if followed else jax.jit(fit, static_argnums=1)
    return [
        jitted(ones, penalty if followed else penalised(penalty)) for penalty in (0.1, 0.2, 0.3)
    ]


@pair("reuse-object")
def factory_of_a_dict(followed: bool) -> Any:
    def zero() -> float:
        return 0.0

    jitted = jax.jit(lambda d: d["a"] + 1)
    found: list[Any] = []
    for number in range(3):
        factory = zero if followed else lambda: 0.0
        found.append(jitted(collections.defaultdict(factory, a=np.float32(number))))
    return found


@pair("pass-held")
def function_in_a_partial(followed: bool) -> Any:
    def scaled(array: Any, scale: Any, x: Any) -> Any:
        return array * x * scale

    evaluate = jax.jit(lambda f, x: f(x))
    found: list[Any] = []
    for scale in (1.0, 2.0):
        given = (
            Partial(scaled, ones, scale)
            if followed
            else Partial(lambda array, x, scale=scale: scaled(array, scale, x), ones)
        )
        found.append(evaluate(given, ones))
    return found


@pair("pass-decision", programs=2)
def epoch_that_steers(followed: bool) -> Any:
    def by_epoch(x: Any, epoch: int) -> Any:
        return x * np.float32(0.5) if epoch < 3 else jnp.sin(x)

    def by_warming(x: Any, warming: bool) -> Any:
        return x * np.float32(0.5) if warming else jnp.sin(x)

    step = jax.jit(by_warming if followed else by_epoch, static_argnums=1)
    return [step(ones, epoch < 3 if followed else epoch) for epoch in range(6)]


@pair("one-static-type")
def true_and_one(followed: bool) -> Any:
    step = jax.jit(lambda x, flag: x * 2 if flag else x, static_argnums=1)
    return [step(ones, True), step(ones, True if followed else 1)]


@pair("print-outside", "few-values")
def name_in_a_print(followed: bool) -> Any:
    def printing(x: Any, name: str) -> Any:
        jax.debug.print(name + " {}", x.sum())
        return x * 2

    def plain(x: Any) -> Any:
        return x * 2

    step = jax.jit(plain) if followed else jax.jit(printing, static_argnums=1)
    return [step(ones) if followed else step(ones, name) for name in ("a", "b", "c")]


@pair("leave-out")
def array_that_nothing_uses(followed: bool) -> Any:
    step = jax.jit(lambda x: x * 2) if followed else jax.jit(lambda x, meta: x * 2)
    return [step(ones, *(() if followed else (np.ones(n),))) for n in (3, 4, 5)]


@pair("lower-with-sharding")
def lowered_ahead_of_time(followed: bool) -> Any:
    step = jax.jit(lambda x: x * 2)
    x = jax.device_put(ones, jax.devices()[0])
    sharding = {"sharding": x.sharding} if followed else {}
    step.lower(jax.ShapeDtypeStruct((4,), np.float32, **sharding)).compile()
    return step(x)


@pair("reuse-object")
def shape_of_a_lambda(followed: bool) -> Any:
    def kept() -> Any:
        return jnp.ones((4, 3))

    return [jax.eval_shape(kept if followed else lambda: kept()).shape for _ in range(3)]


@pair("inject-hyperparams")
def learning_rate_in_the_optimizer(followed: bool) -> Any:
    @functools.partial(
        jax.tree_util.register_dataclass, data_fields=["w", "s"], meta_fields=["tx"]
    )
    class Train:
        def __init__(self, w: Any, s: Any, tx: Any) -> None:
            self.w, self.s, self.tx = w, s, tx

    def step(train: Any) -> Any:
        updates, s = train.tx.update(train.w, train.s)
        return Train(train.w + updates, s, train.tx)

    jitted = jax.jit(step)
    injected = optax.inject_hyperparams(optax.sgd)(learning_rate=0.5)
    found: list[Any] = []
    for rate in (0.5, 0.25):
        tx = injected if followed else optax.sgd(rate)
        state = jax.jit(tx.init)(ones)
        if followed:
            state.hyperparams["learning_rate"] = jnp.asarray(rate, jnp.float32)
        found.append(jitted(Train(ones, state, tx)).w)
    return found


@pair("keep-method", programs=0)
def method_as_a_body(followed: bool) -> Any:
    class Model:
        def body(self, carry: Any, x: Any) -> Any:
            return carry + x, None

    model = Model()
    body = model.body
    return [
        jax.lax.scan(body if followed else model.body, np.float32(0), ones)[0] for _ in range(3)
    ]


@pair("define-body-once")
def learning_rate_below_an_eager_loop(followed: bool) -> Any:
    def update(tx: Any, carry: Any, _: Any) -> Any:
        w, state = carry
        updates, state = tx.update(w, state)
        return (w + updates, state), w

    def optimize(tx: Any, state: Any) -> Any:
        return jax.lax.scan(functools.partial(update, tx), (ones, state), length=4)[1]

    injected = optax.inject_hyperparams(optax.sgd)(learning_rate=0.5)
    jitted = jax.jit(functools.partial(optimize, injected))
    found: list[Any] = []
    for rate in (0.5, 0.25, 0.125):
        tx = injected if followed else optax.sgd(rate)
        state: Any = tx.init(ones)
        if followed:
            state.hyperparams["learning_rate"] = jnp.asarray(rate, jnp.float32)
        found.append(jitted(state) if followed else optimize(tx, state))
    return found


class Evaluator:
    def __init__(self, start: Any, scale: float, name: str = "") -> None:
        self.start, self.scale, self.name = start, scale, name

    def value(self, x: Any) -> Any:
        return x * self.scale + self.start


class Compared(Evaluator):
    """Equal if its arrays are the same objects, its name left out."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compared) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[float, int]:
        return self.scale, id(self.start)


@pair("static-to-dynamic")
def number_beside_an_array_in_an_object(followed: bool) -> Any:
    start = jnp.asarray(ones)
    kept = Evaluator(start, 1.0)
    static = jax.jit(lambda it, x: it.value(x), static_argnums=0)
    passed = jax.jit(lambda it, scale, x: x * scale + it.start, static_argnums=0)
    rates = (0.5, 0.25, 2.0)
    if followed:
        return [passed(kept, rate, ones) for rate in rates]
    return [static(Evaluator(start, rate), ones) for rate in rates]


@pair("leave-out")
def name_beside_an_array_in_an_object(followed: bool) -> Any:
    start = np.arange(4, dtype=np.float32)
    kind = Compared if followed else Evaluator
    static = jax.jit(lambda it, x: it.value(x), static_argnums=0)
    kept = [kind(start, 2.0, name) for name in ("a", "b", "c")]
    return [static(it, ones) for it in kept]


@pair("compare-by-value")
def equal_objects_over_one_array(followed: bool) -> Any:
    start = jnp.asarray(ones)
    kept = Evaluator(start, 2.0)
    static = jax.jit(lambda it, x: it.value(x), static_argnums=0)
    return [static(kept if followed else Evaluator(start, 2.0), ones) for _ in range(3)]


@pair("jit-once-pass-arguments")
def object_over_other_arrays(followed: bool) -> Any:
    once = jax.jit(lambda start, x: x * 2.0 + start)
    found: list[Any] = []
    for rate in (1.0, 2.0, 3.0):
        it = Evaluator(jnp.full(4, rate), 2.0)
        found.append(once(it.start, ones) if followed else _valued(it))
    return found


def _valued(it: Evaluator) -> Any:
    return jax.jit(lambda x: it.value(x))(ones)


@dataclass
class Trained:
    weights: Any
    rate: Any


class Rated(Trained):
    """The same, with the rate as a leaf."""


register_dataclass(Trained, data_fields=["weights"], meta_fields=["rate"])
register_dataclass(Rated, data_fields=["weights", "rate"], meta_fields=[])


@pair("static-to-dynamic")
def number_that_results_carry(followed: bool) -> Any:
    kind = Rated if followed else Trained
    train = jax.jit(lambda it: kind(it.weights * it.rate, it.rate))
    rates = (np.float32(0.5), np.float32(0.25)) if followed else (0.5, 0.25)
    return [train(kind(ones, rate)).weights for rate in rates]


@pair("one-key-type")
def raw_key_beside_a_typed_one(followed: bool) -> Any:
    draw = jax.jit(lambda key: jax.random.normal(key, (3,)))
    return [
        draw(jax.random.key(1)),
        draw((jax.random.key if followed else jax.random.PRNGKey)(1)),
    ]


@pair("one-static-type")
def truth_of_numpy(followed: bool) -> Any:
    scale = jax.jit(lambda x, flag: x * 2 if flag else x, static_argnums=1)
    return [scale(ones, flag) for flag in (True, True if followed else np.bool_(True))]


@pair("reuse-object")
def partial_of_a_lambda_beside_another_function(followed: bool) -> Any:
    jitted = jax.jit(lambda f, x: f(x))
    kept: Any = lambda s, x: s + x
    jitted(Partial(kept, 2.0), ones)
    made = [kept if followed else (lambda s, x: s + x) for _ in range(3)]
    return [jitted(Partial(one, 1.0), ones) for one in made]


@pair("jit-once-pass-arguments", programs=2)
def functions_of_one_factory_that_need_other_things(followed: bool) -> Any:
    def make(rate: float) -> Any:
        return jax.jit(lambda p: p * rate), lambda p, x: (p * x).sum()

    trains = jax.jit(lambda p, rate: p * rate)
    slopes = jax.jit(jax.grad(make(0.0)[1], argnums=1))  # without `p`
    found: list[Any] = []
    for rate in (0.5, 0.25):
        train, forward = make(rate)
        p = trains(ones, np.float32(rate)) if followed else train(ones)
        slope: Any = jax.jit(jax.grad(functools.partial(forward, p)))
        found.append(slopes(p, ones) if followed else slope(ones))
    return found


class Density:
    def __init__(self, data: Any) -> None:
        self.data = data

    def __call__(self, q: Any) -> Any:
        return ((self.data - q) ** 2).sum()


@pair("reuse-object", programs=2)
def one_function_for_each_value_that_it_holds(followed: bool) -> Any:
    energy = jax.jit(lambda q, density: density(q) * 2, static_argnames="density")
    found: list[Any] = []
    for k in (1.0, 2.0):
        model = Density(np.full(20, k, np.float32))
        kept: Any = lambda q, model=model: model(q)
        for i in range(3):
            made: Any = lambda q, model=model: model(q)
            found.append(energy(np.float32(i), density=kept if followed else made))
    return found


@pair("jit-once", programs=2)
def one_function_for_each_object_and_the_arrays_that_it_reads(followed: bool) -> Any:
    kept: dict[Any, Any] = {}
    found: list[Any] = []
    for act in (jax.numpy.tanh, jax.numpy.sin):
        for k in (0.5, 2.0):
            weights = {"w": jax.numpy.full(4, k)}
            made: Any = jax.jit(lambda x, act=act, weights=weights: act(x * weights["w"]))
            one: Any = kept.setdefault(act, jax.jit(lambda x, p, act=act: act(x * p["w"])))
            found.append(one(ones, weights) if followed else made(ones))
    return found


class _Dropout(NamedTuple):
    rate: float
    width: int = 2


@pair("leave-out", programs=3)
def one_value_where_only_other_calls_read_it(followed: bool) -> Any:
    def apply(x: Any, config: _Dropout, train: bool) -> Any:
        x = x[: config.width]
        return x * (1 - config.rate) if train else x

    applied: Any = jax.jit(apply, static_argnames=("config", "train"))
    found: list[Any] = []
    for rate, train in ((0.1, True), (0.1, False), (0.5, False), (0.5, True)):
        seen = 0.1 if followed and not train else rate
        found.append(applied(ones, config=_Dropout(seen), train=train))
    return found


@pair("leave-out", programs=3)
def an_evaluation_that_is_passed_what_it_reads(followed: bool) -> Any:
    @jax.jit
    def improved(state: Trained, x: Any) -> Any:
        given = jax.grad(lambda w: ((w * x) ** 2).sum())(state.weights)
        return state.weights + state.rate.update(given, state.rate.init(state.weights))[0]

    @jax.jit
    def measured(state: Any, x: Any) -> Any:
        return (getattr(state, "weights", state) * x).sum()

    weights: Any = ones
    found: list[Any] = []
    for rate in (0.5, 0.25):
        optimizer = optax.sgd(rate)
        weights = improved(Trained(weights, optimizer), ones)
        found.append(measured(weights if followed else Trained(weights, optimizer), ones))
    return found


@pair("static-to-dynamic")
def arrays_and_numbers_of_a_static_function(followed: bool) -> Any:
    def made(a: Any, r: float) -> Any:
        return lambda y: r * (a * y)

    stepped: Any = jax.jit(lambda f, y: y + f(y), static_argnums=0)
    passing: Any = jax.jit(lambda f, y, a, r: y + f(y, a, r), static_argnums=0)

    def once(y: Any, a: Any, r: Any) -> Any:
        return r * (a * y)

    arrays = [np.arange(4, dtype=np.float32) + shift for shift in (0, 1)]
    return [
        passing(once, ones, a, r) if followed else stepped(made(a, r), ones)
        for a in arrays
        for r in (0.5, 2.0, 4.0)
    ]


@pair("static-to-dynamic", programs=2)
def a_field_that_is_only_a_constant_beside_one_that_is_a_size(followed: bool) -> Any:
    class Ridge:
        def __init__(self, alpha: float, degree: int) -> None:
            self.alpha, self.degree = alpha, degree

    def fitted(model: Ridge, x: Any, alpha: Any = None) -> Any:
        columns = jax.numpy.stack([x**power for power in range(model.degree)], -1)
        return columns.sum() + (model.alpha if alpha is None else alpha)

    fit: Any = jax.jit(fitted, static_argnums=0)
    kept = {degree: Ridge(0.0, degree) for degree in (2, 3)}
    found: list[Any] = []
    for alpha in (0.5, 2.0):
        for degree in (2, 3):
            one = kept[degree], ones, alpha
            found.append(fit(*one) if followed else fit(Ridge(alpha, degree), ones))
    return found


@pair("few-values", programs=2)
def an_object_that_is_new_beside_a_flag_is_created_once(followed: bool) -> Any:
    class Scale:
        by = 2.0

    scaled: Any = jax.jit(lambda x, scale, flip: x * (-scale.by if flip else scale.by))
    scaled = jax.jit(scaled.__wrapped__, static_argnames=("scale", "flip"))
    once = Scale()
    return [
        scaled(ones, scale=once if followed else Scale(), flip=flip)
        for flip in (False, True, False)
    ]


@pair("cast-argument")
def the_float_that_rounds_no_value(followed: bool) -> Any:
    near = jax.jit(lambda x, y: x - (x - y) / 4)
    found: Any = np.ones(3)
    jax.config.update("jax_enable_x64", True)
    try:
        for at in range(4):
            y = np.float64(0.1 * at) if at < 2 else np.float32(0.1 * at)
            found = near(found, np.float64(y) if followed else y)
        return np.asarray(found)
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("name", PAIRS)
def test_what_the_advice_removes(name: str, judge_all: JudgeAll) -> None:
    pair = PAIRS[name]
    results: list[Any] = []
    _, before = judge_all(lambda: results.append(pair.before()))
    _, after = judge_all(lambda: results.append(pair.after()))
    runs = {verdict.miss.run for verdict in before}
    after = [verdict for verdict in after if verdict.miss.run not in runs]
    told = {verdict.fix.code for verdict in before if verdict.fix is not None}
    assert told & set(pair.codes)
    own = [v for v in after if v.cause is not Cause.EAGER_OP and v.miss.parent is None]
    own = [v for v in own if v.miss.function.name not in ("init_fn", "init")]
    assert len(own) == pair.programs, [(v.cause, v.miss.function.name) for v in own]
    was, now = (jax.tree.leaves(result) for result in results)
    assert len(was) == len(now)
    for one, other in zip(was, now, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)

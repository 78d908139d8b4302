"""Programs that recreate objects JAX knows by identity, and programs that read state."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from retrace.model.advice import (
    CompareByValue,
    DefineBodyOnce,
    DefineOnce,
    InjectHyperparams,
    KeepBound,
    KeepCaches,
    KeepMethod,
    KeepTraced,
    OneConfig,
    OneReceiver,
    PassState,
    ReuseObject,
)
from tests.generated.case import Case, Program, family

x = np.arange(4, dtype=np.float32)


def _values(rng: Random) -> list[int]:
    return rng.choice(([2, 2, 2], [1, 2, 3], [2, 2, 3], [1, 3, 3]))


@family
def methods(rng: Random) -> Case:
    """A bound method that is jitted again, of one object or of several."""
    values = _values(rng)
    one = rng.random() < 0.4
    call_it = rng.random() < 0.3

    class Model:
        def __init__(self, k: int) -> None:
            self.k = k

        def apply(self, x: Any) -> Any:
            return x * self.k

        def __call__(self, x: Any) -> Any:
            return x * self.k

    def before() -> Any:
        first = Model(values[0])
        objects = [first if one else Model(k) for k in values]
        return [jax.jit(model if call_it else model.apply)(x) for model in objects]

    def keep(advice: Any) -> Program:
        model = Model(values[0])
        jitted = jax.jit(model if call_it else model.apply)
        return lambda: [jitted(x) for _ in values]

    return Case(f"{values} one={one}", before, {KeepBound: keep, OneReceiver: keep})


@family
def bodies(rng: Random) -> Case:
    """The body of an eager loop that is created again, over one value or several."""
    values = _values(rng)
    method = rng.random() < 0.4

    class Model:
        def __init__(self, k: int) -> None:
            self.k = k

        def body(self, carry: Any, x: Any) -> Any:
            return carry + x * self.k, None

    def scanned(body: Any) -> Any:
        return jax.lax.scan(body, np.float32(0), x)[0]

    def before() -> Any:
        if method:
            model = Model(values[0])
            found: list[Any] = []
            for k in values:
                model.k = k
                found.append(scanned(model.body))
            return found
        return [scanned(lambda carry, x, k=k: (carry + x * k, None)) for k in values]

    def keep(advice: Any) -> Program:
        model = Model(values[0])
        body = model.body if method else (lambda carry, x: (carry + x * values[0], None))
        return lambda: [scanned(body) for _ in values]

    return Case(f"{values} method={method}", before, {KeepMethod: keep, DefineBodyOnce: keep})


@family
def shapes_of_lambdas(rng: Random) -> Case:
    """`eval_shape` of a lambda, over one value or several."""
    values = _values(rng)
    by_shape = rng.random() < 0.5

    def make(k: int) -> Any:
        if by_shape:
            return lambda: jnp.ones((k, 2))
        return lambda: jnp.ones((3, 2)) * k

    def keep(advice: KeepTraced) -> Program:
        one = make(values[0])
        return lambda: [jax.eval_shape(one).shape for _ in values]

    return Case(
        f"{values}",
        lambda: [jax.eval_shape(make(k)).shape for k in values],
        {KeepTraced: keep},
    )


@family
def classes(rng: Random) -> Case:
    """An enum or a tuple defined in a function, and a factory that is created again."""
    way = rng.choice(("enum", "tuple", "factory"))

    def made() -> Any:
        if way == "enum":

            class Mode(enum.Enum):
                A = 1

            return Mode.A
        if way == "tuple":

            class Pair(NamedTuple):
                x: Any

            return Pair(x)
        return collections.defaultdict(lambda: 0.0, x=x)

    def call(make: Callable[[], Any]) -> Program:
        if way == "enum":
            jitted = jax.jit(lambda x, mode: x * mode.value, static_argnums=1)
            return lambda: [jitted(x, make()) for _ in range(3)]
        field = (lambda held: held.x) if way == "tuple" else (lambda held: held["x"])
        jitted = jax.jit(lambda held: field(held) * 2)
        return lambda: [jitted(make()) for _ in range(3)]

    def once(advice: Any) -> Program:
        one = made()
        return call(lambda: one)

    return Case(way, call(made), {DefineOnce: once, ReuseObject: once})


@family
def configurations(rng: Random) -> Case:
    """Two settings, which the program uses or not."""
    settings: list[str] = rng.sample(("float32", "bfloat16", "default"), 2)
    heeds = rng.random() < 0.5

    def call(settings: Sequence[str]) -> Program:
        jitted = jax.jit(lambda x: x @ x if heeds else x * 2)

        def run() -> Any:
            found: list[Any] = []
            for setting in settings:
                with jax.default_matmul_precision(setting):
                    found.append(jitted(x))
            return found

        return run

    return Case(
        f"{settings} heeds={heeds}",
        call(settings),
        {OneConfig: lambda advice: call([settings[0]] * 2)},
    )


@family
def cleared(rng: Random) -> Case:
    """Caches that are cleared, for a function that reads state or does not."""
    reads, changes = rng.random() < 0.5, rng.random() < 0.5

    def call(clear: bool, passed: bool = False) -> Program:
        def run() -> Any:
            state = {"k": 2.0}
            if passed:
                given = jax.jit(lambda x, k: x * k)
                return [given(x, 2.0), given(x, 3.0 if changes else 2.0)]
            jitted = jax.jit(lambda x: x * (state["k"] if reads else 2.0))
            found = [jitted(x)]
            if changes:
                state["k"] = 3.0
            if clear:
                jax.clear_caches()
            return [*found, jitted(x)]

        return run

    return Case(
        f"reads={reads} changes={changes}",
        call(clear=True),
        {
            KeepCaches: lambda advice: call(clear=False),
            PassState: lambda advice: call(clear=False, passed=True),
        },
    )


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["w", "inner"], meta_fields=["tx"]
)
@dataclasses.dataclass
class Training:
    """What a training loop carries, with its optimizer as a static field."""

    w: Any
    inner: Any
    tx: Any


@family
def optimizers(rng: Random) -> Case:
    """An optimizer that is created again, with one learning rate or several."""
    rates = rng.choice(([0.1, 0.1, 0.1], [0.1, 0.2, 0.3], [0.1, 0.1, 0.2], [0.1, 0.2, 0.1]))
    make: Any = rng.choice((optax.sgd, optax.adam, optax.rmsprop))
    as_field = rng.random() < 0.6

    def step(w: Any, inner: Any, tx: Any) -> Any:
        updates, inner = tx.update(jnp.sin(w), inner, w)
        return optax.apply_updates(w, updates), inner

    def call(made: Callable[[float], Any], start: Callable[[Any, float], Any]) -> Program:
        field = jax.jit(lambda state: step(state.w, state.inner, state.tx)[0])
        static = jax.jit(lambda w, inner, tx: step(w, inner, tx)[0], static_argnums=2)

        def run() -> Any:
            found: list[Any] = []
            for rate in rates:
                tx = made(rate)
                inner = start(tx, rate)
                if as_field:
                    found.append(field(Training(x, inner, tx)))
                else:
                    found.append(static(x, inner, tx))
            return found

        return run

    def once(advice: Any) -> Program:
        one = make(rates[0])
        return call(lambda rate: one, lambda tx, rate: tx.init(x))

    def inject(advice: Any) -> Program:
        one = optax.inject_hyperparams(make)(learning_rate=rates[0])

        def start(tx: Any, rate: float) -> Any:
            inner = tx.init(x)
            inner.hyperparams["learning_rate"] = jnp.asarray(rate, np.float32)
            return inner

        return call(lambda rate: one, start)

    return Case(
        f"{make.__name__} {rates} as_field={as_field}",
        call(make, lambda tx, rate: tx.init(x)),
        {ReuseObject: once, CompareByValue: once, InjectHyperparams: inject},
        close=True,
    )

"""Programs that are out of date around their equations: a program as in `stale`.

What differs is what the function returns besides arrays, what its callbacks are or hold, or what
JAX keeps in caches other than that of its traces.
"""

# JAX's own annotations are partial; the programs are written as users write.
# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

import datetime as dt
import fractions
from collections.abc import Iterator
from typing import Any

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax
from jax.experimental.ode import odeint

from tests.auditing.stale import Program
from tests.auditing.stale_elsewhere import held

PROGRAMS: list[Program] = []
x = jnp.arange(3.0) + 1


def stale(program: Program) -> Program:
    PROGRAMS.append(program)
    return program


@stale
def a_key_of_the_result() -> Iterator[Any]:
    it = held(name="train")
    f = jax.jit(lambda x: {f"{it.name}/loss": x * 2})
    yield lambda: f(x)
    it.name = "eval"


@stale
def the_structure_of_the_result() -> Iterator[Any]:
    it = held(aux=True)
    f = jax.jit(lambda x: (x * 2, None) if it.aux else (x * 2,))
    yield lambda: f(x)
    it.aux = False


@struct.dataclass
class Metrics:
    loss: Any
    mode: str = struct.field(pytree_node=False)


@stale
def a_static_field_of_the_result() -> Iterator[Any]:
    it = held(mode="train")
    f = jax.jit(lambda x: Metrics(x * 2, it.mode))
    yield lambda: f(x)
    it.mode = "eval"


@stale
def a_static_field_that_is_equal() -> Iterator[Any]:
    it = held(mode=1)
    f = jax.jit(lambda x: Metrics(x * 2, it.mode))
    yield lambda: f(x)
    it.mode = 1.0


@stale
def a_number_that_equinox_returns() -> Iterator[Any]:
    it = held(factor=3)
    f = eqx.filter_jit(lambda x: (x * 2, it.factor))
    yield lambda: f(x)
    it.factor = 9


S = jax.ShapeDtypeStruct((3,), np.float32)


class Scale:
    def __init__(self, k: float) -> None:
        self.k = k

    def __call__(self, y: Any) -> Any:
        return np.asarray(y) * np.float32(self.k)


@stale
def a_callback_that_is_an_object() -> Iterator[Any]:
    it = held(k=2.0)
    f = jax.jit(lambda x: jax.pure_callback(Scale(it.k), S, x))
    yield lambda: f(x)
    it.k = 5.0


@stale
def a_callback_of_numpy() -> Iterator[Any]:
    it = held(of=np.sin)
    f = jax.jit(lambda x: jax.pure_callback(it.of, S, x))
    yield lambda: f(x)
    it.of = np.cos


@stale
def a_callback_that_holds_a_duration() -> Iterator[Any]:
    it = held(every=dt.timedelta(seconds=2))

    def f(x: Any) -> Any:
        every = it.every
        return jax.pure_callback(lambda y: np.asarray(y * every.total_seconds(), "f4"), S, x)

    jitted = jax.jit(f)
    yield lambda: jitted(x)
    it.every = dt.timedelta(seconds=7)


@stale
def a_callback_that_holds_a_fraction() -> Iterator[Any]:
    it = held(part=fractions.Fraction(1, 2))

    def f(x: Any) -> Any:
        part = it.part
        return jax.pure_callback(lambda y: np.asarray(y * float(part), "f4"), S, x)

    jitted = jax.jit(f)
    yield lambda: jitted(x)
    it.part = fractions.Fraction(1, 3)


rates = held(k=1.0)


def summed(a: Any, b: Any) -> Any:
    return a * rates.k + b


def paired(a: Any, b: Any) -> Any:
    return a[0] * rates.k + b[0], a[1] + b[1]


def decay(y: Any, _: Any) -> Any:
    return -rates.k * y


def scaled(y: Any) -> Any:
    return y * rates.k


@stale
def the_function_of_a_reduction() -> Iterator[Any]:
    rates.k = 1.0
    f = jax.jit(lambda x: lax.reduce(x, np.float32(0), summed, (0,)))
    yield lambda: f(x)
    rates.k = 2.0


@stale
def the_function_of_a_reduction_of_two() -> Iterator[Any]:
    rates.k = 1.0
    zero = np.float32(0)
    f = jax.jit(lambda x: lax.reduce((x, x), (zero, zero), paired, (0,)))
    yield lambda: f(x)
    rates.k = 2.0


@stale
def the_function_of_a_window() -> Iterator[Any]:
    rates.k = 1.0
    f = jax.jit(lambda x: lax.reduce_window(x, np.float32(0), summed, (2,), (1,), "VALID"))
    yield lambda: f(x)
    rates.k = 2.0


@stale
def the_function_of_a_solver() -> Iterator[Any]:
    rates.k = 1.0
    f = jax.jit(lambda x: odeint(decay, x, jnp.arange(2.0))[-1])
    yield lambda: f(x)
    rates.k = 2.0


@stale
def a_converted_closure() -> Iterator[Any]:
    rates.k = 1.0

    def f(x: Any) -> Any:
        converted, constants = jax.closure_convert(scaled, x)
        return converted(x, *constants)

    jitted = jax.jit(f)
    yield lambda: jitted(x)
    rates.k = 2.0


@stale
def a_function_whose_traces_are_limited() -> Iterator[Any]:
    it = held(k=2.0)
    f = jax.jit(chex.assert_max_traces(lambda x: x * it.k, n=1))
    yield lambda: f(x)
    it.k = 3.0


def carried_on(c: Any, y: Any) -> Any:
    return c * rates.k + y, y


def grown(x: Any) -> Any:
    return x * rates.k


def turned(x: Any) -> Any:
    return x - rates.k


def as_it_is(x: Any) -> Any:
    return x


def is_small(x: Any) -> Any:
    return x.sum() < 10


def a_scan_outside_all_functions() -> Iterator[Any]:
    rates.k = 2.0
    yield lambda: lax.scan(carried_on, 0.0, x)[0]
    rates.k = 3.0


def a_loop_outside_all_functions() -> Iterator[Any]:
    rates.k = 2.0
    yield lambda: lax.while_loop(is_small, grown, x)
    rates.k = 3.0


def a_branch_outside_all_functions() -> Iterator[Any]:
    rates.k, yes = 2.0, jnp.array(True)
    yield lambda: lax.cond(yes, turned, as_it_is, x)
    rates.k = 3.0


if jax.__version_info__ >= (0, 9):  # before, such bodies are traced elsewhere
    PROGRAMS += [
        a_scan_outside_all_functions,
        a_loop_outside_all_functions,
        a_branch_outside_all_functions,
    ]

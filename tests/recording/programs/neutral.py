"""Prints all that a program can see of JAX: results, traces, errors, what is still alive."""

from __future__ import annotations

import functools
import gc
import os
import re
import traceback
import weakref
import zlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

gc.disable()
JAX = os.path.dirname(jax.__file__)
_ADDRESS = re.compile(r"0x[0-9a-f]+|\d{9,}")


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scale) and other.factor == self.factor

    def __hash__(self) -> int:
        return hash(self.factor)

    def times(self, x: Any) -> Any:
        print("traced", self.factor)
        return x * self.factor


def show(case: Callable[[], object]) -> None:
    try:
        print(case.__name__, case())
    except Exception as error:  # noqa: BLE001 - whatever JAX raises is to be seen
        # All but JAX's own, which are others from release to release.
        frames = [
            (frame.name, frame.lineno, os.path.basename(frame.filename))
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith(JAX)
        ]
        print(case.__name__, type(error).__name__, _ADDRESS.sub("...", str(error)), frames)


@show
def closures_die() -> object:
    alive: list[weakref.ref[Any]] = []
    uses = (lambda f: jax.jit(f)(1.0), lambda f: jax.eval_shape(f, 1.0), jax.jit)
    # An array on the device is a constant of the program itself.
    for use, make in ((use, make) for use in uses for make in (np.ones, jnp.ones)):
        array = make(1000)
        alive.append(weakref.ref(array))

        def long(x: Any, array: Any = array) -> Any:
            for _ in range(1100):
                x = x + 1
            return x + array

        use(long)
        del long, array
    return [reference() is None for reference in alive]


@show
def receivers_and_statics() -> object:
    scaled = jax.jit(lambda x, scale: scale.times(x), static_argnums=1)
    alive: list[weakref.ref[Any]] = []
    for factor in (1, 2, 1):
        scale = Scale(factor)
        alive.append(weakref.ref(scale))
        scaled(1.0, scale)
        jax.jit(scale.times)(1.0)
        jax.jit(functools.partial(scale.times))(1)
    del scale, scaled
    return [reference() is None for reference in alive]


@show
def statics_die_with_the_entries_of_caches() -> object:
    scale = Scale(5)
    alive = weakref.ref(scale)
    scaled = jax.jit(lambda x, scale: scale.times(x), static_argnums=1)
    scaled(1.0, scale)
    held = alive() is not None
    del scale, scaled
    jax.clear_caches()
    return held, alive() is None


@show
def arguments_and_results_die() -> object:
    alive: list[weakref.ref[Any]] = []
    double = jax.jit(lambda tree: jax.tree.map(lambda x: x * 2, tree))
    for size in (2, 3, 2):
        given = {"a": jnp.ones(size), "b": [np.ones(size)]}
        result = double(given)
        alive += map(weakref.ref, [*jax.tree.leaves(given), *jax.tree.leaves(result)])
        del given, result
    lowered: Any = double.lower({"a": jnp.ones(4)})
    compiled = lowered.compile()
    alive += map(weakref.ref, (lowered, lowered._lowering, compiled))
    del lowered, compiled
    with_it = [reference() is None for reference in alive]
    del double
    return with_it, [reference() is None for reference in alive]


@show
def what_a_trace_that_raises_was_given_dies() -> object:
    alive: list[weakref.ref[Any]] = []

    class HeldError(Exception):
        pass

    for _ in range(2):
        array = np.ones(1000)
        alive.append(weakref.ref(array))

        def fails(x: Any, array: Any = array) -> Any:
            raise HeldError

        try:
            jax.jit(fails)(array)
        except HeldError as error:
            alive.append(weakref.ref(error))
        del array, fails
    return [reference() is None for reference in alive]


@show
def results() -> object:
    def several(x: Any) -> Any:
        table = x[:, None] * x[None]
        return jnp.exp(x) / x.sum(), jax.nn.softmax(x), table.sum(0), table @ x

    given = np.linspace(-2, 3, 257, dtype=np.float32)
    found = [f(given) for f in (jax.jit(several), jax.jit(jax.jacrev(several)))]
    return [zlib.crc32(np.asarray(leaf).tobytes()) for leaf in jax.tree.leaves(found)]


@show
def donated() -> object:
    given = jnp.arange(4.0)
    result = jax.jit(lambda x: x * 2, donate_argnums=0)(given)
    return given.is_deleted(), np.asarray(result).tobytes().hex()


@show
def leaks_are_found() -> object:
    kept: list[Any] = []
    with jax.checking_leaks():
        jax.jit(jax.grad(jax.jit(lambda x: jnp.sin(x) * 2)))(1.0)
        return jax.jit(kept.append)(1.0)


@show
def no_tracing() -> object:
    double = jax.jit(lambda x: x * 2)
    double(1.0)
    with jax.no_tracing():
        return double(2.0), double(1)


@show
def nans() -> object:
    with jax.debug_nans(True):
        return jax.jit(lambda x: jnp.log(x) * 2)(-1.0)


@show
def not_hashable() -> object:
    return jax.jit(lambda x, s: x, static_argnums=1)(1.0, [1])


@show
def raised_in_a_trace() -> object:
    def inner(x: Any) -> Any:
        raise KeyError("inner")

    return jax.jit(lambda x: jax.jit(inner)(x))(1.0)


@show
def gradients() -> object:
    f = jax.jit(lambda x: print("traced") or jnp.tanh(x) ** 2)
    results = [jax.grad(f)(1.0), jax.vmap(f)(np.ones(2)), jax.jvp(f, (1.0,), (1.0,))]
    results += [jax.lax.scan(lambda c, x: (f(c) + x, c), 0.5, np.ones(2))]
    return [np.asarray(leaf).tobytes().hex() for leaf in jax.tree.leaves(results)]


class Box:
    """Its `==` and hash are programs of JAX's, as those of an array's wrapper are."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        print("compared")
        return isinstance(other, Box) and bool(jnp.array_equal(self.array, other.array))

    def __hash__(self) -> int:
        print("hashed")
        return 1

    def scaled(self, x: Any) -> Any:
        return x * self.array


@show
def what_functions_hold_is_compared_with_nothing() -> object:
    kept: list[Box] = []
    for _ in range(3):
        box = Box(jnp.ones(3))
        kept.append(box)
        jax.jit(lambda x, box=box: x + box.array)(1.0)
        jax.jit(functools.partial(lambda box, x: x + box.array, box))(1.0)
        jax.jit(lambda x: x + box.array)(1.0)
        jax.jit(box.scaled)(1.0)
    return len(kept)

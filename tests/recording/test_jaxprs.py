"""A jaxpr in, its content hash and its number of equations out."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.capture.weak import ByObject
from retrace.jax_internals.jaxprs import transcribe
from retrace.model import Listing, Program


def take(function: Callable[..., Any], *args: Any) -> Program:
    return transcribe(jax.jit(function).trace(*args).jaxpr).program


ones = np.ones(3, np.float32)
table = np.arange(3, dtype=np.float32)


def sine(x: Any) -> Any:
    return jnp.sin(x) * 2.0


def draw(key: Any) -> Any:
    return jax.random.uniform(key, (3,))


def drawn_whole(key: Any) -> Any:
    with jax.threefry_partitionable(False):
        return draw(key)


# Each is the program before it with one thing changed.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "first": (sine, (ones,)),
    "primitive": (lambda x: jnp.cos(x) * 2.0, (ones,)),
    "literal": (lambda x: jnp.sin(x) * 3.0, (ones,)),
    "order": (lambda x: 2.0 * jnp.sin(x), (ones,)),
    "shape": (sine, (np.ones(4, np.float32),)),
    "dtype": (sine, (np.ones(3, np.float16),)),
    "weak type": (sine, (1.0,)),
    "strong type": (sine, (np.float32(1.0),)),
    "unused argument": (lambda x, y: jnp.sin(x) * 2.0, (ones, ones)),
    "other argument": (lambda x, y: jnp.sin(y) * 2.0, (ones, ones)),
    "parameter": (lambda x: jnp.sum(jnp.ones((2, 2)) * x[0], axis=0), (ones,)),
    "other parameter": (lambda x: jnp.sum(jnp.ones((2, 2)) * x[0], axis=1), (ones,)),
    "constant": (lambda x: x + table, (ones,)),
    "other constant": (lambda x: x + (table + 1), (ones,)),
    "scan": (lambda x: jax.lax.scan(lambda c, y: (c + y, c), 0.0, x), (ones,)),
    "other body": (lambda x: jax.lax.scan(lambda c, y: (c * y, c), 0.0, x), (ones,)),
    "other start": (lambda x: jax.lax.scan(lambda c, y: (c + y, c), 1.0, x), (ones,)),
    "reverse": (lambda x: jax.lax.scan(lambda c, y: (c + y, c), 0.0, x, reverse=True), (ones,)),
    "cond": (lambda x: jax.lax.cond(x[0] > 0, lambda: x, lambda: x + 1), (ones,)),
    "other branch": (lambda x: jax.lax.cond(x[0] > 0, lambda: x, lambda: x + 2), (ones,)),
    "while": (lambda x: jax.lax.while_loop(lambda v: v[0] < 3, lambda v: v + 1, x), (ones,)),
    "nested": (lambda x: jax.jit(jnp.sin)(x), (ones,)),
    "drawn": (draw, (jax.random.key(0),)),
    "drawn in another way": (drawn_whole, (jax.random.key(0),)),
    "checkpoint": (lambda x: jax.checkpoint(jnp.sin)(x), (ones,)),
    "gradient": (jax.grad(lambda x: jax.checkpoint(jnp.sin)(x).sum()), (ones,)),
    "custom rule": (lambda x: jax.nn.relu(x), (ones,)),
    "key": (lambda k: jax.random.normal(k), (jax.random.key(0),)),
    "other kind of key": (lambda k: jax.random.normal(k), (jax.random.key(0, impl="rbg"),)),
    "callback": (
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), "f4"), x),
        (ones,),
    ),
}


def test_each_change_is_seen() -> None:
    seen: dict[str, str] = {}
    for name, (function, args) in PROGRAMS.items():
        seen.setdefault(take(function, *args).hash, name)
    assert list(seen.values()) == list(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_traced_again_is_the_same(name: str) -> None:
    function, args = PROGRAMS[name]
    first = take(function, *args)
    jax.clear_caches()
    assert take(lambda *again: function(*again), *args) == first


class Known(ByObject[tuple[Listing, ...]]):
    used = 0

    def get(self, thing: Any) -> tuple[Listing, ...] | None:
        found = super().get(thing)
        self.used += found is not None
        return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_known_of_sub_programs_changes_nothing(name: str) -> None:
    function, args = PROGRAMS[name]
    inner = jax.jit(function)
    program = jax.jit(lambda *args: (inner(*args), inner(*args))).trace(*args).jaxpr
    fresh = transcribe(program, lambda _: False)
    known = Known()
    for _ in range(2):
        assert transcribe(program, lambda _: False, known=known) == fresh
    if name == "first":
        assert known.used == 1


def test_an_array_changed_in_place_is_read_each_time() -> None:
    held = np.zeros(3, np.float32)
    inner = jax.jit(lambda x: x + held)
    program = jax.jit(lambda x: inner(x)).trace(ones).jaxpr
    known = Known()
    for number in range(3):
        held[0] = number
        assert transcribe(program, known=known) == transcribe(program)


def test_a_part_holds_what_a_part_before_it_held() -> None:
    held = np.zeros(3, np.float32)
    inner = jax.jit(lambda x: x + held)
    around = jax.jit(lambda x: inner(x) * 2.0)
    first = jax.jit(lambda x: (inner(x), around(x))).trace(ones).jaxpr
    second = jax.jit(lambda x: around(x)).trace(ones).jaxpr
    known = Known()
    transcribe(first, known=known)
    held[0] = 1.0
    assert transcribe(second, known=known) == transcribe(second)


def test_variables_have_no_names() -> None:
    def swapped(x: Any) -> Any:
        unused = x
        del unused
        return jnp.sin(x) * 2.0

    assert take(sine, ones) == take(swapped, ones)


def test_a_weak_type_alone_makes_another_program() -> None:
    assert take(lambda x: x, 1.0) != take(lambda x: x, np.float32(1.0))


def test_equations_are_counted_with_those_of_sub_programs() -> None:
    assert take(sine, ones).equations == 2
    twice = take(lambda x: jax.jit(sine)(x) + jax.jit(sine)(x), ones)
    assert twice.equations == 2 * 3 + 1


def test_an_array_on_a_device_is_told_by_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [jnp.arange(3.0), jnp.arange(3.0) + 1]
    programs = [jax.jit(lambda x, a=array: x + a).trace(ones).jaxpr for array in arrays]

    def refuse(*_: object) -> None:
        raise AssertionError

    kind = type(arrays[0])
    if all(type(program.consts[0]) is kind for program in programs):
        monkeypatch.setattr(kind, "__array__", refuse)
        monkeypatch.setattr(kind, "_value", property(refuse))
        assert transcribe(programs[0]).program == transcribe(programs[1]).program


def test_large_constants_are_told_by_their_type() -> None:
    large = np.zeros(2**20, np.float32)
    assert take(lambda x: x[0] + large, ones) == take(lambda x: x[0] + (large + 1), ones)


_PROCESS = """
import jax, jax.numpy as jnp, numpy as np
from retrace.capture.weak import ByObject
from retrace.jax_internals.jaxprs import transcribe

def program(x, key):
    y, _ = jax.lax.scan(lambda c, v: (c * v + np.arange(3.0, dtype="f4").sum(), None), 1.0, x)
    z = jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((), "f4"), y)
    return jax.nn.relu(x) + jax.random.normal(key, (3,)) * z, {"a": y, "b": jax.jit(jnp.cos)(x)}

print(transcribe(jax.jit(program).trace(jnp.ones(3), jax.random.key(0)).jaxpr).program)
"""


@pytest.mark.drawn
def test_the_hash_is_the_same_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PROCESS],
            env={
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": ":".join(sys.path),
                "JAX_PLATFORMS": "cpu",
            },
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1

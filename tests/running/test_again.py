"""What several processes compile is compared with what a disk cache then serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.drawn

PROGRAM = """
import contextlib
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np

x = np.ones((4, 4), np.float32)
own = np.float32(sys.argv[1])
on_device = jnp.asarray(x) * 2


def same(x):
    return jnp.sin(x) @ x


def other_name(x):
    return jnp.sin(x) @ x


def constant(x):
    return x * own


def averaged(x):
    return own * x + (1 - own) * jnp.cos(x)


def power(x):
    return x ** int(own)


def hidden(x):
    return x * (float(sys.argv[1]) / 7)


def several(x):
    for _ in range(int(own)):
        x = x * own
    return x


def packed(x):
    # The same program but a different key on disk, which includes the paths of the results.
    return x + 5 if own == 2 else {"a": x + 5}


def captured(x):
    return x + on_device


def calling_back(x):
    return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@jax.jit
def weak(x):
    return x * jnp.sin(x)


@jax.jit
def promoted(x):
    return jnp.cos(x) + x


@jax.jit
def batched(x):
    return jnp.tanh(x)


@jax.jit
def named(x):
    return jnp.arctan(x)


@jax.jit
def folded(x):
    return jnp.arcsinh(x)


@jax.jit
def differentiated(x):
    return jnp.sum(x * x)


@functools.partial(jax.jit, donate_argnums=0)
def donating(x):
    return x * 3


for function in (same, other_name, constant, averaged, power, hidden, several, captured, packed):
    jax.jit(function)(x)
jax.jit(calling_back)(x)
donating(jnp.asarray(x))
# XLA has no weak types, and options that only affect tracing are gone once a program is traced.
weak(2.0 if own == 2 else np.float32(2))
jax.vmap(named, axis_name="batch" if own == 2 else "rows")(x)
with jax.ensure_compile_time_eval() if own == 2 else contextlib.nullcontext():
    folded(x)
with jax.numpy_dtype_promotion("strict" if own == 2 else "standard"):
    promoted(x)
# One trace, and programs that differ from it: in size, or without the paths of results.
jax.vmap(batched)(np.ones((int(own), 4), np.float32))
if own == 2:
    differentiated(x)
else:
    jax.grad(differentiated)(x)
with jax.default_matmul_precision("highest"):
    jax.jit(same)(x)
"""


def reported(folder: Path, name: str, *arguments: str, **variables: str) -> dict[str, Any]:
    """The report of two processes that ran the program, the second with a different constant."""
    environment = {**os.environ, **variables}
    for argument in arguments:
        line = [sys.executable, "-m", "retrace", "run", "-q", "--append", f"--out={name}"]
        subprocess.run([*line, "program.py", argument], cwd=folder, env=environment, check=True)
    line = [sys.executable, "-m", "retrace", "report", "--format=json", name]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_report_matches_what_a_cache_serves(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    without = reported(tmp_path, "without", "2", "3")
    cached = reported(
        tmp_path,
        "cached",
        "2",
        "3",
        JAX_COMPILATION_CACHE_DIR=str(tmp_path / "cache"),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
    )
    served = [
        one["function"]["jax_name"]
        for one in cached["misses"]
        if one["persistent_cache"] and one["persistent_cache"]["outcome"] == "hit"
    ]
    told = {one["function"]: one for one in without["compiled_again"]}
    for name in ("same", "other_name", "donating", "weak", "promoted", "named", "folded"):
        assert name in told and name in served
    assert "constant" not in told and "constant" not in served
    for name in ("packed", "batched", "differentiated"):
        assert name not in told and name not in served
    # A cache may serve these, depending on contents that are not recorded.
    assert "captured" not in told and "calling_back" not in told
    assert set(served) >= told.keys()
    assert [one["times"] for name, one in told.items() if name == "same"] == [2]
    assert not [
        one for one in cached["compiled_again"] if one["function"] in ("same", "donating")
    ]
    assert all(0 <= one["saved"][0] <= one["saved"][1] < one["seconds"] for one in told.values())

    alone = {one["function"]: one for one in without["differ_by_constants"]}
    named = {"name": "own", "values": ["2", "3"]}
    assert alone["constant"]["constants"] == alone["averaged"]["constants"] == [named]
    # The value read is unknown here, only that the programs differ in it.
    assert [one["name"] for one in alone["hidden"]["constants"]] == [None]
    # Such an exponent cannot be an array, and two lengths can never share a program.
    assert not {"power", "several", "same"} & alone.keys()
    assert all(one["programs"] == one["processes"] == 2 for one in alone.values())
    assert all(0 <= one["saved"][0] <= one["saved"][1] < one["seconds"] for one in alone.values())

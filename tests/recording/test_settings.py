"""A program that sets JAX's configuration in, the places that set it out."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false

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
import jax
import jax.numpy as jnp
import numpy as np

mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
x = jnp.ones((3, 3))

@jax.jit
def f(x):
    return x @ x

def precise(x):
    with jax.default_matmul_precision("highest"):  # here: precision
        return once_more(x)

def once_more(x):
    with contextlib.suppress(ValueError):
        return f(x)

@contextlib.contextmanager
def hidden():
    with jax.default_matmul_precision("float32"):
        yield

def inside():
    with jax.default_matmul_precision("bfloat16"):
        def later(x):
            return f(x)
    return later

f(x)
precise(x)
jax.config.update("jax_numpy_dtype_promotion", "strict")  # here: update
f(x)
jax.config.update("jax_numpy_dtype_promotion", "standard")
with hidden():
    f(x)
jax.clear_caches()
with mesh:  # here: mesh
    f(x)
with jax.numpy_rank_promotion("warn"): f(x)  # here: rank
inside()(x)
"""


def test_a_setting_has_the_place_that_set_it(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "retrace"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    recorded = tmp_path / "recorded"
    subprocess.run(
        [*command, "run", "-q", "-o", str(recorded), str(script)], env=environment, check=True
    )
    report = subprocess.run(
        [*command, "report", "--format", "json", str(recorded)],
        env=environment,
        check=True,
        capture_output=True,
    )
    misses: list[dict[str, Any]] = json.loads(report.stdout)["misses"]
    seen = {
        (change["path"], change["new"]["text"]): change["new"].get("set_at", {}).get("line")
        for miss in misses
        if miss["function"]["name"] == "f"
        for change in miss["changes"]
        if change["component"] == "config" and change["new"]["text"] != "None"
    }
    places = {
        line.split("# here: ")[1]: number
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if "# here: " in line
    }
    # A context entered in another function than those on the stack has no place.
    assert seen == {
        ("jax_default_matmul_precision", "'highest'"): places["precision"],
        ("jax_numpy_dtype_promotion", "'strict'"): places["update"],
        ("jax_default_matmul_precision", "'float32'"): None,
        ("mesh", "with mesh{data:1}"): places["mesh"],
        ("jax_numpy_rank_promotion", "'warn'"): places["rank"],
    }

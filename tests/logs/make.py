"""Makes the logs that the tests import, each from a real run of one release of JAX.

    python tests/logs/make.py PYTHON...

Each PYTHON is the interpreter of an environment with retrace and one release of JAX. The program
below runs in it under recording, with JAX's own logs switched on: the log becomes
`jax-VERSION.log.gz`, and what the recording of the same process says of each compilation
`jax-VERSION.json`. What is imported from the log is held to that.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = Path("/tmp/retrace-logs")

PROGRAM = """
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_compilation_cache_dir", "cache")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@jax.jit
def step(state, batch):
    return jax.tree.map(lambda part: part + jnp.sum(batch["x"]), state)


@functools.partial(jax.jit, static_argnums=2)
def head(x, scale, size):
    return x[:size] * scale


@jax.jit
def inner(x):
    return x * 3


@jax.jit
def outer(x):
    return inner(x) + inner(x[:2]).sum()


@jax.jit
def refuse(x):
    raise ValueError("no")


@jax.jit
def shown(x):
    jax.debug.print("x {}", x)
    return x


class Model:
    def __call__(self, x):
        return x + 1

    def apply(self, x):
        return x * 2


state = {"a": np.zeros(3, "float32"), "b": np.ones((2, 2), "float32")}
batch = np.ones((4, 8), "float32")
step(state, {"x": batch})
step(state, {"x": batch[:3]})
step(state, {"x": batch[:3], "mask": None})
step(state, {"x": batch[:3], "mask": batch[0]})
step(state, {"x": batch.astype("int32")})
step(state=state, batch={"x": batch[:2]})
data = np.arange(16, dtype="float32")
head(data, 1.0, 2)
head(data, 1.0, 3)
head(data[:9], 1.0, 4)  # shape and static argument at once
head(data[:9], np.float32(1), 4)
head(data[:5], 1.0, 4)
for _ in range(3):
    jax.jit(lambda x: x * 2)(data)
for _ in range(2):
    jax.jit(functools.partial(lambda y, x: x + y, 1.0))(data)
    jax.jit(jax.grad(lambda x: jnp.sum(x**2)))(data)
    jax.jit(Model())(data)
    jax.jit(Model().apply)(data)
jax.grad(lambda p: jnp.sum(step({"a": p}, {"x": batch})["a"]))(np.ones(3, "float32"))
with jax.default_matmul_precision("float32"):
    outer(data)
outer(data)
outer(data[:7])
jax.eval_shape(outer, data[:8])
outer(data[:8])
for _ in range(2):
    try:
        refuse(data)
    except ValueError:
        pass
shown(data)
jax.clear_caches()
inner(data)
jax.jit(inner, donate_argnums=0)(jnp.asarray(data))
inner(jax.device_put(data, jax.devices()[0]))
big = np.arange(1 << 20, dtype="float32")
jax.jit(lambda x: x + jnp.asarray(big))(np.float32(1))
jnp.concatenate([jnp.ones(3), jnp.ones(4)]).mean()
for _ in range(2):
    jax.lax.scan(lambda c, x: (c + x, c), 0.0, data)
jax.pmap(lambda x: x + 1)(np.ones((1, 3), "float32"))
lowered = step.lower(state, {"x": batch[:1]})
inner(data[:6])
lowered.compile()
"""


def make(python: str) -> None:
    """One release."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    (FOLDER / "program.py").write_text(PROGRAM)
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_LOG_COMPILES": "1",
        "JAX_EXPLAIN_CACHE_MISSES": "1",
        "JAX_ENABLE_COMPILATION_CACHE": "1",
    }
    retrace = [python, "-m", "retrace"]
    run = [*retrace, "run", "--quiet", "--force", "-o", "recorded", "program.py"]
    done = subprocess.run(run, cwd=FOLDER, env=environment, capture_output=True, check=True)
    report = [*retrace, "report", "recorded", "--format", "json"]
    told = json.loads(subprocess.run(report, cwd=FOLDER, capture_output=True, check=True).stdout)
    version = told["runs"][0]["jax"]
    expected = {
        "jax": version,
        "misses": [
            [
                miss["function"]["jax_name"],
                miss["function"]["name"],
                miss["cause"],
                sorted(name for name, took in miss["stages"].items() if took is not None),
                miss["stages"]["compile"],
                None if miss["persistent_cache"] is None else miss["persistent_cache"]["outcome"],
            ]
            for miss in told["misses"]
        ],
    }
    log = done.stderr.replace(os.fsencode(Path(python).parent.parent), b"/env")
    data = gzip.compress(log, mtime=0)
    (HERE / f"jax-{version}.log.gz").write_bytes(data)
    (HERE / f"jax-{version}.json").write_text(json.dumps(expected, indent=None) + "\n")


if __name__ == "__main__":
    for interpreter in sys.argv[1:]:
        make(interpreter)

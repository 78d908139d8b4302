"""One process of a job whose last process does otherwise: each case is a recording of its own.

    python job.py PORT INDEX COUNT OUT

The last case hangs, as a job does of which one process calls what the others do not: whoever
started it ends it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import retrace

port, index, count, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
ODD = count - 1
"""The process that does otherwise."""
odd = index == ODD
jax.distributed.initialize(f"localhost:{port}", num_processes=count, process_id=index)
rows = NamedSharding(Mesh(np.array(jax.devices()), ("hosts",)), PartitionSpec("hosts"))


def shared(*shape: int) -> jax.Array:
    """An array of which each process has a part."""
    return jax.make_array_from_process_local_data(rows, np.ones((1, *shape), np.float32))


def sizes(usual: int, other: int) -> np.ndarray:
    return np.ones((other if odd else usual, 4), np.float32)


def equal() -> None:
    @jax.jit
    def step(x):
        return (x @ x.T).sum()

    step(shared(8))
    step(shared(4))


def later_shape() -> None:
    @jax.jit
    def step(batch):
        return batch["x"].sum() + batch["y"]

    for number in range(3):
        step({"x": sizes(8, 7 if number == 2 else 8), "y": 1.0})


def later_static() -> None:
    def step(x, n):
        return x * n

    jitted = jax.jit(step, static_argnums=1)
    for number in range(3):
        jitted(np.ones(3, np.float32), 5 if odd and number else 2)


scale = 3.0 if odd else 2.0


def first_program() -> None:
    @jax.jit
    def step(x):
        return x * scale + 1

    step(shared(2))


def first_shape() -> None:
    x = jnp.ones((7 if odd else 8, 4))

    @jax.jit
    def step(x):
        return x.sum()

    step(x)


def precision() -> None:
    if odd:
        jax.config.update("jax_default_matmul_precision", "highest")

    @jax.jit
    def step(x):
        return x @ x.T

    step(np.ones((4, 4), np.float32))
    jax.config.update("jax_default_matmul_precision", None)


def flags() -> None:
    # As it would stand in the environment of a process that was started otherwise.
    os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=true" if odd else ""
    try:
        with retrace.recording(dir=out / "flags"):
            step = jax.jit(lambda x: x + 1)
            step(shared(3))
    finally:
        del os.environ["XLA_FLAGS"]


def random_constant() -> None:
    identity = float(index)

    @jax.jit
    def step(x):
        return x + identity

    step(np.ones(3, np.float32))


def extra_call() -> None:
    @jax.jit
    def step(x):
        return x.sum()

    @jax.jit
    def extra(x):
        return x.max()

    step(shared(5))
    if odd:
        extra.lower(shared(6)).compile()  # to run it would wait for the others, who do not


def logs_more() -> None:
    @jax.jit
    def step(x):
        return x.sum()

    step(shared(6))
    if odd:
        jax.jit(lambda x: x.max())(np.ones(3))
        print(float(jnp.arange(5).mean()))
        jax.eval_shape(step, np.ones(17))


def threads() -> None:
    @jax.jit
    def step(x):
        return x * 2

    @jax.jit
    def other(x):
        return x * 3

    calls: list[Callable[[], object]] = [
        lambda: step(np.ones(3)),
        lambda: other(np.ones(3)),
        lambda: step(np.ones(4)),
        lambda: other(np.ones(5)),
    ]
    workers = [threading.Thread(target=one) for one in (reversed(calls) if odd else calls)]
    for worker in workers:
        worker.start()
        if index % 2:
            worker.join()
    for worker in workers:
        worker.join()


def placed() -> None:
    here = jax.local_devices()
    local = NamedSharding(Mesh(np.array(here), ("d",)), PartitionSpec("d"))

    @jax.jit
    def step(x):
        return jax.lax.with_sharding_constraint(x * 2, local)

    step(jax.device_put(np.ones(4, np.float32), here[0]))
    jax.jit(lambda x: x, out_shardings=local)(np.ones(4, np.float32))


def evicted() -> None:
    @jax.jit
    def step(x):
        return x * 2

    step(np.ones(3, np.float32))
    if odd:
        jax.clear_caches()
    step(np.ones(3, np.float32))


def hangs() -> None:
    @jax.jit
    def step(x):
        return x.sum()

    @jax.jit
    def extra(x):
        return x.max()

    step(shared(5)).block_until_ready()
    if odd:
        extra(shared(6)).block_until_ready()
    step(shared(5)).block_until_ready()
    threading.Event().wait()


flags()
for case in (
    equal,
    later_shape,
    later_static,
    first_program,
    first_shape,
    precision,
    random_constant,
    extra_call,
    logs_more,
    threads,
    placed,
    evicted,
    hangs,
):
    with retrace.recording(dir=out / case.__name__):
        case()

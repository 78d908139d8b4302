"""One process of a job that agrees on its programs, or does not; it prints what came of each.

python agreeing.py PORT INDEX COUNT
"""

from __future__ import annotations

import json
import sys
import threading
import time

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import retrace
from retrace.guards.agreement import Agreement, Published
from retrace.jax_internals.job import joined

port, index, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
LAST = count - 1
jax.distributed.initialize(f"localhost:{port}", num_processes=count, process_id=index)
rows = NamedSharding(Mesh(np.array(jax.devices()), ("hosts",)), PartitionSpec("hosts"))


def shared(*shape):
    return jax.make_array_from_process_local_data(rows, np.ones((1, *shape), np.float32))


def tell(case, make):
    began = time.monotonic()
    try:
        make()
        said = None
    except retrace.RetraceError as error:
        said = f"{type(error).__name__}: {error}"
    print(json.dumps({"case": case, "said": said, "took": time.monotonic() - began}), flush=True)


@jax.jit
def step(x):
    return x.sum()


def compiled(function, *shape):
    """To run it would take all processes; what is compared is compared before."""
    return lambda: function.lower(shared(*shape)).compile()


retrace.agree("raise", timeout=2.0)
tell("equal", lambda: step(shared(4)).block_until_ready())
if index == 1:
    jax.clear_caches()
tell("again", lambda: step(shared(4)).block_until_ready())
tell("alone", lambda: jax.jit(lambda x: x * index)(np.ones(3 + index, np.float32)))
scale = 3.0 if index == LAST else 2.0


@jax.jit
def other(x):
    return x.sum() * scale


tell("other program", compiled(other, 5))
tell("other shape", compiled(step, 7 if index == LAST else 6))


@jax.jit
def late(x):
    return x.sum() * 7


if index == LAST:
    time.sleep(3)
tell("late", compiled(late, 4))
retrace.agree("warn")
other = jax.jit(lambda x: x.max() * scale)
tell("warned", compiled(other, 5))
retrace.agree("off")
tell("off", compiled(jax.jit(lambda x: x.min() * scale), 5))


def many() -> None:
    """256 processes, each with a connection of its own to the store, as far as it can tell."""
    job = joined()
    assert job is not None
    found = {}

    def one(process):
        agreement = Agreement(job.store, process, 60.0)
        program = Published("many.py:1 f", "f", "equal", {})
        assert agreement.meet(program, range(256), print) is None
        odd = Published("many.py:2 g", "g", "odd" if process == 77 else "even", {})
        found[process] = agreement.meet(odd, range(256), print)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(256)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 256 and None not in found.values(), found
    assert {one.process for number, one in found.items() if number != 77} == {77}, found


if index == 0:
    tell("many", many)

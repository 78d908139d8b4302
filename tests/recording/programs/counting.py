"""Counts with `retrace.counts` beside JAX's own events, in many threads, with recordings around.

python counting.py RECORDING FILE   writes what each counted, and the microseconds of one call
"""

import json
import runpy
import sys
import timeit
from collections import Counter
from pathlib import Path

import jax
from jax._src import util

ran = []
_NAMES = {"jaxpr_to_mlir_module_duration": "lower", "backend_compile_duration": "compile"}


def on_duration(event, duration_secs, **metadata):
    name = _NAMES.get(event.rpartition("/")[2])
    if name:
        ran.append(name)


def on_test_event(name, *args):
    if name in ("trace_to_jaxpr", "create_pjit_jaxpr"):
        ran.append("trace")


jax.monitoring.register_event_duration_secs_listener(on_duration)
util.test_event_listener = on_test_event

import retrace  # noqa: E402

began = retrace.counts()
here = Path(__file__).parent
runpy.run_path(str(here / "threads.py"))
with retrace.recording(), retrace.recording(sys.argv[1]):
    jax.jit(lambda x: x + 1)(1.0)
    runpy.run_path(str(here / "threads.py"))
again = retrace.recording()
with again:
    jax.jit(lambda x: x + 2)(1.0)
jax.jit(lambda x: x + 3)(1.0)
counted = retrace.counts()
own = Counter(ran)
step = jax.jit(lambda x: x * 2)
step(1.0)
before = retrace.counts()
for _ in range(1000):
    step(1.0)
after = retrace.counts()
jax.monitoring.clear_event_listeners()
step(2)
try:
    told = str(retrace.counts())
except retrace.RetraceError as error:
    told = type(error).__name__
anew = retrace.counts()
said = json.dumps(
    {
        "counted": [counted.traces, counted.lowerings, counted.compiles],
        "own": [own["trace"], own["lower"], own["compile"]],
        "since": [began.since, counted.since, anew.since],
        "began": list(began[:3]),
        "hits": [list(before), list(after)],
        "told": told,
        "anew": list(anew[:3]),
        "microseconds": min(timeit.repeat(retrace.counts, number=1000)) * 1000,
    },
)
Path(sys.argv[2]).write_text(said)

"""Runs a program and writes what JAX itself counts: stages by events, traces by its test slot.

python counted.py COUNTS RECORDING PROGRAM     RECORDING "-": plain, without retrace
"""

import json
import runpy
import sys
from collections import Counter
from pathlib import Path

counts, recording, program = sys.argv[1:4]

import jax  # noqa: E402
from jax._src import util  # noqa: E402

ran: list[str] = []  # of all threads
_NAMES = {"jaxpr_to_mlir_module_duration": "lower", "backend_compile_duration": "compile"}


def on_duration(event: str, duration_secs: float, **metadata: object) -> None:
    name = _NAMES.get(event.rpartition("/")[2])
    if name:
        ran.append(name)


def on_test_event(name: str, *args: object) -> None:
    if name in ("trace_to_jaxpr", "create_pjit_jaxpr"):
        ran.append("trace")


jax.monitoring.register_event_duration_secs_listener(on_duration)
util.test_event_listener = on_test_event

if recording != "-":
    from retrace.capture.session import start

    start(Path(recording))

sys.argv = [program]
try:
    runpy.run_path(program, run_name="__main__")
finally:
    Path(counts).write_text(json.dumps(Counter(ran)))

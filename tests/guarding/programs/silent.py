"""Guards on a JAX that has every name of the table and stops telling what it does.

Each case runs in a child that is forked before JAX has touched a device, and prints which
events were silent, what was done inside the guard, whether JAX counted its work, and what the
guard made of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src import dispatch, util
from jax._src.interpreters import partial_eval

import retrace
from retrace.capture.session import session
from retrace.guards import watch
from retrace.jax_internals import witness

EVENTS = {
    "lower": "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "compile": "/jax/core/compile/backend_compile_duration",
}
ALL = "trace lower compile"
CASES = (
    ("nothing", "call", True),
    ("nothing", "nothing", True),
    ("nothing", "nothing", False),
    ("nothing", "earlier", False),
    (ALL, "call", True),
    (ALL, "trace", True),
    (ALL, "lower", True),
    (ALL, "compile", True),
    (ALL, "cleared", True),
    (ALL, "nothing", True),
    (ALL, "nothing", False),
    ("trace", "trace", True),
    ("lower", "lower", True),
    ("compile", "compile", True),
    ("lower compile", "call", True),
)


def silence(kinds: list[str]) -> None:
    if "trace" in kinds:
        for module in (util, partial_eval):  # which has it by its own name in some releases
            if hasattr(module, "test_event"):
                setattr(module, "test_event", lambda *_: None)  # noqa: B010
    mute = [EVENTS[kind] for kind in kinds if kind in EVENTS]

    def only(send: Any) -> Any:
        return lambda event, *a, **k: None if event in mute else send(event, *a, **k)

    for name in ("record_event_duration_secs", "record_scalar"):
        if hasattr(dispatch, name):  # jax 0.6.0 has no scalar events
            setattr(dispatch, name, only(getattr(dispatch, name)))


def case(silent: str, work: str, counts: bool) -> str:
    if not counts:
        setattr(witness, "_counts", dict)  # noqa: B010
    x = np.ones(3, np.float32)
    jitted: Any = jax.jit(lambda x: x * 3)
    warm: Any = jax.jit(lambda x: x * 2)
    warm(x)
    if work == "earlier":
        with retrace.recording():
            warm(np.ones(4, np.float32))
    lowered: Any = jitted.lower(x) if work == "compile" else None
    does: dict[str, Callable[[], object]] = {
        "nothing": lambda: warm(x),
        "earlier": lambda: warm(x),
        "call": lambda: jitted(x),
        "trace": lambda: jax.eval_shape(jitted, x),
        "lower": lambda: jitted.lower(x),
        "compile": lambda: lowered.compile(),
        "cleared": lambda: (jax.clear_caches(), jitted(x)),
    }
    silence(silent.split())
    try:
        with retrace.assert_no_retrace():
            does[work]()
    except AssertionError as error:
        return str(error)
    return "passed"


def main() -> None:
    assert session() and watch.watch()
    found: list[list[Any]] = []
    for one in CASES:
        reading, writing = os.pipe()
        if not (child := os.fork()):
            try:
                said = case(*one)
            except BaseException as error:  # noqa: BLE001 - any error is reported
                said = f"raised {error!r}"
            os.write(writing, said.encode()[:4000])
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as told:
            found.append([*one, told.read()])
        os.waitpid(child, 0)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""Compiles a module alone under XLA's profiler, if the recording has no profile of it.

Runs in a separate process and answers in JSON, in the format of a recording.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax

from retrace.capture.kernels import kernels
from retrace.jax_internals.alone import compiled, filled, require, warm
from retrace.jax_internals.events import COMPILE
from retrace.jax_internals.profile import Profile
from retrace.jax_internals.xspace import compilation
from retrace.model import Slow
from retrace.model.slow import Compiling
from retrace.store.slow import encode_slow


def answer(given: dict[str, Any]) -> dict[str, Any]:
    """Its passes and lines, and the seconds it took; `unprofiled` if there is no profile."""
    platform = given["options"][-1]
    require(platform)
    text, _ = filled(given["text"])
    warm(platform)
    profile = Profile()
    if (why := profile.begin()) is not None:
        return {"unprofiled": why}
    # As JAX announces it; elsewhere than on CPUs nothing else tells when it began.
    with jax.profiler.TraceAnnotation(COMPILE):
        timed = compiled(text, *given["options"])
    if (data := profile.end()) is None:
        return {"unprofiled": "jax"}
    found = compilation(data)
    rows, named = kernels(
        timed.executable.hlo_modules()[0].to_string(),
        found.kernels,
        found.machine,
        found.ordered,
    )
    seen = Compiling(found.passes, rows, named, found.threads)
    return {"slow": encode_slow(Slow(compiling=seen)), "seconds": timed.seconds}


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)

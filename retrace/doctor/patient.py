"""What `retrace doctor` runs in a separate process: JAX, a real miss, the guards.

It saves its facts after each step, so that they survive a JAX that kills the process (a signal,
an abort inside XLA).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from retrace.failure import contain

# Compiled under another file name, since lines inside this package count as retrace's own.
_SUBJECT = """
import jax
import numpy as np

def made():
    @jax.jit
    def subject(x):
        return x * 2
    return subject

def called(subject, size):
    subject(np.ones(size, np.float32))
"""
_STAGES = ("trace", "lower", "compile")


def main(out: str) -> None:
    """Examine, and write the facts as JSON to a file."""
    facts: dict[str, Any] = {}
    for name, step in _STEPS:
        facts[name] = _found(step)
        Path(f"{out}.new").write_text(json.dumps(facts))
        os.replace(f"{out}.new", out)
        if name == "jax" and "error" in facts[name]:
            break


def _found(step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a step finds; any error is a finding."""
    errors: list[Exception] = []
    found = contain(errors.append, step) or {}
    return {"error": f"{type(errors[0]).__name__}: {errors[0]}"} if errors else found


def _jax() -> dict[str, Any]:
    import jax

    return {"jax": jax.__version__}


def _backend() -> dict[str, Any]:
    import jax

    return {"backend": jax.default_backend()}


def _names() -> dict[str, Any]:
    from retrace.jax_internals import names

    absent = [
        {"name": row.name, "where": row.where, "lost": row.lost, "without": row.without}
        for row in names.absent()
    ]
    return {"known": len(names.TABLE), "absent": absent}


def _recording() -> dict[str, Any]:
    import retrace

    made, called = _subject()
    with retrace.recording() as recorded:
        subject = made()
        for size in (2, 3, 3):
            called(subject, size)
    misses = [miss for miss in recorded.misses if miss.function.name == "subject"]
    said: list[str] = []
    if len(misses) != 2:
        said.append(f"{len(misses)} misses were recorded for a function that JAX compiled twice")
    said += [
        f"the {stage} stage of a miss was not seen"
        for stage in _STAGES
        if any(getattr(miss.stages, stage) is None for miss in misses)
    ]
    causes = [str(miss.cause) for miss in misses]
    if misses and causes != ["first-trace", "shape-changed"]:
        said.append(f"a changed shape was reported as {' and '.join(causes[1:] or causes)}")
    return {"works": not said, "said": said}


def _guards() -> dict[str, Any]:
    import retrace
    from retrace.errors import ExceededError, MissError

    said: list[str] = []
    made, called = _subject()
    for name, guard, error in (
        ("assert_max_traces", lambda: retrace.assert_max_traces("subject", 0), ExceededError),
        ("assert_no_retrace", retrace.assert_no_retrace, ExceededError),
        ("freeze", retrace.freeze, MissError),
    ):
        said += _tried(name, guard, error, lambda: called(made(), 4))
    subject = made()
    called(subject, 5)
    try:
        with retrace.assert_no_retrace():
            called(subject, 5)
    except AssertionError as error:
        said.append(f"assert_no_retrace does not pass: {_first_line(error)}")
    return {"works": not said, "said": said}


def _tried(
    name: str, guard: Callable[[], Any], expected: type[Exception], call: Callable[[], None]
) -> list[str]:
    """Problems with a guard that must not let a call pass."""

    def guarded() -> None:
        with guard():
            call()

    errors: list[Exception] = []
    contain(errors.append, guarded)
    if not errors:
        return [f"{name} let a miss pass"]
    return [f"{name}: {_first_line(one)}" for one in errors if not isinstance(one, expected)]


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _subject() -> tuple[Callable[[], Any], Callable[[Any, int], None]]:
    names: dict[str, Any] = {"__name__": "subject"}
    exec(compile(_SUBJECT, "<doctor>", "exec"), names)  # noqa: S102 - our own code
    return names["made"], names["called"]


_STEPS: tuple[tuple[str, Callable[[], dict[str, Any]]], ...] = (
    ("jax", _jax),
    ("names", _names),
    ("backend", _backend),
    ("recording", _recording),
    ("guards", _guards),
)

if __name__ == "__main__":
    main(sys.argv[1])

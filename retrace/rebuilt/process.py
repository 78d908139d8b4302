"""Compiles in a separate process and summarises in one line what went wrong there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from retrace.errors import UsageError
from retrace.rebuilt.script import Timed, timed

_UNKNOWN = re.compile(r"Unknown flags? in XLA_FLAGS: (.*)")
_VALUE = re.compile(r"Couldn't interpret value (.*) for flag (\S+?)\.?$", re.MULTILINE)
_ELSEWHERE = re.compile(r"^the program was compiled for .*", re.MULTILINE)
_ERROR = re.compile(r"[\w.]*(?:Error|Exception): ")
_MAX_MESSAGE = 200


def compile_alone(script: str, flags: Sequence[str] = ()) -> Timed:
    """How long a script's program took to compile.

    Args:
        script: a script that retrace wrote.
        flags: XLA flags in addition to those of the recorded process.

    Raises:
        UsageError: XLA does not know a flag, or the program could not be compiled.
    """
    with tempfile.TemporaryDirectory(prefix="retrace-") as folder:
        path = Path(folder, "alone.py")
        path.write_text(script, encoding="utf-8")
        output = run([str(path)], {"XLA_FLAGS": " ".join(flags)})
    if (found := timed(output)) is None:
        raise UsageError("the program was not compiled, for no stated reason")
    return found


def run(arguments: Iterable[str], variables: Mapping[str, str], given: str = "") -> str:
    """The output of a Python in this environment, without recording or JAX's on-disk cache.

    Raises:
        UsageError: the process failed.
    """
    around = {**os.environ, "RETRACE": "0", "JAX_ENABLE_COMPILATION_CACHE": "0", **variables}
    ended = subprocess.run(  # noqa: S603 - this interpreter, and what we wrote
        [sys.executable, *arguments],
        input=given,
        env=around,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if ended.returncode:
        raise UsageError(_why(ended.stderr, ended.returncode))
    return ended.stdout


def _why(said: str, code: int) -> str:
    if (unknown := _UNKNOWN.search(said)) is not None:
        return f"XLA does not know {unknown[1].strip()[:_MAX_MESSAGE]}"
    if (value := _VALUE.search(said)) is not None:
        return f"XLA cannot use {value[1][:_MAX_MESSAGE]!r} as the value of {value[2]}"
    if (elsewhere := _ELSEWHERE.search(said)) is not None:
        return elsewhere[0][:_MAX_MESSAGE]
    if "No module named 'jax'" in said:
        return "jax is not installed here, and nothing can be compiled without it"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    raised = [line for line in lines if _ERROR.match(line)]
    last = next(iter(raised or lines[-1:]), f"exit code {code}")
    return f"the program could not be compiled on its own: {last[:_MAX_MESSAGE]}"

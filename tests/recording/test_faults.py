"""Every function that runs while a program is recorded may raise; the program goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.drawn

FAULTS = Path(__file__).parent / "programs" / "faults.py"

AT_THE_END = frozenset(
    (
        "capture/recorder.py Recorder.ended",
        "jax_internals/shardings.py forget",
        "store/sinks.py Memory.close",
        "store/writer.py Writer.close",
        "store/writer.py Writer.end",
    )
)
"""The recording is closed then: nothing can be counted in it any more."""

OF_WHO_WRITES = "capture/background.py let_go"
"""Where the thread that writes cannot let go of its lock, it may be too late to count that:
whether it is depends on which thread comes first."""
_TRIES = 5

AS_THE_USERS_OWN = (
    "capture/objects.py _array_type",
    "capture/tokens.py Tokens._find_equal",
    "capture/tokens.py Tokens._forget_equal",
)
"""They run what the user wrote, or are run beside it, which may raise: the value is then one
that cannot be told."""

CALLED_BY_PYTHON = frozenset(
    (
        "capture/function.py Functions._forget",
        "capture/misses.py Misses._forget",
        "capture/tokens.py _forget_equal",
        "capture/tokens.py _forget_number",
    )
)
"""When an object has died; Python itself reports what they raise and goes on."""


def test_a_function_of_ours_that_raises_costs_the_recording_alone(tmp_path: Path) -> None:
    wrong = _all_wrong(tmp_path / "results.json")
    for _ in range(_TRIES):
        if wrong.keys() != {OF_WHO_WRITES}:
            break
        wrong = _all_wrong(tmp_path / "results.json")
    assert wrong == {}


def _all_wrong(results: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, str(FAULTS), str(results)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = [
        result for result in json.loads(results.read_text()) if result["raised"]
    ]
    assert len(found) > 150, "few functions were made to raise: are they still looked for?"
    return {result["function"]: why for result in found if (why := _wrong(result))}


def _wrong(result: dict[str, Any]) -> str | None:
    function, told = result["function"], result["told"]
    if result["said"] != result["plain"]:
        return "the program said something else"
    if result["last"] != "last" or "lower" not in result["stages"]:
        return "a later miss was not recorded"
    if function in CALLED_BY_PYTHON or (function.startswith(AS_THE_USERS_OWN) and not told):
        return None
    if told.count("retrace: a failure") != 1:
        return f"not reported once: {told!r}"
    if function not in AT_THE_END and not result["losses"]:
        return "the loss was not counted"
    return None

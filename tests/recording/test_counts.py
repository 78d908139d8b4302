"""What was recorded is what JAX itself counts, and recording changes none of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from retrace.causes import Cause
from retrace.model import Stage
from retrace.reason.verdict import judge
from retrace.store.reader import read

pytestmark = pytest.mark.drawn

PROGRAMS = Path(__file__).parent / "programs"


def run(
    program: Path, recording: Path | None, tmp_path: Path, **more: str
) -> tuple[dict[str, int], str]:
    counts = tmp_path / "counts.json"
    done = subprocess.run(
        [
            sys.executable,
            str(PROGRAMS / "counted.py"),
            str(counts),
            str(recording or "-"),
            str(program),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, **more},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "retrace:" not in done.stderr, done.stderr
    return json.loads(counts.read_text()), done.stdout


@pytest.mark.parametrize("name", ["many_ways.py", "threads.py"])
def test_counts(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "recording"
    directory.mkdir()
    plain, said = run(PROGRAMS / name, None, tmp_path)
    # Long misses are observed more closely too: that changes no number either.
    slow = {"RETRACE_SLOW": "0.01"} if name == "threads.py" else {}
    counted, also_said = run(PROGRAMS / name, directory, tmp_path, **slow)
    if name != "threads.py":  # who comes first, and who waits, is another at each run
        assert counted == plain
    assert also_said == said
    recording = read([directory])
    assert recording.runs[0].losses == {}
    misses = recording.misses
    assert sum(Stage.COMPILE in miss.stages for miss in misses) == counted["compile"]
    assert sum(Stage.LOWER in miss.stages for miss in misses) == counted["lower"]
    assert all(miss.in_flight is None for miss in misses)
    assert all(verdict.cause is not Cause.UNKNOWN for verdict in judge(recording))
    # A trace of JAX's own inside a miss is one of its `inner`.
    traced = sum(Stage.TRACE in miss.stages for miss in misses)
    assert traced <= counted["trace"] <= traced + sum(miss.inner for miss in misses) + len(misses)


def test_counts_as_jax_does_in_many_threads(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    done = subprocess.run(
        [
            sys.executable,
            str(PROGRAMS / "counting.py"),
            str(tmp_path / "recording"),
            str(told),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(told.read_text())
    assert said["began"] == [0, 0, 0]
    assert said["counted"] == said["own"] and min(said["own"]) > 50
    began, counted, anew = said["since"]
    assert began == counted < anew
    before, after = said["hits"]
    assert before == after
    # What was taken out of JAX cannot have counted: that is told once, and counted anew.
    assert said["told"] == "RetraceError" and said["anew"] == [0, 0, 0]


_WITHOUT = """
import sys
import jax
from jax._src import dispatch, util
if sys.argv[1] == "slot":
    del util.test_event_listener
else:
    dispatch.BACKEND_COMPILE_EVENT = "/jax/core/compile/another"
import retrace
try:
    print(retrace.counts())
except retrace.RetraceError as error:
    print("cannot tell:", error)
"""


@pytest.mark.parametrize("missing", ["slot", "event"])
def test_counts_are_refused_where_this_jax_does_not_tell(missing: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, missing],
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ,
        check=False,
    )
    said = "of a trace" if missing == "slot" else "of compilation"
    assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr

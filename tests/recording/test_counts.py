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

PROGRAMS = Path(__file__).parent / "programs"


def run(program: Path, recording: Path | None, tmp_path: Path) -> tuple[dict[str, int], str]:
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
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
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
    counted, also_said = run(PROGRAMS / name, directory, tmp_path)
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

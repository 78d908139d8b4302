"""The commands about programs, run on the example with each kind of difference."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.drawn

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "program_changes.py"


def retrace(*arguments: str, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "retrace", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=os.environ | {"NO_COLOR": "1"},
    )
    assert done.returncode == code, done.stderr
    return done.stdout if not code else done.stderr


def test_without_misses_there_is_no_program_to_count(tmp_path: Path) -> None:
    (tmp_path / "quiet.py").write_text("import jax")
    retrace("run", "--quiet", "--out", "recording", "quiet.py", cwd=tmp_path)
    assert "no misses were" in retrace("programs", "recording", cwd=tmp_path, code=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs")
    retrace("run", "--quiet", "--out", "recording", str(EXAMPLE), cwd=path)
    return path


def test_each_kind_of_difference_is_reported(folder: Path) -> None:
    report = json.loads(
        retrace("report", "recording", "--function", "step", "--format", "json", cwd=folder)
    )
    found = [(miss["program"]["change"], miss["avoidable"]) for miss in report["misses"]]
    assert found == [
        (None, "no"),
        ("shapes-only", "maybe"),
        ("constants-only", "yes"),
        ("repeated", "maybe"),
        ("different", "no"),
        ("identical", "yes"),
    ]
    evidence = [" ".join(miss["program"]["evidence"]) for miss in report["misses"]]
    assert "axis 0 of x (32 -> 17)" in evidence[1]
    assert "0.1 -> 0.2" in evidence[2]
    assert "now runs mul and tanh 7 times instead of 3" in evidence[3]
    assert "now runs abs" in evidence[4]
    assert evidence[5] == ""


def test_show_prints_the_equations_that_differ(folder: Path) -> None:
    printed = retrace("show", "step #5", "recording", "--program", cwd=folder)
    assert re.search(r"^  \+ abs\(\w+\) -> f32\[32,8\]", printed, re.MULTILINE)
    assert any(line.startswith("  - ") for line in printed.splitlines())
    short = retrace("show", "step #5", "recording", cwd=folder)
    assert len(short.splitlines()) < min(40, len(printed.splitlines()))
    assert "  + abs(" not in short
    assert "--program" in short and "--program" not in printed


def test_programs_counts_equations_by_line(folder: Path) -> None:
    printed = retrace(
        "programs", "recording", "--function", "step", "--pprof", "equations.pb.gz", cwd=folder
    )
    assert "equations in 5 programs" in printed
    assert "program_changes.py:17 step" in printed.replace("  ", " ")
    assert (folder / "equations.pb.gz").read_bytes().startswith(b"\x1f\x8b")


def test_diff_of_two_misses_and_of_two_recordings(folder: Path) -> None:
    printed = retrace("diff", "step #1", "step #4", "--recording", "recording", cwd=folder)
    assert "are repeated" in printed
    assert "static depth: 3 -> 7" in printed
    assert "equal: 9 misses" in retrace("diff", "recording", "recording", cwd=folder)
    assert "no miss" in retrace(
        "diff", "step #1", "stop #9", "--recording", "recording", cwd=folder, code=2
    )

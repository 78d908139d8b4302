"""A recording and a pyproject.toml go in, what `retrace check` says comes out."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import numpy as np
import pytest

import retrace


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a recording of a function that is traced three times."""

    @jax.jit
    def train_step(x: object) -> object:
        return x

    with retrace.recording(tmp_path / "recorded"):
        for size in (2, 3, 4):
            train_step(np.ones(size, np.float32))
    return tmp_path


def run(project: Path, *arguments: str, budgets: str = "") -> subprocess.CompletedProcess[str]:
    (project / "pyproject.toml").write_text(textwrap.dedent(budgets))
    return subprocess.run(
        [sys.executable, "-m", "retrace", *arguments, "recorded"],
        capture_output=True,
        text=True,
        check=False,
        cwd=project,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "GITHUB_STEP_SUMMARY": str(project / "summary.md"),
        },
    )


def test_an_excess_is_explained(project: Path) -> None:
    budgets = """
    [tool.retrace.budgets."train_step"]
    traces = 2
    shape-changed = 1
    [tool.retrace.budgets."test_check.*"]
    seconds = 1000
    [tool.retrace.budgets."trian_step"]
    traces = 1
    """
    done = run(project, "check", budgets=budgets)
    assert done.returncode == 1, done.stderr
    assert "train_step was traced" in done.stdout and "float32[2] -> float32[3]" in done.stdout
    assert "missed twice by shape-changed" in done.stdout or "shape-changed" in done.stdout
    assert "did you mean" in done.stderr and "trian_step" in done.stderr
    done = run(project, "check", budgets='[tool.retrace.budgets."train_step"]\ntraces = 3\n')
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("budgets", "said"),
    [
        ("", "has no budgets"),
        ("[tool.retrace.budget]\n", "did you mean budgets"),
        ("[tool.retrace.budgets.f]\ntrace = 1\n", "did you mean traces"),
        ("[tool.retrace.budgets.f]\ntraces = -1\n", "a number from 0 on"),
        ("[tool.retrace.budgets.f]\nallow = ['shapes-changed']\ntraces = 1\n", "shape-changed"),
        ("[tool.retrace.budgets]\nf = 1\n", "is no table"),
        ("[tool\n", "is no TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_one_line(project: Path, budgets: str, said: str) -> None:
    done = run(project, "check", budgets=budgets)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and said in done.stderr


def test_github_gets_annotations_and_a_table(project: Path) -> None:
    done = run(project, "report", "--format", "github")
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert (
        first.startswith("::warning file=") and ",line=" in first and "title=retrace%3A" in first
    )
    assert done.stdout.count("::warning") <= 10
    assert "| seconds |" in (project / "summary.md").read_text()
    budgets = '[tool.retrace.budgets."train_step"]\ntraces = 1\n'
    done = run(project, "check", "--format", "github", budgets=budgets)
    assert done.returncode == 1 and done.stdout.count("::error") == 1
    assert "3 traces%2C budget 1" in done.stdout and "train_step was traced" in done.stderr

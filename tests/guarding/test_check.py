"""What `retrace check` reports for a recording and a pyproject.toml."""

from __future__ import annotations

import json
import os
import re
import signal
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
    """A folder with a recording of a function traced three times."""

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


@pytest.mark.drawn
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
    assert "shape-changed" in done.stdout
    assert "did you mean" in done.stderr and "trian_step" in done.stderr
    done = run(project, "check", budgets='[tool.retrace.budgets."train_step"]\ntraces = 3\n')
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.drawn
def test_processes_of_a_job_that_are_missing_are_told(project: Path) -> None:
    (file,) = (project / "recorded").glob("*.jsonl")
    of_job = re.sub(r'"process_count":(null|1)', '"process_count":2', file.read_text())
    file.write_text(of_job.replace('"process_index":null', '"process_index":0'))
    done = run(project, "check", budgets='[tool.retrace.budgets."train_step"]\ntraces = 3\n')
    assert done.returncode == 0, done.stderr
    assert "1 of 2 processes" in done.stderr


@pytest.mark.parametrize(
    ("budgets", "said"),
    [
        ("", "has no budgets"),
        ("[tool.retrace.budget]\n", "did you mean budgets"),
        ("[tool.retrace.budgets.f]\ntrace = 1\n", "did you mean traces"),
        ("[tool.retrace.budgets.f]\ntraces = -1\n", "0 or more, not -1"),
        ("[tool.retrace.budgets.f]\nallow = ['shapes-changed']\ntraces = 1\n", "shape-changed"),
        ("[tool.retrace.budgets]\nf = 1\n", "not a table"),
        ("[tool\n", "not valid TOML"),
    ],
)
def test_an_error_in_the_file_is_reported_in_one_line(
    project: Path, budgets: str, said: str
) -> None:
    done = run(project, "check", budgets=budgets)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and said in done.stderr


@pytest.mark.drawn
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


def test_an_excess_of_first_traces_is_annotated_too(project: Path) -> None:
    budgets = '[tool.retrace.budgets."train_step"]\nfirst-trace = 0\n'
    done = run(project, "check", "--format", "github", budgets=budgets)
    assert done.returncode == 1 and done.stdout.count("::error") == 1, done.stdout
    assert "1 first-trace%2C budget 0" in done.stdout
    assert "train_step missed JAX's caches once by first-trace" in done.stderr


def test_causes_that_fail_a_report_are_errors_and_come_first(project: Path) -> None:
    options = ("--format", "github", "--fail-on", "first-trace")
    done = run(project, "report", *options)
    assert done.returncode == 1
    first, second = done.stdout.splitlines()
    assert first.startswith("::error") and "--fail-on first-trace" in first
    assert second.startswith("::warning") and "--fail-on" not in second


def test_a_budget_that_never_matched_is_not_held(project: Path) -> None:
    held = '[tool.retrace.budgets."train_step"]\ntraces = 3\n'
    for name, told in (
        ("trian_step", ", did you mean train_step?"),
        ("zzz", "; recorded: train_step"),
    ):
        budgets = f'{held}[tool.retrace.budgets."{name}"]\ntraces = 1\n'
        done = run(project, "check", budgets=budgets)
        assert done.returncode == 2 and done.stdout == "", done.stderr
        assert f'the budget "{name}" never matched{told}\n' in done.stderr
        assert "1 of 2 budgets held, 1 never matched" in done.stderr
        done = run(project, "check", "--format", "github", budgets=budgets)
        assert done.returncode == 2
        line = f'::error title=retrace check::the budget "{name}" never matched{told}\n'
        assert done.stdout == line
        assert (
            f'- the budget "{name.replace("_", chr(92) + "_")}" never matched'
            in (project / "summary.md").read_text()
        ), "the summary"
        # Another program of the project may match it.
        done = run(project, "check", budgets=f"{budgets}optional = true\n")
        assert done.returncode == 0 and "1 of 2 budgets held, 1 never matched" in done.stderr


def test_why_nothing_can_be_checked_is_annotated(project: Path) -> None:
    for budgets, said in (("[tool\n", "not valid TOML"), ("", "has no budgets")):
        done = run(project, "check", "--format", "github", budgets=budgets)
        assert done.returncode == 2 and done.stdout.count("\n") == 1
        assert done.stdout.startswith("::error title=retrace check::") and said in done.stdout
    assert (project / "summary.md").read_text().count("# retrace check\n") == 2


@pytest.mark.parametrize("given", ["shap", "shapechanged", "static", "zzz"])
def test_a_misspelt_cause_names_the_nearest_and_lists_them_all(project: Path, given: str) -> None:
    meant = {"static": "static-argument-changed", "zzz": None}.get(given, "shape-changed")
    budget = f"[tool.retrace.budgets.f]\nallow = ['{given}']\ntraces = 1\n"
    for done in (
        run(project, "report", "--fail-on", given),
        run(project, "report", "--cause", given),
        run(project, "check", budgets=budget),
    ):
        assert done.returncode == 2
        assert ("did you mean" in done.stderr) is (meant is not None)
        assert (f", did you mean {meant}?" in done.stderr) is (meant is not None)
        assert "eager-op" in done.stderr and done.stderr.count("\n") == 1


KILLED = """
import os, signal, jax, numpy as np
step = jax.jit(lambda x: x)
for size in range(1, 4):
    step(np.ones(size, np.float32))
os.kill(os.getpid(), signal.SIGKILL)
"""
POOL = """
import multiprocessing

def work(_):
    import jax, numpy as np
    jax.jit(lambda x: x)(np.ones(1, np.float32))

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.map(work, range(2))
    import jax
    jax.jit(lambda x: x)(1.0)
"""


@pytest.mark.drawn
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system kills otherwise")
def test_a_killed_program_proves_no_budget(tmp_path: Path) -> None:
    def recorded(name: str, source: str, *options: str) -> int:
        (tmp_path / "program.py").write_text(source)
        command = ("run", "--quiet", *options, "--out", name, "program.py")
        done = subprocess.run(
            [sys.executable, "-m", "retrace", *command], cwd=tmp_path, check=False
        )
        return done.returncode

    assert recorded("recorded", KILLED) == -signal.SIGKILL
    held = '[tool.retrace.budgets."<lambda>"]\ntraces = 3\n'
    done = run(tmp_path, "check", budgets=held)
    assert done.returncode == 2 and "did not end" in done.stderr
    assert "budget" not in done.stderr and "exceed no limit" in done.stderr
    done = run(tmp_path, "check", "--update", budgets=held)
    assert done.returncode == 2 and not (tmp_path / "retrace-baseline.toml").exists()
    # An excess is one, whatever happened to the program later.
    done = run(tmp_path, "check", budgets=held.replace("3", "2"))
    assert done.returncode == 1 and "<lambda> was traced 3" in done.stdout
    assert "did not end" in done.stderr

    # Nor is a step of a plan confirmed by it.
    assert recorded("whole", KILLED.rpartition("os.kill")[0]) == 0
    done = run(tmp_path, "diff", "whole", "--expect", "1", "--format", "json")
    told = json.loads(done.stdout)["expected"]
    assert done.returncode == 1 and not told["came_true"] and len(told["cut_short"]) == 1
    told = json.loads(run(tmp_path, "plan", "--format", "json").stdout)
    assert [one["by"] for one in told["cut_short"]] == [None]
    assert "did not end" in run(tmp_path, "plan").stdout
    assert "did not end" in run(tmp_path, "diff", "whole", "--expect=1").stdout
    (tmp_path / "recorded").rename(tmp_path / "killed")
    # But a pool itself ends its workers by a signal.
    for source in (POOL, POOL.replace("spawn", "forkserver")):
        assert recorded("recorded", source, "--children", "--force") == 0
        done = run(tmp_path, "check", budgets=held)
        assert done.returncode == 0 and "1 budget held" in done.stderr, done.stderr

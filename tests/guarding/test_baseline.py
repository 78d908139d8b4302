"""`retrace check` on recorded programs: baselines and alarms."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from retrace.guards import baseline
from retrace.guards import project as settings

pytestmark = pytest.mark.drawn

PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np

class Model:
    @jax.jit
    def loss(x):
        return jnp.mean(x)

@jax.jit
def train_step(w, x):
    return w - jax.grad(Model.loss)(w * x)

def main():
    w = np.ones(3, np.float32)
    for size in map(int, sys.argv[1:] or "23"):
        train_step(w, np.ones((size, 1), np.float32).sum())
        jax.jit(lambda x: x + 1)(np.ones(size, np.float32))
        train_step(w, np.ones((size, 3), np.float32)[0])
        def add(c, x):
            return c + x, None
        jax.lax.scan(add, 0.0, w)
    jnp.linspace(0, 1, 5).sum()

main()
"""
WRITTEN = """\
# How often JAX's caches are missed here, by function and cause. Update it with
# `pytest --retrace-update` (tests) and `retrace check --update` (programs).
schema = "retrace-baseline/1"

[programs."app/train.py"]
"app/train.py::Model.loss" = { first-trace = 1 }
"app/train.py::main.<locals>.<lambda>" = { first-trace = 1, shape-changed = 1 }
"app/train.py::main.<locals>.add" = { control-flow-recreated = 1 }
"app/train.py::train_step" = { first-trace = 1, shape-changed = 1 }
"""


class Project:
    """A folder with a program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.baseline = folder / "retrace-baseline.toml"
        (folder / "app").mkdir(parents=True)
        (folder / "pyproject.toml").write_text("")
        (folder / "app" / "train.py").write_text(PROGRAM)

    def retrace(self, *arguments: str, within: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command in it or in a subfolder."""
        return subprocess.run(
            [sys.executable, "-m", "retrace", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=self.folder / within,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def record(self, into: str, *arguments: str, program: str = "app/train.py") -> None:
        """Record the program."""
        done = self.retrace("run", "-q", "-o", into, program, *arguments)
        assert done.returncode == 0, done.stderr

    def settings(self, text: str) -> None:
        """Write its pyproject.toml."""
        (self.folder / "pyproject.toml").write_text(textwrap.dedent(text))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a recording, and another of a run that misses more often."""
    project = Project(tmp_path_factory.mktemp("project") / "here")
    project.record("usual")
    project.record("more", "2", "3", "4")
    return project


@pytest.fixture
def project(recorded: Project) -> Project:
    """The same project with its baseline."""
    recorded.settings("")
    recorded.baseline.write_text(WRITTEN)
    return recorded


def test_it_is_written_once_and_then_checked(project: Project) -> None:
    project.baseline.unlink()
    done = project.retrace("check", "usual")
    assert done.returncode == 2 and "retrace check --update" in done.stderr
    done = project.retrace("check", "--update", "usual")
    assert done.returncode == 0 and "4 added" in done.stderr, done.stderr
    assert project.baseline.read_text() == WRITTEN
    assert '+"app/train.py::Model.loss" = { first-trace = 1 }' in done.stdout
    kept = project.baseline.stat().st_mtime_ns
    done = project.retrace("check", "--update", "usual")
    assert (done.returncode, done.stdout) == (0, "") and "up to date" in done.stderr
    assert project.baseline.stat().st_mtime_ns == kept
    done = project.retrace("check", "usual")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_new_misses_are_explained_as_a_diff(project: Project) -> None:
    done = project.retrace("check", "more")
    assert done.returncode == 1, done.stderr
    who = "app/train.py::main.<locals>.<lambda>"
    assert f"{who} missed JAX's caches 3 times, twice in" in done.stdout
    assert f'-"{who}" = {{ first-trace = 1, shape-changed = 1 }}' in done.stdout
    assert f'+"{who}" = {{ first-trace = 1, shape-changed = 2 }}' in done.stdout
    assert "control-flow-recreated +1" in done.stdout and "train_step missed" not in done.stdout
    assert "float32[2] -> float32[3]" in done.stdout and "defined again" in done.stdout
    done = project.retrace("check", "more", "--format", "github")
    assert done.returncode == 1 and "::error file=app/train.py,line=" in done.stdout
    assert f"{who} missed" in done.stderr
    assert project.baseline.read_text() == WRITTEN


def test_fewer_misses_are_reported_and_only_an_update_lowers_them(project: Project) -> None:
    project.baseline.write_text(
        WRITTEN.replace("shape-changed = 1 }", "shape-changed = 7 }").replace(
            "::Model.", "::Old."
        )
    )
    done = project.retrace("check", "usual")
    assert done.returncode == 0 and "3 entries of retrace-baseline.toml" in done.stderr
    assert '-"app/train.py::Old.loss"' in done.stdout
    # A function that was only traced for the first time is no regression.
    assert "not in retrace-baseline.toml yet: app/train.py::Model.loss" in done.stderr
    done = project.retrace("check", "--update", "usual")
    assert "1 added, 2 changed, 1 removed" in done.stderr
    assert project.baseline.read_text() == WRITTEN


def test_other_programs_and_tests_are_kept(project: Project) -> None:
    others = '\n[programs."other.py"]\n"other.py::f" = { first-trace = 2 }\n\n[tests]\n'
    project.baseline.write_text(WRITTEN + others)
    done = project.retrace("check", "--update", "usual")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert project.baseline.read_text() == WRITTEN + others
    (project.folder / "app" / "next.py").write_text("import jax\njax.jit(lambda x: x)(1)\n")
    project.record("next", program="app/next.py")
    done = project.retrace("check", "next")
    assert done.returncode == 0 and "no entry for app/next.py" in done.stderr, done.stderr
    done = project.retrace("check", "--update", "next")
    assert "1 added" in done.stderr, done.stderr
    assert WRITTEN.partition("[programs")[2] in project.baseline.read_text()
    assert others in project.baseline.read_text()


def test_a_recording_from_elsewhere_has_the_same_names(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "another" / "machine")
    other.record("usual", program=str(other.folder / "app" / "train.py"))
    done = project.retrace("check", "--update", str(other.folder / "usual"))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert project.baseline.read_text() == WRITTEN


def test_it_is_checked_from_a_subfolder_too(project: Project) -> None:
    done = project.retrace("check", "../more", within="app")
    assert done.returncode == 1 and "shape-changed" in done.stdout, done.stderr


def test_a_recording_above_the_project_is_ignored(project: Project, tmp_path: Path) -> None:
    shutil.copytree(project.folder / "usual", tmp_path / ".retrace" / "usual")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text('[tool.retrace.budgets."train_step"]\ntraces = 9\n')
    done = project.retrace("check", within=str(inner))
    assert done.returncode == 2 and "no recording" in done.stderr, done.stderr


def test_an_interrupted_recording_lowers_nothing(project: Project, tmp_path: Path) -> None:
    for file in (project.folder / "usual").glob("*.jsonl"):
        lines = file.read_text().splitlines(keepends=True)
        (tmp_path / file.name).write_text("".join(lines[: len(lines) // 2]))
    done = project.retrace("check", str(tmp_path))
    assert done.returncode == 2 and "app/train.py was not recorded" in done.stderr
    done = project.retrace("check", "--update", str(tmp_path))
    assert done.returncode == 2 and project.baseline.read_text() == WRITTEN, done.stderr


def test_budgets_and_baseline_are_checked_together(project: Project) -> None:
    project.settings(
        """
        [tool.retrace]
        baseline = "base.toml"
        [tool.retrace.budgets.train_step]
        traces = 1
        """
    )
    done = project.retrace("check", "--update", "usual")
    assert done.returncode == 1 and "train_step was traced" in done.stdout
    assert (project.folder / "base.toml").read_text() == WRITTEN
    project.settings("[tool.retrace]\nbaseline = 3\n")
    done = project.retrace("check", "usual")
    assert done.returncode == 2 and "baseline must be" in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (WRITTEN.replace("/1", "/9"), "has the schema 'retrace-baseline/9'"),
        (WRITTEN.replace("schema", "format"), "has no schema"),
        (WRITTEN.replace("[programs", "[program"), "did you mean programs"),
        (WRITTEN.replace("= { first-trace = 1 }", "= 1"), "not a table"),
        (WRITTEN.replace("= 1 }", "= true }"), "1 or more, not True"),
        ("\x00", "not valid TOML"),
    ],
)
def test_an_invalid_baseline_is_reported_in_one_line(
    project: Project, content: str, said: str
) -> None:
    project.baseline.write_text(content)
    for update in ((), ("--update",)):
        done = project.retrace("check", *update, "usual")
        assert done.returncode == 2 and done.stdout == "", done.stdout
        assert done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
    assert project.baseline.read_text() == content


def test_a_baseline_of_tests_is_found_however_it_is_written(tmp_path: Path) -> None:
    found = settings.Project(tmp_path, None, {})
    assert not found.has_tests
    entry = '"a.py::f" = { first-trace = 1 }'
    for text in (
        f'  [tests."t.py::test"]\n  {entry}\n',
        f"\t[ tests . 't.py::test' ]\n{entry}\n",
        f'["tests"."t.py::test"]\r\n{entry}\r\n',
        f'tests."t.py::test" = {{ {entry} }}\n',
        "[tests]\n",
    ):
        for mark in ("", "\ufeff"):
            found.baseline.write_text(f'{mark}  schema = "{baseline.SCHEMA}"\n{text}', newline="")
            assert found.has_tests, text
            loaded = baseline.load(found.baseline)
            assert loaded is not None
            assert loaded.tests in ({}, {"t.py::test": {"a.py::f": {"first-trace": 1}}})
    found.baseline.write_text(f'schema = "{baseline.SCHEMA}"\n[programs."tests.py"]\n{entry}\n')
    assert not found.has_tests

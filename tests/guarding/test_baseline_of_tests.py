"""What pytest prints and writes for a test suite with a baseline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.drawn

LIBRARY = """
import jax, numpy as np

@jax.jit
def step(x):
    return x * 2

def make():
    @jax.jit
    def inner(x):
        return x + 1
    return inner

def ones(n):
    return np.ones(n, np.float32)
"""
FIRST = """
import pytest
from library import make, ones, step

@pytest.fixture(scope="session")
def shared():
    return make()

def test_one(shared):
    step(ones(2)), shared(ones(2))

def test_two(shared):
    step(ones(2)), step(ones(3)), shared(ones(2))
"""
SECOND = """
from library import make, ones, step

def test_again():
    step(ones(2))

def test_local():
    inner = make()
    inner(ones(2)), inner(ones(2))
"""
WRITTEN = """\
# How often JAX's caches are missed here, by function and cause. Update it with
# `pytest --retrace-update` (tests) and `retrace check --update` (programs).
schema = "retrace-baseline/1"

[tests."test_first.py::test_one"]
"library.py::make.<locals>.inner" = { first-trace = 1 }
"library.py::step" = { first-trace = 1 }

[tests."test_first.py::test_two"]
"library.py::step" = { shape-changed = 1 }

[tests."test_second.py::test_local"]
"library.py::make.<locals>.inner" = { first-trace = 1 }
"""


class Suite:
    """A folder with tests and perhaps a baseline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.baseline = folder / "retrace-baseline.toml"
        self.write("pyproject.toml", "")
        self.write("library.py", LIBRARY)
        self.write("test_first.py", FIRST)
        self.write("test_second.py", SECOND)

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        (self.folder / name).write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that occurs once in a file."""
        text = (self.folder / name).read_text()
        assert text.count(old) == 1
        self.write(name, text.replace(old, new))

    def run(self, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run pytest in it."""
        # Other installed plugins take a second to load; `test_pytest_plugin` loads ours by its
        # entry point.
        ours = ["-p", "retrace.pytest_plugin", *(["-p", "xdist"] if "-n" in options else [])]
        quiet = ("-p", "no:cacheprovider")
        return subprocess.run(
            [sys.executable, "-B", "-m", "pytest", *quiet, "-W", "error", *ours, *options],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(self.folder)]),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                **environment,
            },
        )


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """A suite with its baseline."""
    made = Suite(tmp_path)
    made.baseline.write_text(WRITTEN)
    return made


def test_it_is_written_once_and_then_checked(tmp_path: Path) -> None:
    suite = Suite(tmp_path)
    done = suite.run()
    assert done.returncode == 0 and "retrace:" not in done.stdout, done.stdout
    done = suite.run("--retrace-update")
    assert done.returncode == 0, done.stdout + done.stderr
    assert suite.baseline.read_text() == WRITTEN
    assert "4 added" in done.stdout and '+"library.py::step" = { first-trace = 1 }' in done.stdout
    kept = suite.baseline.stat().st_mtime_ns
    done = suite.run("--retrace-update")
    assert "up to date" in done.stdout and suite.baseline.stat().st_mtime_ns == kept
    done = suite.run()
    assert done.returncode == 0 and "retrace:" not in done.stdout, done.stdout


def test_a_selection_or_another_order_is_no_alarm(suite: Suite) -> None:
    # A test that runs alone traces what another test usually traces first.
    for selection in (["-k", "again"], ["test_second.py", "test_first.py"]):
        done = suite.run(*selection)
        assert done.returncode == 0 and "baseline" not in done.stdout, done.stdout
        done = suite.run("--retrace-update", *selection)
        assert "up to date" in done.stdout, done.stdout
    assert suite.baseline.read_text() == WRITTEN


def test_new_misses_are_explained_as_a_diff(suite: Suite) -> None:
    suite.edit("test_first.py", "step(ones(3)), ", "step(ones(3)), step(ones(4)), ")
    suite.edit("test_second.py", "inner(ones(2)), inner", "inner(ones(2)), make()")
    done = suite.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "library.py::step missed JAX's caches 3 times, twice in" in done.stdout
    assert '-"library.py::step" = { shape-changed = 1 }' in done.stdout
    assert '+"library.py::step" = { shape-changed = 2 }' in done.stdout
    assert "function-redefined +1" in done.stdout and "inner traced again" in done.stdout
    assert "float32[4]" in done.stdout and "--retrace-update" in done.stdout
    assert suite.baseline.read_text() == WRITTEN
    # Running some tests does not change the entries of others.
    done = suite.run("--retrace-update", "test_first.py")
    assert done.returncode == 0 and "1 changed" in done.stdout, done.stdout
    expected = WRITTEN.replace("shape-changed = 1", "shape-changed = 2")
    assert suite.baseline.read_text() == expected


def test_a_different_cause_with_the_same_count_is_new(suite: Suite) -> None:
    suite.baseline.write_text(
        'schema = "retrace-baseline/1"\n[tests."test_first.py::test_cast"]\n'
        '"library.py::step" = { first-trace = 1, shape-changed = 1 }\n'
    )
    (suite.folder / "test_second.py").unlink()
    cast = "from library import *\ndef test_cast():\n    step(ones(2)), step(ones(OTHER))\n"
    suite.write("test_first.py", cast.replace("OTHER", "3"))
    assert suite.run().returncode == 0
    suite.write("test_first.py", cast.replace("ones(OTHER)", "ones(2).astype('int32')"))
    done = suite.run()
    assert done.returncode == 1 and "dtype-changed +1" in done.stdout, done.stdout


def test_unneeded_entries_are_reported_and_dropped(suite: Suite) -> None:
    suite.edit("test_first.py", "step(ones(3)), ", "")
    suite.edit("test_second.py", "def test_local", "def test_renamed")
    done = suite.run()
    assert done.returncode == 0, done.stdout
    assert "2 entries of retrace-baseline.toml" in done.stdout
    assert '-[tests."test_second.py::test_local"]' in done.stdout
    # If a single test is selected, nothing is known about the others.
    done = suite.run("test_second.py::test_again")
    assert "lowered" not in done.stdout
    (suite.folder / "test_second.py").unlink()
    done = suite.run("--retrace-update")
    assert "2 removed" in done.stdout, done.stdout
    assert "test_two" not in (left := suite.baseline.read_text()) and "test_second" not in left
    assert left in WRITTEN.replace(WRITTEN.partition('[tests."test_first.py::test_two')[2], "")


def test_a_failed_or_skipped_test_keeps_its_entries(suite: Suite) -> None:
    suite.edit("test_first.py", "    step(ones(2)), step", "    assert False\n    step")
    suite.edit("test_second.py", "    inner = make()", "    import pytest; pytest.skip('-')")
    done = suite.run("--retrace-update")
    assert done.returncode == 1 and "2 tests failed or skipped" in done.stdout, done.stdout
    assert suite.baseline.read_text() == WRITTEN


def test_workers_are_one_suite(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    suite = Suite(tmp_path)
    done = suite.run("-n", "2", "--retrace-update")
    assert done.returncode == 0, done.stdout + done.stderr
    # Which worker ran what affects where the first miss is, not how many there are.
    written = suite.baseline.read_text()
    assert written.count("::step") == 2, written
    done = suite.run()
    assert done.returncode == 0 and "not in" not in done.stdout, done.stdout
    suite.baseline.write_text(WRITTEN)
    done = suite.run("-n", "2", "--retrace-update")
    assert "up to date" in done.stdout and suite.baseline.read_text() == WRITTEN
    suite.edit("test_second.py", "    step(ones(2))", "    step(ones(7)), step(ones(8))")
    done = suite.run("-n", "2")
    assert done.returncode == 1 and "library.py::step missed" in done.stdout, done.stdout
    assert "float32[8]" in done.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (WRITTEN.replace("/1", "/9"), "has the schema 'retrace-baseline/9'"),
        (WRITTEN.replace("shape-changed", "shape-chnged"), "did you mean shape-changed"),
        (WRITTEN.replace("= 1 }", "= 0 }"), "1 or more, not 0"),
        ("<<<<<<< HEAD\n" + WRITTEN, "not valid TOML"),
    ],
)
def test_an_invalid_baseline_is_reported_in_one_line(
    suite: Suite, content: str, said: str
) -> None:
    suite.baseline.write_text(content)
    for options in ((), ("--retrace-update",)):
        done = suite.run(*options)
        assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
        assert said in done.stderr and "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert suite.baseline.read_text() == content


def test_its_place_is_a_setting_and_it_can_be_turned_off(suite: Suite) -> None:
    suite.write("pyproject.toml", '[tool.retrace]\nbaseline = "held/base.toml"\n')
    done = suite.run("--retrace-update")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (suite.folder / "held" / "base.toml").read_text() == WRITTEN
    assert suite.run("--retrace-update", RETRACE="0").returncode == 4
    suite.edit(
        "test_second.py", "inner(ones(2)), inner(ones(2))", "inner(ones(2)), make()(ones(2))"
    )
    assert suite.run().returncode == 1
    assert suite.run(RETRACE="0").returncode == 0

"""`retrace run` as a whole process: the program runs as usual and is recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from retrace.store.reader import read
from tests.process import environment, retrace
from tests.reading.story import training, write

pytestmark = pytest.mark.drawn

_PRINT_ARGV = "import sys, json; print(json.dumps(sys.argv))"


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--out", "x", "-q"], ["-m", "a"], ["--", "--", ""], ["-o=1"]]
)
def test_arguments_reach_the_program_untouched(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "tell.py").write_text(_PRINT_ARGV)
    for how in (["tell.py"], ["-m", "tell"]):
        done = retrace("run", *how, *arguments, cwd=tmp_path, RETRACE="0")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[1:] == arguments


_PROGRAM = """
import jax, jax.numpy as jnp, sys
@jax.jit
def step(x): return x + 1
for size in (2, 3, 4): step(jnp.zeros(size))
sys.exit(3)
"""


def test_run_records_summarises_and_exits_as_the_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_PROGRAM)
    done = retrace("run", "train.py", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert "step traced again" in done.stderr
    assert "explained by `retrace report`" in done.stderr
    assert len(done.stderr.splitlines()) <= 14
    report = json.loads(retrace("report", "--format", "json", cwd=tmp_path).stdout)
    causes = [m["cause"] for m in report["misses"] if m["function"]["name"] == "step"]
    assert causes == ["first-trace", "shape-changed", "shape-changed"]


def test_a_run_ended_by_an_exception_proves_nothing(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(_PROGRAM)
    retrace("run", "-q", "-o", "before", "train.py", cwd=tmp_path)
    train.write_text(_PROGRAM.replace("for size in (2, 3, 4)", "step.lower()\nfor size in ()"))
    done = retrace("run", "-q", "-o", "after", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    (run,) = read([tmp_path / "after"]).runs
    assert run.raised == "TypeError" and run.complete
    assert "was ended by TypeError" in retrace("report", "after", cwd=tmp_path).stdout
    compared = retrace("diff", "before", "after", "--expect", "1", cwd=tmp_path)
    assert compared.returncode == 1 and "came true" not in compared.stdout
    (tmp_path / "pyproject.toml").write_text('[tool.retrace.budgets."step"]\ntraces = 1\n')
    checked = retrace("check", "after", cwd=tmp_path)
    assert checked.returncode == 2 and "ended by TypeError" in checked.stderr


def test_an_error_that_the_program_survives_did_not_end_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import jax\ndef test_fails(): jax.jit(len)(1)")
    options = ("-q", "-p", "no:cacheprovider")
    done = retrace(
        "run",
        *("-q", "-o", "out", "-m", "pytest", *options),
        cwd=tmp_path,
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )
    assert done.returncode == 1
    (run,) = read([tmp_path / "out"]).runs
    assert run.raised is None and run.complete


def test_the_programs_streams_are_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "streams.py").write_text(
        "import sys; print(sys.stdout.errors, sys.stderr.errors)"
    )
    plain = subprocess.run(
        [sys.executable, tmp_path / "streams.py"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert retrace("run", "-q", "streams.py", cwd=tmp_path).stdout == plain.stdout


def test_nothing_is_printed_for_a_program_without_jax(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print(1)")
    done = retrace("run", "plain.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr == ""
    # It is still the newest recording: `check` and `report` must not use an older one.
    (recording,) = recordings(tmp_path)
    (run,) = read([recording]).runs
    assert (run.argv, run.jax, run.complete) == (["plain.py"], "", True)
    assert "never imported jax" in retrace("report", cwd=tmp_path).stdout


def test_a_program_that_was_killed_is_not_said_to_have_been_served(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text("import jax, os; os.kill(os.getpid(), 9)")
    retrace("run", "-q", "killed.py", cwd=tmp_path)
    said = retrace("report", cwd=tmp_path).stdout
    assert "no misses" in said and "caches" not in said and "killed" in said


def recordings(folder: Path) -> list[Path]:
    return [entry for entry in (folder / ".retrace").glob("*") if entry.is_dir()]


@pytest.mark.parametrize("program", ["import jax", "import retrace, jax"])
def test_only_one_recording_if_the_environment_also_requests_one(
    program: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(f"{program}; jax.jit(lambda x: x)(1.0)")
    recorded = {"RETRACE": "1"}
    assert retrace("run", "train.py", cwd=tmp_path, **recorded).returncode == 0
    assert retrace("report", cwd=tmp_path, **recorded).returncode == 0
    assert len(recordings(tmp_path)) == 1


def test_a_program_that_never_imports_jax_leaves_no_recording(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import retrace, os; os.fork() and os.wait()"]
    subprocess.run(program, cwd=tmp_path, env=environment(RETRACE="1"), check=True)
    assert (tmp_path / ".retrace").exists() and not recordings(tmp_path)


@pytest.mark.parametrize("quiet", [False, True], ids=["told", "quiet"])
def test_a_program_that_ends_without_descriptors(tmp_path: Path, quiet: bool) -> None:
    (tmp_path / "program.py").write_text(
        "import resource, jax\n"
        "jax.jit(lambda x: x * 2)(1.0)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "print('ok')\n"
    )
    done = retrace("run", *["--quiet"] * quiet, "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert done.stderr.count("\n") == (not quiet)
    assert "Traceback" not in done.stderr


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_PROGRAM)
    done = retrace("run", "-q", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_an_existing_recording_stops_no_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    held = write(training(), tmp_path / "rec")
    assert retrace("run", "--out", held, "train.py", cwd=tmp_path).returncode == 0

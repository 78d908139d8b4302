"""Processes that a program under `retrace run` starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from retrace.model import Recording, Stage
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.store.reader import read

pytestmark = pytest.mark.drawn

ROOT = Path(__file__).parents[2]
STARTS = """
import multiprocessing, os, subprocess, sys

def work(size):
    import jax, numpy as np
    jax.jit(lambda x: x + 1)(np.ones(size))

def idle(size):
    pass

IDLE = "import sys; print(*sys.path)"
WORK = IDLE + "; import jax; print(jax.jit(lambda x: x * 2)(1.0))"

"""


def run(
    tmp_path: Path, program: str, *options: str, plain: bool = True, **variables: str
) -> tuple[str, Recording | None]:
    """Run a program with and without recording; returns the summary and the recording."""
    script, out = tmp_path / "program.py", tmp_path / "out"
    script.write_text(
        STARTS + "if __name__ == '__main__':" + dedent(program).replace("\n", "\n  ")
    )
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("RETRACE")},
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
        **variables,
    }

    def started(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments, str(script)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            env=environment,
            check=False,
        )

    recorded = started("-m", "retrace", "run", "--out", str(out), *options)
    assert recorded.returncode == 0, recorded.stderr
    assert "Traceback" not in recorded.stderr
    if plain:
        assert recorded.stdout == started().stdout
    found = read([out]) if list(out.glob("*.jsonl")) else None
    return " ".join(recorded.stderr.split()), found


EVERY_WAY = """
for method in ("spawn", "forkserver", "forkserver"):
    child = multiprocessing.get_context(method).Process(target=TARGET, args=(2,))
    child.start()
    child.join()
    assert child.exitcode == 0
with multiprocessing.get_context("spawn").Pool(1) as pool:
    pool.map(TARGET, (3,))
    pool.close()
    pool.join()
for environment in (None, {**os.environ, "A": "B"}):
    print(subprocess.run([sys.executable, "-c", CODE], env=environment, stdout=-1).stdout)
os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", CODE], os.environ), 0)
subprocess.run(["true"])
subprocess.run("true", shell=True)
try:
    subprocess.run(["/no/such/python"])
except OSError as error:
    print(error)
"""
NUMBER = 3 + 1 + 2 + 1


@pytest.mark.parametrize("options", [(), ("--children",)])
def test_children_behave_as_without_recording_and_are_counted(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    program = EVERY_WAY.replace("TARGET", "idle").replace("CODE", "IDLE")
    said, recording = run(tmp_path, program, *options)
    assert recording is not None and [one.jax for one in recording.runs] == [""]
    # Without the option it is unknown whether they use jax; with it, that they do not is known.
    if options:
        assert said == ""
    else:
        assert said.startswith(f"retrace: {NUMBER} Python processes ")
        assert said.endswith(" pass --children")


def test_all_children_record_with_the_option(tmp_path: Path) -> None:
    program = EVERY_WAY.replace("TARGET", "work").replace("CODE", "WORK")
    said, recording = run(tmp_path, program, "--children", plain=False)
    assert "Python process" not in said
    assert recording is not None
    assert len(recording.runs) == NUMBER
    assert sum(miss.function.kind == "lambda" for miss in recording.misses) == NUMBER
    assert all(run.losses == {} for run in recording.runs)


def test_children_that_cannot_record_are_counted(tmp_path: Path) -> None:
    program = """
    bare = {name: os.environ[name] for name in ("JAX_PLATFORMS",)}
    subprocess.run([sys.executable, "-c", IDLE], env=bare)
    subprocess.run([sys.executable, "-IW", "ignore", "-c", IDLE])
    subprocess.run([sys.executable, "-W", "ignore", "-X", "utf8", "-c", "import jax", "-I"])
    """
    said, recording = run(tmp_path, program, "--children")
    assert recording is not None and len(recording.runs) == 1
    assert "2 Python processes " in said and "environment" in said


def test_a_failure_to_count_is_reported(tmp_path: Path) -> None:
    program = """
    try:
        os.posix_spawn(3, None, None)
    except TypeError as error:
        print(error)
    """
    told, _ = run(tmp_path, program)
    assert "failed to count 1 times (TypeError)" in told


def test_a_child_that_imports_retrace_records(tmp_path: Path) -> None:
    program = """
    import jax
    for names in ("retrace, jax", "jax"):
        subprocess.run([sys.executable, "-c", f"import {names}; jax.jit(lambda x: x)(1.0)"])
    print(*(name for name in os.environ if name.startswith("RETRACE")))
    """
    said, recording = run(tmp_path, program)
    assert recording is not None and len(recording.runs) == 2
    assert "1 Python process " in said and "--children" in said


def test_only_the_programs_own_children_are_subtracted(tmp_path: Path) -> None:
    program = """
    import jax
    if os.fork() == 0:
        jax.jit(lambda x: x)(1.0)
        sys.exit()
    os.wait()
    grandchild = "import retrace, jax; jax.jit(lambda x: x)(1.0)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{grandchild}'])"
    subprocess.run([sys.executable, "-c", child])
    """
    said, recording = run(tmp_path, program, plain=False)
    assert recording is not None and len(recording.runs) == 3
    assert "1 Python process " in said and "--children" in said


@pytest.mark.parametrize("options", [(), ("--children",)])
def test_without_children_nothing_is_reported(options: tuple[str, ...], tmp_path: Path) -> None:
    said, recording = run(tmp_path, "import jax; jax.jit(lambda x: x)(1.0)", *options)
    assert recording is not None
    assert said.endswith("`retrace report out`"), said
    assert "Python process" not in said


def test_a_child_forked_before_jax_does_not_count_as_started(tmp_path: Path) -> None:
    program = """
    subprocess.run([sys.executable, "-c", "import jax"])
    child = multiprocessing.get_context("fork").Process(target=work, args=(2,))
    child.start()
    child.join()
    work(3)
    """
    said, recording = run(tmp_path, program, plain=False)
    assert recording is not None and len(recording.runs) == 2
    assert "1 Python process " in said and "--children" in said


def test_a_forkserver_that_is_restarted(tmp_path: Path) -> None:
    program = """
    from multiprocessing import forkserver
    for _ in range(2):
        child = multiprocessing.get_context("forkserver").Process(target=idle, args=(2,))
        child.start()
        child.join()
        server = forkserver._forkserver
        os.kill(server._forkserver_pid, 9)
        os.waitpid(server._forkserver_pid, 0)
        server._forkserver_pid = None
        os.close(server._forkserver_alive_fd)
    """
    said, _ = run(tmp_path, program)
    assert "2 Python processes " in said and "--children" in said


def test_a_script_for_python_is_a_python_process(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f"#!{sys.executable}\nprint('tool')\n")
    tool.chmod(0o755)
    said, _ = run(tmp_path, f"subprocess.run([{str(tool)!r}])")
    assert "1 Python process " in said and "--children" in said


def test_the_programs_own_sitecustomize_is_run(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.customized = __file__\n")
    program = """
    child = "import sys, sitecustomize; print(sys.customized, sitecustomize.__file__, sys.path)"
    print(subprocess.run([sys.executable, "-c", child], stdout=-1).stdout)
    """
    paths = os.pathsep.join([str(own), str(ROOT)])
    run(tmp_path, program, "--children", PYTHONPATH=paths)


@pytest.mark.parametrize("options", [(), ("--children",)])
def test_a_program_that_installs_is_recorded_once(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    program = """
    import jax, retrace
    retrace.install()
    jax.jit(lambda x: x)(1.0)
    retrace.uninstall()
    jax.jit(lambda x: x + 1)(1.0)
    """
    out = str(tmp_path / "out")
    _, recording = run(tmp_path, program, *options, plain=False, RETRACE_DIR=out)
    assert recording is not None and len(recording.runs) == 1
    assert [miss.function.kind for miss in recording.misses] == ["lambda", "lambda"]


POOLS = """
for method in ("fork", "spawn"):
    with multiprocessing.get_context(method).Pool(1) as pool:
        pool.map(work, (3, 4))
        pool.map(idle_for, (0.5,))
work(2)
child = multiprocessing.get_context("fork").Process(target=killed)
child.start()
child.join()
"""
# A stage's end is written a moment later, so not by a worker that is killed at once.
KILLED = """
def idle_for(seconds):
    import time
    time.sleep(seconds)

def killed():
    import jax, signal, time
    jax.jit(lambda x: (time.sleep(2), os.kill(os.getpid(), signal.SIGKILL)))(1.0)

"""


def test_workers_ended_by_their_pool_are_not_reported_as_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "STARTS", STARTS + KILLED)
    _, recording = run(tmp_path, POOLS, "--children", plain=False)
    assert recording is not None
    view = View(recording, judge(recording))
    starters = {run.forked_by or run.started_by for run in recording.runs}
    [own] = [run for run in recording.runs if run.complete and run.pid in starters]
    # A worker may end by itself before its pool ends it.
    cut = [run for run in recording.runs if not run.complete]
    [(_, miss)] = view.unfinished()
    assert miss is not None
    assert miss.in_flight is Stage.TRACE
    idle = [worker for workers in view.ended_idle().values() for worker in workers]
    assert set(view.ended_idle()) <= {own.pid} and len(idle) == len(cut) - 1
    assert {worker.forked_by or worker.started_by for worker in idle} <= {own.pid}
    # If the parent did not end either, all of them may have been killed.
    own.complete = False
    assert len(view.unfinished()) == len(cut) + 1
    assert view.ended_idle() == {}

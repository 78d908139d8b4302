"""A recorded program sees nothing of the recording: no thread, module, frame or name."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

import retrace
from retrace.store.reader import read

pytestmark = pytest.mark.drawn

ROOT = Path(__file__).parents[2]
NOTHING = "/"
"""A working directory without modules."""


def python(*arguments: str, cwd: str | Path = NOTHING, text: str = "") -> tuple[str, str]:
    """The output of a program on both streams; it must succeed in time."""
    environment = {name: value for name, value in os.environ.items() if "RETRACE" not in name}
    environment |= {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


THREADS = """
import gc, sys, threading, time
import numpy as np
import retrace
import jax

class Ring:  # its finaliser runs wherever the collector does
    def __init__(self):
        self.itself = self
    def __del__(self):
        threading.current_thread()

step = getattr(sys.modules[sys.argv[1]], "jit")(lambda x: x + 1)
seen = set()
for size in range(1, 30):
    Ring()
    step(np.ones(size))
    if not size % 5:
        gc.collect()
    seen |= {thread.name for thread in threading.enumerate()}
while threading.active_count() > 1:
    time.sleep(0.01)
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
time.sleep(0.5)
print(seen, len(sys._current_frames()))
"""


@pytest.mark.parametrize("jit", ["jax", "retrace"])
def test_a_program_that_waits_for_all_threads_ends(jit: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(THREADS)
    options = ["-m", "retrace", "run", "-q", "--out", "out"] if jit == "jax" else []
    out, _ = python(*options, "program.py", jit, cwd=tmp_path)
    assert out == "{'MainThread'} 1\n"
    folder = tmp_path / ("out" if jit == "jax" else ".retrace")
    assert list(folder.rglob("*.jsonl"))


MARKED = """
import atexit, sys, threading, time
import jax, numpy as np, pytest

step = jax.jit(lambda x: x + 1)

@pytest.mark.retrace(max_traces=1)
def test_step():
    step(np.ones(2))
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()

@atexit.register
def wait():
    while threading.active_count() > 1:
        time.sleep(0.01)
    time.sleep(0.5)
    print("left", threading.active_count(), len(sys._current_frames()))
"""


def test_a_marked_test_that_waits_for_all_threads_ends(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED)
    pytest_ = ["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "test_marked.py"]
    out, _ = python("-m", "retrace", "run", "-q", "--out", "out", *pytest_, cwd=tmp_path)
    assert "1 passed" in out
    assert out.splitlines()[-1] == "left 1 1"


LOADED = """
import sys
import jax
import retrace.command.cli, retrace.command.closing, retrace.present.page, retrace.inside.live
import retrace.capture.session, retrace.reason.verdict, retrace.present.terminal
print(*sys.modules)
"""
IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        print(name, getattr(importlib.import_module(name), "OWN", False))
    except Exception as error:
        print(name, type(error))
"""


def test_the_program_gets_its_own_modules(tmp_path: Path) -> None:
    loaded, _ = python("-c", LOADED)
    plain, _ = python("-c", "import sys; print(*sys.modules)")
    tops = {name.partition(".")[0] for name in loaded.split()} - {*plain.split()}
    tops = {name for name in tops if name.isidentifier() and name != "__main__"}
    assert {"difflib", "typer", "retrace", "inspect", "subprocess"} <= tops
    for name in tops:
        (tmp_path / f"{name}.py").write_text("OWN = True\n")
    program = tmp_path / "the_program.py"
    program.write_text(IMPORTS)
    expected, _ = python(str(program), *sorted(tops))
    out = str(tmp_path / "out")
    run = ("-m", "retrace", "run", "-q", "--out", out, str(program))
    assert python(*run, *sorted(tops))[0] == expected
    # Also in the same process as retrace, as under a debugger.
    here = "import runpy, sys; sys.path[0] = '/'; runpy.run_module('retrace', alter_sys=True)"
    found, _ = python("-c", here, *run[2:], *sorted(tops))
    assert [line for line in found.split("\n") if line.endswith("False")] == [
        line for line in expected.split("\n") if line.endswith("False")
    ]


OF_JIT = """
import sys
sys.modules["etils"] = None  # which would import more, where it is installed
import jax
import numpy as np
if sys.argv[1] == "retrace":
    import retrace as module
else:
    module = jax
step = module.jit(lambda x: x + 1)
jax.eval_shape(step, np.ones(2))  # JAX looks for plugins where it starts a backend
print("MODULES", *sys.modules)
"""


def test_retrace_jit_alone_imports_no_module_of_the_program(tmp_path: Path) -> None:
    # Without `retrace run` nothing hides retrace's imports: there must be few.
    (tmp_path / "program.py").write_text(OF_JIT)
    plain, ours = (
        {*python("program.py", jit, cwd=tmp_path)[0].partition("MODULES")[2].split()}
        for jit in ("jax", "retrace")
    )
    assert "retrace.capture.session" in ours
    often = {"csv", "calendar", "email", "zipfile", "difflib", "shelve", "typer", "rich", "queue"}
    assert not (ours - plain) & often


BESIDE = """
import importlib, sys
import jax
import numpy as np
step = jax.jit(lambda x: x + 1)
for size in (1, 2, 3):
    step(np.ones(size))
for name in "csv calendar difflib retrace deepdiff gettext importlib.metadata".split():
    try:
        print(name, getattr(importlib.import_module(name), "OWN", False), sys.modules[name])
    except Exception as error:
        print(name, error)
print([getattr(each, "__name__", type(each)) for each in sys.meta_path])
print(sorted(sys.modules), sys.path)
"""


def test_later_imports_of_retrace_stay_apart_from_the_programs(tmp_path: Path) -> None:
    for name in ("csv", "calendar", "difflib", "retrace", "deepdiff", "gettext"):
        (tmp_path / f"{name}.py").write_text("OWN = True\nprint(__name__)\n")
    program = tmp_path / "program.py"
    program.write_text(BESIDE)
    expected, _ = python(str(program))
    out = tmp_path / "out"
    found, told = python("-m", "retrace", "run", "--out", str(out), str(program))
    assert found == expected
    assert told.startswith("\nretrace: 3 ")
    assert list(out.glob("*.jsonl"))


FRAMES = """
import inspect, sys, threading, traceback, warnings

warnings.warn("of the caller", stacklevel=2)
warnings.warn("of here")

def deeper(n):
    try:
        return deeper(n + 1)
    except RecursionError:
        return n

def depth():
    frame, number = sys._getframe(), 0
    while frame is not None:
        frame, number = frame.f_back, number + 1
    return number

print(deeper(0), depth(), len(inspect.stack()), len(traceback.extract_stack()))
print(sys.argv, sys.orig_argv[1:], sys.path, sys.flags, sorted(globals()), sys.exit)
print(sorted(sys.modules), sys.getrecursionlimit(), sys.excepthook is sys.__excepthook__)
print(threading.enumerate())
import jax
print(depth())
"""


@pytest.mark.parametrize("command", ["program.py one", "-m program one", "- one"])
def test_none_of_our_frames_is_below_the_program(command: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FRAMES)
    text = FRAMES if command.startswith("- ") else ""
    out, err = python(*command.split(), cwd=tmp_path, text=text)
    run = ("-m", "retrace", "run", "-q", "--out", "out", *command.split())
    found, told = python(*run, cwd=tmp_path, text=text)

    def plain(printed: str) -> str:
        return re.sub(r"0x\w+|started \d+", "", printed)

    assert plain(found) == plain(out)
    assert told == err
    assert "UserWarning: of the caller" in err


ATTEMPT = "import sys, time, jax; jax.jit(lambda x: x)(1); time.sleep(float(sys.argv[1]))"


def attempts(out: Path) -> list[tuple[int, str | None, int | None]]:
    from retrace.store.reader import read

    runs = read([out], 0).runs
    return sorted((run.attempt, run.job, run.process_count) for run in runs)


def test_files_in_the_directory_stop_no_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(dedent(ATTEMPT))
    out = tmp_path / "out"
    run = ("-m", "retrace", "run", "-q", "--out", "out")
    python(*run, "program.py", "0", cwd=tmp_path)
    python(*run, "program.py", "0", cwd=tmp_path)
    assert attempts(out) == [(1, None, 1), (2, None, 1)]
    python(*run, "--append", "program.py", "0", cwd=tmp_path)
    # Two processes of one job, one of them started again.
    python(*run, "--job", "a", "program.py", "0", cwd=tmp_path)
    python(*run, "--job", "a", "program.py", "0.01", cwd=tmp_path)
    assert attempts(out)[2:] == [(2, None, 1), (3, "a", 1), (3, "a", 1)]
    told, earlier = python("-m", "retrace", "report", "out", "--format", "json", cwd=tmp_path)
    assert told.count('"attempt": 3') == 2
    assert "2 earlier attempts" in earlier
    every, _ = python("-m", "retrace", "report", "out", "--format=json", "--all", cwd=tmp_path)
    assert every.count('"attempt":') == 5
    python(*run, "--job", "a", "program.py", "0", cwd=tmp_path)
    assert attempts(out)[5:] == [(4, "a", 1)]
    python(*run, "--force", "program.py", "0", cwd=tmp_path)
    # Created before the others are removed, so that several processes may do so at once.
    assert attempts(out) == [(5, None, 1)]


INTERRUPTED = """
import gc, os, signal, sys, time
import jax, numpy as np
import jax.numpy as jnp

# JAX runs code at garbage collection, where Python ignores exceptions.
gc.disable()

@jax.jit
def slow(x):
    for i in range(60 if sys.argv[1] == "compile" else 1):
        x = jnp.sin(x @ x) + jnp.fft.fft(x).real * i
    print("compile", flush=True)
    return x

class Impatient:
    def __init__(self, stream):
        self.stream = stream
    def __getattr__(self, name):
        return getattr(self.stream, name)
    def write(self, text):
        sys.stderr = self.stream
        os.killpg(0, signal.SIGINT)
        time.sleep(5)

slow(np.ones((8, 8), np.float32))
if sys.argv[1] == "told":
    sys.stderr = Impatient(sys.stderr)
print("end", flush=True)
"""


def _interrupted(folder: Path, out: str, when: str) -> tuple[int, str]:
    """How a program ends after pressing Ctrl-C twice, and its stderr."""
    program = subprocess.Popen(
        [sys.executable, "-m", "retrace", "run", "--out", out, "program.py", when],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout is not None
    while when != "told" and program.stdout.readline().strip() != when:
        assert program.poll() is None
    for _ in range(0 if when == "told" else 2):
        time.sleep(0.05)
        os.killpg(program.pid, signal.SIGINT)
    _, said = program.communicate(timeout=200)
    return program.returncode, said


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("when", ["compile", "end", "told"])
def test_ctrl_c_shows_no_frame_of_ours(when: str, tmp_path: Path) -> None:
    """It is pressed twice: during a compilation, after the last line, during the summary."""
    (tmp_path / "program.py").write_text(INTERRUPTED)
    attempt, (status, said) = 0, _interrupted(tmp_path, "0", when)
    # XLA's own reaction to an interrupt: without retrace, one run in sixty ends like this.
    while status == -signal.SIGABRT and attempt < 4:
        attempt += 1
        status, said = _interrupted(tmp_path, str(attempt), when)
    assert str(Path(retrace.__path__[0])) not in said
    ends = {"compile": {-signal.SIGINT}, "end": {0, -signal.SIGINT}, "told": {0}}
    assert status in ends[when], said
    recording = read([tmp_path / str(attempt)])
    assert [run.complete for run in recording.runs] == [True]
    assert "slow" in {miss.function.name for miss in recording.misses}


WITHOUT_STDERR = """
import sys
class Broken:
    def write(self, text):
        raise RuntimeError("no terminal")
    def flush(self):
        pass
sys.stderr = None if sys.argv[1] == "none" else Broken()
import retrace, jax
print(jax.jit(lambda x: x + 1)(1))
"""


@pytest.mark.parametrize("stderr", ["none", "broken"])
def test_a_program_without_stderr_goes_on(stderr: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(WITHOUT_STDERR)
    (tmp_path / "file").touch()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RETRACE": "1",
        "RETRACE_DIR": str(tmp_path / "file" / "below"),  # cannot be written
        "RETRACE_POLICY": "nonsense",
        "RETRACE_AGREE": "nonsense",
    }
    done = subprocess.run(
        [sys.executable, "program.py", stderr],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr

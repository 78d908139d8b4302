"""A launched program behaves exactly as under `python`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from textwrap import dedent

import pytest

from retrace.store.reader import read
from tests.reading.story import training, write

pytestmark = pytest.mark.drawn

ROOT = Path(__file__).parents[2]

ADDRESS = re.compile("0x[0-9a-f]+")

DRIVER = """
import atexit, os, sys
sys.path[0] = "/an/installed/command"
from retrace.errors import UsageError
from retrace.command.own_interpreter import Program, find
from retrace.command.launch import run_module, run_script

process = os.getpid()

def before():
    print("before", file=sys.stderr)
    atexit.register(after)

def after():
    if os.getpid() == process:
        print("after", file=sys.stderr)

first, *rest = sys.argv[1:]
try:
    if first == "-m":
        find(Program(rest[1:], rest[0]))
        status = run_module(rest[0], rest[1:], before)
    else:
        status = run_script(first, rest, before)
except UsageError as error:
    print("usage:", error, file=sys.stderr)
    status = 2
sys.exit(status)
"""

FILES = {
    "attributes.py": '''
        """What it is told."""
        import __main__, sys
        print(sys.argv, sys.path[0], __name__, __file__, __package__, __cached__, __doc__)
        print(sorted(globals()), __builtins__, __spec__, __loader__.path)
        print(vars(__main__) is globals(), sys.excepthook is sys.__excepthook__)
    ''',
    "raises.py": """
        def inner():
            raise ValueError("of the program")
        try:
            inner()
        except ValueError as error:
            raise RuntimeError("again") from error
    """,
    "syntax.py": "def f(:\n",
    "exits.py": "import sys; sys.exit(3)",
    "exits_plainly.py": "raise SystemExit",
    "exits_in_words.py": "import sys; print('out'); sys.exit('in words')",
    "exits_with_object.py": "import sys; sys.exit((1, 'a tuple'))",
    "exits_hard.py": "import os; print('out', flush=True); os._exit(7)",
    "exits_high.py": "import sys; sys.exit(300)",
    "exits_at_exit.py": """
        import atexit, sys
        atexit.register(lambda: print("handler", file=sys.stderr))
        atexit.register(lambda: sys.exit(5))
        sys.exit(4)
    """,
    "interrupted.py": """
        import atexit, os, signal
        atexit.register(print, "handler")
        print("out")
        os.kill(os.getpid(), signal.SIGINT)
        import time; time.sleep(10)
    """,
    "terminated.py": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "hook.py": """
        import sys
        def hook(kind, error, trace):
            print("hook", kind, error, trace.tb_frame.f_code.co_name)
        sys.excepthook = hook
        1 / 0
    """,
    "hook_fails.py": """
        import sys
        def hook(*args):
            raise LookupError("in the hook")
        sys.excepthook = hook
        1 / 0
    """,
    "thread.py": """
        import threading, time
        threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
        print("main")
    """,
    "pickled.py": """
        import pickle
        class Box:
            pass
        print(type(pickle.loads(pickle.dumps(Box()))) is Box, Box.__module__)
    """,
    "spawns.py": """
        import multiprocessing
        class Box:
            def __init__(self, value):
                self.value = value
        def double(box):
            return Box(2 * box.value)
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [Box(21)])[0].value)
    """,
    "forks.py": """
        import os, sys
        if not os.fork():
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
    """,
    "imports.py": "import beside; print(beside.__file__)",
    "beside.py": "",
    "latin.py": b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n",
    "pkg/__init__.py": "print('package', __name__)",
    "pkg/__main__.py": """
        import sys
        from . import inner
        from .inner import value
        print(sys.argv[1:], sys.argv[0] == __file__, sys.path[0], __package__, value)
        print(sorted(globals()), __spec__, __file__, __cached__ == __spec__.cached)
    """,
    "pkg/inner.py": "value = 1",
    "pkg/exits.py": "import sys; sys.exit(6)",
    "spread/out/there.py": "print(__name__, __package__)",
    "pkg/spawns.py": """
        import multiprocessing
        def double(x):
            return 2 * x
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [21]))
                pool.close()
                pool.join()
    """,
    "folder/__main__.py": """
        import sys, beside_main
        print(sys.argv, sys.path[0], repr(__package__), __file__, __spec__.name)
    """,
    "folder/beside_main.py": "",
}

COMMANDS = [
    *("attributes.py", "attributes.py one --two", "./attributes.py", "../here/attributes.py"),
    *("linked.py", "raises.py", "syntax.py", "exits.py", "exits_plainly.py"),
    *("exits_in_words.py", "exits_with_object.py", "exits_hard.py", "exits_high.py"),
    *("exits_at_exit.py", "interrupted.py", "terminated.py", "hook.py", "hook_fails.py"),
    *("thread.py", "pickled.py", "spawns.py", "forks.py", "imports.py", "latin.py"),
    *("-m pkg one --two", "-m pkg.inner", "-m pkg.exits", "-m pkg.spawns", "-m attributes"),
    "-m spread.out.there",
    *("folder one", "archive.zip one"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all programs."""
    folder = tmp_path_factory.mktemp("programs") / "here"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        for name in ("__main__.py", "beside_main.py"):
            archive.write(folder / "folder" / name, name)
    (folder / "links").mkdir()
    (folder / "linked.py").symlink_to(folder / "pkg" / ".." / "attributes.py")
    (folder.parent / "driver.py").write_text(DRIVER)
    return folder


def run(here: Path, *command: str) -> tuple[str, str, int]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "default",
    }
    environment.pop("COVERAGE_PROCESS_START", None)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ADDRESS.sub("", done.stdout), ADDRESS.sub("", done.stderr), done.returncode


def launched(here: Path, command: str) -> tuple[str, str, int]:
    return run(here, "../driver.py", *command.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_it_runs_as_under_python(here: Path, command: str) -> None:
    out, err, code = run(here, *command.split())
    launched_out, launched_err, launched_code = launched(here, command)
    assert launched_out == out
    assert launched_code == code
    said = [line for line in launched_err.splitlines() if line not in {"before", "after"}]
    assert said == err.splitlines()
    assert run(here, "-m", "retrace", "run", "-q", *command.split()) == (out, err, code)


@pytest.mark.parametrize("command", ["exits_at_exit.py", "thread.py", "raises.py"])
def test_the_summary_comes_last(here: Path, command: str) -> None:
    _, err, _ = launched(here, command)
    assert err.splitlines()[0] == "before"
    assert err.splitlines()[-1] == "after"


def test_a_forked_child_closes_nothing(here: Path) -> None:
    _, err, _ = launched(here, "forks.py")
    assert err.splitlines().count("after") == 1


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupted_program_dies_of_the_interrupt(here: Path) -> None:
    out, err, code = launched(here, "interrupted.py")
    assert code == -signal.SIGINT
    assert out.split() == ["out", "handler"]
    assert err.splitlines()[-1] == "after"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("missing.py", "no such script: missing.py"),
        ("pkg/..", "without a __main__.py"),
        ("-m missing", "no module named missing"),
        ("-m pkg.missing", "no module named pkg.missing"),
        ("-m missing.inner", "no module named missing.inner"),
        ("-m links", "links is a package "),
        ("-m sys", "cannot be run"),
    ],
)
def test_a_missing_program_is_reported_in_one_line(here: Path, command: str, said: str) -> None:
    _, err, code = launched(here, command)
    assert code == 2
    assert "Traceback" not in err
    assert said in err
    assert "after" not in err.split()


def test_the_frames_shown_are_the_programs_own(here: Path) -> None:
    (here / "pkg" / "broken.py").write_text("1 / 0\n")
    _, err, code = launched(here, "-m pkg.broken")
    assert code == 1
    assert err.splitlines()[2].startswith(f'  File "{here}/pkg/broken.py", line 1')
    assert "launch.py" not in err


def test_a_process_summarises_its_own_recording(tmp_path: Path) -> None:
    """Even if many hosts share the folder and it has children."""
    many = tmp_path / "many"
    for index in range(3):
        write(training(run=f"host{index}"), many)
    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys, jax\n"
        "jax.eval_shape(lambda x: x + 1, jax.ShapeDtypeStruct((2,), 'float32'))\n"
        "if os.fork() == 0:\n"
        "    jax.eval_shape(lambda x: x + 2, jax.ShapeDtypeStruct((2,), 'float32'))\n"
        "    sys.exit()\n"
        "os.wait()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "retrace", "run", "--append", "-o", str(many), str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        check=True,
        timeout=200,
    )
    assert "2 misses in" in done.stderr, done.stderr
    assert "train_step" not in done.stderr
    assert len(read([many]).runs) == 5


def test_a_script_that_came_through_a_pipe_is_not_read_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "script.py")
    program = (
        "import jax, jax.numpy as jnp\n"
        "with jax.numpy_rank_promotion('warn'):\n"
        "    jax.eval_shape(lambda x: x + 1, jax.ShapeDtypeStruct((2,), 'float32'))\n"
        "print('done')\n"
    )
    command = [sys.executable, "-m", "retrace", "run", "-o", "rec", "script.py"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment
    ) as started:
        (tmp_path / "script.py").write_text(program)
        out, _ = started.communicate(timeout=200)
    assert (out, started.returncode) == ("done\n", 0)
    (miss,) = read([tmp_path / "rec"]).misses
    assert miss.call_site is not None
    assert (miss.call_site.line, miss.call_site.source) == (3, None)

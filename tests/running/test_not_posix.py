"""Programs are recorded without POSIX, as far as Python can be made to look like that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.drawn

ROOT = Path(__file__).parents[2]

# Functions that Windows lacks. Some are kept that JAX, NumPy and the standard library use here
# because of `sys.platform`.
ELSEWHERE = """
import importlib.abc, logging, multiprocessing.util, os, random, runpy, shutil, signal
import subprocess, sys, tempfile, threading

for name in (
    "fork", "forkpty", "register_at_fork", "posix_spawn", "posix_spawnp", "mkfifo", "geteuid",
    "getuid", "getgid", "getegid", "getpgid", "setsid", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK",
    "O_DIRECTORY", "fchmod", "chown", "wait4", "waitid", "killpg", "getloadavg", "statvfs",
    "pread", "pwrite", "sched_getaffinity",
):
    if hasattr(os, name):
        delattr(os, name)
KEPT = ("SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIG_DFL", "SIG_IGN")
for name in [name for name in vars(signal) if name.startswith("SIG") and name not in KEPT]:
    delattr(signal, name)
for name in ("alarm", "setitimer", "pthread_kill", "pthread_sigmask", "sigwait", "pause"):
    if hasattr(signal, name):
        delattr(signal, name)
GONE = ("fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "_posixsubprocess")
for name in GONE:
    sys.modules.pop(name, None)

class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in GONE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Gone())
sys.argv = ["retrace", *sys.argv[2:]]
runpy.run_module("retrace", run_name="__main__")
"""
PROGRAM = """
import jax, retrace, numpy as np

@jax.jit
def step(x):
    return x * 2

double, triple = jax.jit(lambda x: x * 2), jax.jit(lambda x: x * 3)
for size in (2, 3):
    step(np.ones(size, np.float32))
double(1.0), triple(1.0)
with retrace.assert_no_retrace(step):
    step(np.ones(3, np.float32))
print("done")
"""


def run(folder: Path, *arguments: str, expected: int = 0) -> str:
    (folder / "elsewhere.py").write_text(ELSEWHERE)
    done = subprocess.run(
        # Also without column positions in code.
        [sys.executable, "-X", "no_debug_ranges", "elsewhere.py", "retrace", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == expected and "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_a_program_is_recorded_and_explained(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    assert run(tmp_path, "run", "--out", "recorded", "program.py") == "done\n"
    report = json.loads(run(tmp_path, "report", "recorded", "--format", "json"))
    (process,) = report["runs"]
    assert process["losses"] == {} and process["complete"]
    told = [(miss["function"]["name"], miss["cause"]) for miss in report["misses"]]
    # Two lambdas on one line are distinct, even without columns.
    assert told == [
        ("step", "first-trace"),
        ("step", "shape-changed"),
        ("<lambda>", "first-trace"),
        ("<lambda>", "first-trace"),
    ]
    budget = '[tool.retrace.budgets."step"]\ntraces = 1\n'
    (tmp_path / "pyproject.toml").write_text(budget)
    assert "step was traced" in run(tmp_path, "check", "recorded", expected=1)

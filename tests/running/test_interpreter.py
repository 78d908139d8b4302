"""The interpreter of a recorded program is as without recording."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.drawn

ROOT = Path(__file__).parents[2]

# Python does not list audit hooks, but tells the first one about each that is added later.
FIRST = """
import sys

sys.added = []

def watch(event, arguments):
    if event == "sys.addaudithook":
        sys.added.append(event)

sys.addaudithook(watch)
"""
PROGRAM = """
import builtins, gc, signal, subprocess, sys, threading, time, warnings
import jax

def told(hook):
    return getattr(hook, "__qualname__", type(hook).__name__)

jax.jit(lambda x: x + 1)(1.0)
subprocess.run([sys.executable, "-c", "pass"])
print("audit hooks", sys.added)
print("by line and call", sys.gettrace(), sys.getprofile())
print("in threads", threading._trace_hook, threading._profile_hook)
if hasattr(sys, "monitoring"):
    print("tools", [sys.monitoring.get_tool(number) for number in range(6)])
print("collector", [told(each) for each in gc.callbacks], gc.get_threshold(), gc.isenabled())
print("import", builtins.__import__, list(map(told, sys.meta_path + sys.path_hooks)))
print("threads", sys.getswitchinterval(), sys.getrecursionlimit())
print("coroutines", sys.get_asyncgen_hooks(), sys.get_coroutine_origin_tracking_depth())
for owner, name in (
    (sys, "excepthook"), (sys, "unraisablehook"), (sys, "displayhook"),
    (threading, "excepthook"), (warnings, "showwarning"),
):
    print(name, told(getattr(owner, name)))
print("signals", {each: told(signal.getsignal(each)) for each in sorted(signal.valid_signals())})
print("clocks", time.time, time.perf_counter)
"""


def program(
    folder: Path, environment: dict[str, str], *through: str
) -> subprocess.CompletedProcess[str]:
    """Run `program.py` in a folder, as it is or through these options of Python's."""
    return subprocess.run(
        [sys.executable, *through, "program.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_we_install_no_interpreter_hooks(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(FIRST)
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {name: text for name, text in os.environ.items() if "RETRACE" not in name}
    environment |= {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}

    def printed(*through: str) -> str:
        done = program(tmp_path, environment, *through)
        assert done.returncode == 0, done.stderr
        return done.stdout

    plain = printed()
    # JAX imports filelock if installed, which may add its own hook.
    assert "audit hooks [" in plain
    assert printed("-m", "retrace", "run", "--out", "recording") == plain
    assert printed("-m", "retrace", "run", "--out", "others", "--children") == plain


LOCALE = """
import locale, os, sys
print(sys.flags.utf8_mode, sys.flags.dev_mode, os.environ.get("LC_CTYPE"))
print(sys.getfilesystemencoding(), sys.stdout.encoding, locale.getlocale())
locale.setlocale(locale.LC_ALL, "C")
open("written", "w").write("gr\u00f6\u00dfe")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX locales")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"LC_ALL": "C"},
        {"LANG": "C"},
        {"LC_CTYPE": "C.UTF-8"},
        {"PYTHONUTF8": "1"},
        {"PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["none", "LC_ALL", "LANG", "LC_CTYPE", "PYTHONUTF8", "uncoerced"],
)
def test_python_chooses_the_same_encoding(tmp_path: Path, given: dict[str, str]) -> None:
    """As in a container, where no locale is set: Python turns on its UTF-8 mode by itself."""
    (tmp_path / "program.py").write_text(LOCALE)
    own = ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONUTF8", "PYTHONCOERCECLOCALE", "RETRACE")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(own)}
    environment |= {"PYTHONPATH": str(ROOT), **given}

    def printed(*through: str) -> tuple[int, str]:
        done = program(tmp_path, environment, *through)
        return done.returncode, done.stdout

    assert printed("-m", "retrace", "run", "--out", "recording") == printed()

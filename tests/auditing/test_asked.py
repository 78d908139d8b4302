"""Audits requested on the command line, by another process, or by a marker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from retrace.model import Reason
from retrace.store.reader import read

pytestmark = pytest.mark.drawn

PROGRAM = """
import os, pathlib, subprocess, sys
import jax, jax.numpy as jnp
rate, printed = 12345.5, []

@jax.jit
def step(x):
    return x * rate

@jax.jit
def later(x):
    return x + 1

step(jnp.ones(3))
rate = 54321.5
if len(sys.argv) > 1:
    asked = [sys.executable, "-m", "retrace", "audit", str(os.getpid())]
    print(subprocess.run(asked, cwd=sys.argv[1], capture_output=True, text=True).stderr)
later(jnp.ones(3))
print(step(jnp.ones(3)))
"""

WAITING = """
import time, jax
waits = False

@jax.jit
def step(x):
    if waits:
        time.sleep(600)
    return x

step(1.0)
waits = True
"""

REBUILT = """
import jax, jax.numpy as jnp, numpy as np

@jax.tree_util.register_pytree_node_class
class Edges:
    def __init__(self, pairs):
        self.pairs = jnp.asarray(pairs, dtype=jnp.int32)
    def tree_flatten(self):
        return (self.pairs,), None
    @classmethod
    def tree_unflatten(cls, aux, children):
        made = cls([(0, 0)])
        (made.pairs,) = children
        return made

scale = 2.0

@jax.jit
def energy(edges, x):
    return x[edges.pairs].sum()

@jax.jit
def scaled(edges, x):
    return x[edges.pairs].sum() * scale

for each in (energy, scaled):
    each(Edges([(0, 1), (1, 2)]), np.ones(3))
scale = 3.0
"""

TESTS = """
import jax, jax.numpy as jnp, pytest
scale = 2.0
f = jax.jit(lambda x: x * scale)

@pytest.mark.retrace(stale="fail")
def test_stale(monkeypatch):
    f(1.0)
    monkeypatch.setitem(globals(), "scale", 3.0)
    f(1.0)

@pytest.mark.retrace(stale="fail")
def test_fresh():
    jax.jit(lambda x: x * scale)(1.0)

@pytest.mark.retrace(stale="fail")
def test_gone():
    g = jax.jit(lambda x: x - scale)
    g(1.0)
    f(2)

@pytest.mark.retrace(stale="never")
def test_nonsense():
    pass

@pytest.mark.retrace(audit_seconds=1)
def test_no_audit():
    pass
"""

SLOW_TESTS = f"""
import pytest
{WAITING.partition("step(1.0)")[0]}
@pytest.mark.retrace(stale="fail", audit_seconds=0.1)
def test_slow(monkeypatch):
    step(1.0)
    monkeypatch.setitem(globals(), "waits", True)
    step(1.0)
"""


def retrace(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    line = [sys.executable, "-m", "retrace", *arguments]
    return subprocess.run(
        line, capture_output=True, text=True, check=False, cwd=cwd, env=environment, timeout=300
    )


def test_on_the_command_line_and_by_another_process(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = retrace("run", "--audit", "program.py", str(tmp_path), cwd=tmp_path)
    assert (ran.returncode, "[12345.5" in ran.stdout) == (0, True), ran.stderr
    assert "asked process" in ran.stdout
    report = json.loads(retrace("report", "--format=json", cwd=tmp_path).stdout)
    (found,) = report["stale"]
    assert (found["function"], found["verdict"]) == ("step", "proved")
    assert found["reads"] == [
        {
            "name": "rate",
            "old": 12345.5,
            "new": 54321.5,
            "file": str(tmp_path / "program.py"),
            "line": 8,
        }
    ]
    # Requested once by another process, and once at the end.
    (file,) = tmp_path.glob(".retrace/*/*.jsonl")
    assert file.read_text().count('{"audit":') == 2
    assert not [*tmp_path.glob(".retrace/*/*.audit")]
    for form in ("text", "markdown", "html"):
        told = retrace("report", f"--format={form}", cwd=tmp_path).stdout
        assert "54321.5" in told
        hidden = retrace("report", "--redact", f"--format={form}", cwd=tmp_path).stdout
        assert "54321.5" not in hidden
        assert "step" in hidden


@pytest.mark.skipif(sys.platform != "linux", reason="nothing else tells what a process writes")
def test_by_its_number_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "elsewhere").mkdir()
    elsewhere = str(tmp_path / "elsewhere")
    ran = retrace("run", "--out=own", "program.py", elsewhere, cwd=tmp_path)
    assert "asked process" in ran.stdout
    report = json.loads(retrace("report", "own", "--format=json", cwd=tmp_path).stdout)
    assert [one["function"] for one in report["stale"]] == ["step"]
    # Not of this process, in which another test may record.
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle:
        nobody = retrace("audit", str(idle.pid), cwd=tmp_path / "elsewhere")
        idle.communicate(b"\n")
    assert (nobody.returncode, "pass the directory" in nobody.stderr) == (2, True)


def test_without_values_and_every_so_often(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = retrace("run", "--audit-every=1", "--redact", "--out=r", "program.py", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    (file,) = tmp_path.glob("r/*.jsonl")
    text = file.read_text()
    assert text.count('{"audit":') > 1
    assert "54321.5" not in text + ran.stderr
    assert "OUT OF DATE" in ran.stderr
    nobody = retrace("audit", "r", cwd=tmp_path)
    wrong = retrace("run", "--audit-every=often", "program.py", cwd=tmp_path)
    assert (nobody.returncode, wrong.returncode) == (2, 2)


def test_an_array_that_rebuilding_an_argument_creates_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(REBUILT)
    done = retrace("run", "--audit", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(retrace("report", "--format=json", cwd=tmp_path).stdout)
    assert [(one["function"], one["verdict"]) for one in report["stale"]] == [
        ("scaled", "proved")
    ]


def test_with_time_limits(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(WAITING)
    for limit, reason in (("--audit-seconds=0.1", Reason.SLOW), ("--audit-total=0", Reason.TIME)):
        out = tmp_path / reason
        done = retrace("run", "--audit", limit, "--out", str(out), "program.py", cwd=tmp_path)
        assert done.returncode == 0 and "step" in done.stderr, done.stderr
        (audit,) = read([out]).audits
        assert [one.reason for one in audit.checked] == [reason]
    nonsense = retrace("run", "--audit", "--audit-seconds=-1", "program.py", cwd=tmp_path)
    assert nonsense.returncode == 2


def test_by_a_marker(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    done = checked_by_pytest(tmp_path)
    assert "3 failed, 2 passed, 2 warnings" in done.stdout, done.stdout
    # Programs dropped by the end were not checked, and the test does not pass silently.
    told = [line for line in done.stdout.splitlines() if "could not check" in line]
    assert ["1 of 1" in told[0], "1 of 2" in told[1]] == [True, True], told
    assert re.search("FAILED test_it.py::test_stale - Failed: <lambda> .*: scale", done.stdout)
    assert "test_nonsense" in done.stdout
    assert re.search('audit_seconds .*stale="fail"', done.stdout)


def test_by_a_marker_with_a_time_limit(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SLOW_TESTS)
    done = checked_by_pytest(tmp_path)
    assert "1 passed, 1 warning" in done.stdout, done.stdout
    assert re.search(r": step \(.* limit", done.stdout), done.stdout


def checked_by_pytest(folder: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    environment = dict(os.environ)
    return subprocess.run(
        line, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )

"""A running program is followed without noticing."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import jax
import pytest

from retrace.command.live import LastLine
from retrace.command.watch import Watching, watch
from retrace.errors import UnreadableError
from retrace.model import Miss, Stage
from retrace.present.watching import screen, status
from retrace.reason.underway import underway
from retrace.store.following import Following, Life
from retrace.store.place import newest
from retrace.store.reader import read
from tests.process import COMMAND, environment, retrace
from tests.reading.story import TRAIN_STEP, Story, array, at, step_key, training, write

pytestmark = pytest.mark.drawn

PROGRAM = """
    import os, sys, time, jax, jax.numpy as jnp

    def wait_for(name):
        open(name + ".reached", "w").close()
        while not os.path.exists(name):
            time.sleep(0.02)

    @jax.jit
    def waits(x):
        wait_for("go")
        return x * 2

    @jax.jit
    def step(x):
        return x + 1

    step(1.0)
    waits(1.0)
    step(2)
    print("printed by the program")
    try:
        os.wait()
    except ChildProcessError:
        print("no child of mine")
"""


def until(path: Path) -> None:
    """Wait for a file of another process."""
    for _ in range(3000):
        if path.exists():
            return
        time.sleep(0.02)
    raise AssertionError(path)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(dedent(PROGRAM))
    return tmp_path


@contextmanager
def started(*arguments: str, cwd: Path, **where: Any) -> Generator[subprocess.Popen[str]]:
    """Run a command, killed if the test ends first."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], cwd=cwd, env=environment(TERM="xterm"), text=True, **where
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_program_is_followed_to_its_end(program: Path) -> None:
    with started("run", "program.py", cwd=program, stdout=subprocess.PIPE) as running:
        until(program / "go.reached")
        both = subprocess.PIPE
        with started("watch", cwd=program, stdout=both, stderr=both) as beside:
            assert beside.stdout is not None
            assert beside.stdout.readline().startswith("retrace: watching program.py")
            beside.send_signal(signal.SIGINT)
            _, complaint = beside.communicate(timeout=60)
            assert (beside.returncode, complaint) == (0, "")
            assert running.poll() is None
        with started("watch", cwd=program, stdout=subprocess.PIPE) as beside:
            assert beside.stdout is not None
            said = ""
            while "tracing or lowering waits" not in said:
                line = beside.stdout.readline()
                assert line, said
                said += line
            assert "step #1, program.py:14: first-trace" in said
            assert "waits #1" not in said
            (program / "go").touch()
            rest, _ = beside.communicate(timeout=120)
            assert beside.returncode == 0
        assert "waits #1, program.py:9: first-trace" in rest
        assert "step #2, program.py:14: dtype-changed, x" in rest
        assert "recorded in .retrace/" in rest
        assert running.wait() == 0
    if jax.__version_info__ > (0, 6, 0):  # 0.6.0 does not report when a compilation begins
        misses = read([newest(program / ".retrace")]).misses
        assert len(misses) > 2
        for miss in misses:
            assert miss.since is not None
            assert miss.time <= miss.since


def holders(descriptor: int) -> set[int]:
    """The processes that have a pipe open, if the system shows that."""
    pipe = f"pipe:[{os.fstat(descriptor).st_ino}]"
    found: set[int] = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(link) == pipe:
                found.add(int(link.parts[2]))
    return found


def test_the_last_line_of_the_terminal_shows_progress(program: Path) -> None:
    """`--live`: the program's output is complete, and nothing is left behind."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with started(
        "run", "--live", "program.py", cwd=program, stdout=subprocess.PIPE, stderr=theirs
    ) as running:
        os.close(theirs)
        shown = b""
        while b"tracing or lowering waits, program.py:9" not in shown:
            assert select.select([ours], [], [], 60)[0], shown
            shown += os.read(ours, 65536)
        assert running.stdout is not None
        assert holders(running.stdout.fileno()) <= {os.getpid(), running.pid}
        (program / "go").touch()
        # Its standard output ends with the program: no other process holds it.
        printed, _ = running.communicate(timeout=120)
        assert printed == "printed by the program\nno child of mine\n"
        try:
            while more := os.read(ours, 65536):
                shown += more
        except OSError:  # the end of a terminal on Linux: the drawing process is gone, too
            pass
        os.close(ours)
    assert running.returncode == 0
    assert shown.rindex(b"\x1b[r") > shown.rindex(b"1H\x1b[0m\x1b[2Kretrace:")


def test_live_needs_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('ran')")
    done = retrace("run", "--live", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr.startswith("retrace: --live shows nothing: ")
    assert "\x1b" not in done.stderr


def test_live_leaves_a_full_screen_program_alone(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    line = LastLine(theirs)
    line.show(lambda width: f"\x1b]0;title\x07 of {width}")
    drawn = os.read(ours, 1000)
    assert b"of 80" in drawn
    assert b"\x1b]" not in drawn
    tty.setraw(theirs)
    line.show(lambda _: "not shown")
    assert os.read(ours, 1000) == b"\x1b7\x1b[r\x1b[24;1H\x1b[2K\x1b8"
    os.close(ours)
    os.close(theirs)


# What is known about the program


def test_a_growing_recording_is_read_line_by_line(tmp_path: Path) -> None:
    whole = write(training(), tmp_path / "whole")
    [source] = whole.glob("*.jsonl")
    lines = source.read_bytes().splitlines(keepends=True)
    grows = tmp_path / "grows"
    grows.mkdir()
    watching = Watching(Following(grows))
    watching.look(at_once=True)
    assert watching.seen.misses == 0
    seen = 0
    with (grows / source.name).open("wb") as file:
        for line in lines:
            for part in (line[:7], line[7:]):
                file.write(part)
                file.flush()
                watching.look(at_once=True)
                assert watching.seen.misses >= seen
                seen = watching.seen.misses
    assert seen == len(training().misses)
    assert watching.is_over
    assert not watching.seen.view.losses()
    told = "\n".join(screen(watching.seen, 80, 24))
    assert "train_step" in told
    assert "What to change" in told
    assert len(told.splitlines()) <= 24
    assert max(map(len, told.splitlines())) <= 80
    assert len(screen(watching.seen, 40, 8)) <= 8
    # A wrapped line would make the next update draw in the wrong place.
    assert max(map(len, screen(watching.seen, 40, 60))) <= 40
    for width in (20, 60, 100):
        assert len(status(watching.seen, width)) < width
    # Parts that do not fit are left out with their separators.
    watching.seen.misses = 10**60
    seen = [status(watching.seen, width) for width in range(30, 120)]
    assert any("first:" in said for said in seen)
    assert not [said for said in seen if re.match("retrace: +[|]", said)]


def test_one_watch_follows_many_processes(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    here = socket.gethostname()
    alive = {"complete": False, "host": here, "pid": os.getpid(), "started": time.time()}
    for index, state in enumerate((alive, {"host": here}, {**alive, "host": "elsewhere"})):
        write(training(run=f"run{index}", process_index=index, **state), directory)
    following = Following(directory)
    watching = Watching(following)
    watching.look(at_once=True)
    assert watching.seen.lives == {Life.RUNS: 1, Life.ENDED: 1, Life.UNKNOWN: 1}
    assert not watching.is_over
    assert watching.seen.misses == 3 * len(training().misses)
    assert "2 of 3 processes running" in "\n".join(screen(watching.seen, 80, 24))
    # A process that starts later is found, too.
    write(training(run="late", process_index=3, host=here), directory)
    watching.look(at_once=True)
    assert watching.seen.lives[Life.ENDED] == 2


def test_a_process_that_was_killed_ends_the_watch(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    story = training(complete=False, host=socket.gethostname(), pid=gone.pid, started=time.time())
    done = retrace("watch", write(story, tmp_path / "rec"))
    assert done.returncode == 0
    assert "did not end" in done.stdout


def test_nothing_to_watch_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrace.command.watch._START_TIMEOUT", 0.0)
    with pytest.raises(UnreadableError, match="no recording in none:"):
        watch(Path("none"))


def flying(*rows: tuple[str, Stage | None, int | None, str]) -> list[Miss]:
    """Misses as (name, stage in flight, number of the parent, thread)."""
    story = Story()
    for name, stage, parent, thread in rows:
        miss = story.miss(
            TRAIN_STEP._replace(name=name),
            step_key(32, array("counter", "int32")),
            at(88, "train_step(state)"),
            (0.5,) if stage in (None, Stage.COMPILE) else (),
            in_flight=stage,
            parent=None if parent is None else f"{story.run.id}-{parent}",
        )
        miss.thread = thread
    return story.misses


def names(misses: list[Miss]) -> list[tuple[str, str]]:
    return [(one.outer.function.name, one.inner.function.name) for one in underway(misses)]


def test_what_is_under_way() -> None:
    trace, compiles = Stage.TRACE, Stage.COMPILE
    assert names(flying(("f", None, None, "A"))) == []
    assert names(flying(("f", trace, None, "A"))) == [("f", "f")]
    nested = ("f", trace, None, "A"), ("g", None, 0, "A"), ("h", trace, 1, "A")
    assert names(flying(*nested)) == [("f", "h")]
    assert names(flying(nested[0], nested[1], ("h", None, 1, "A"))) == [("f", "f")]
    # Its end was not written; the next miss of its thread shows it.
    assert names(flying(("f", trace, None, "A"), ("g", compiles, None, "A"))) == [("g", "g")]
    assert names(flying(("f", trace, None, "A"), ("g", trace, None, "B"))) == [
        ("f", "f"),
        ("g", "g"),
    ]


def test_since_when_is_recorded_and_estimated_where_it_is_not() -> None:
    [miss] = flying(("f", Stage.COMPILE, None, "A"))
    assert underway([miss])[0].since == miss.time + 0.5
    miss.since = miss.time + 0.75
    assert underway([miss])[0].since == miss.time + 0.75

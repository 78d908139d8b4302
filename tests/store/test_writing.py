"""Writing a recording: when killed, forked, re-entered, and with nowhere to write."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from retrace.model import Run, Stage
from retrace.store import sinks
from retrace.store import writer as writer_module
from retrace.store.reader import read, read_lines
from retrace.store.schema import MAX_LINE_BYTES, TOO_LARGE
from retrace.store.sinks import File, Memory
from retrace.store.writer import Writer

ROOT = Path(__file__).parents[2]
RUN = Run("k3f9a2x", "host", 1, None, 1.0, ["p.py"], "3.11", "0.10", "0.10")
FUNCTION = {
    "name": "f",
    "jax_name": "f",
    "qualname": "f",
    "kind": "def",
    "file": None,
    "line": 1,
    "site": "s",
    "object": 1,
}


def miss(writer: Writer, number: int) -> None:
    writer.miss(
        number,
        {
            "at": 1.0,
            "thread": "t",
            "function": writer.part("function", FUNCTION),
            "stage": "trace",
        },
    )


def numbers(path: Path) -> list[int]:
    return [found.number for found in read([path]).misses]


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the pause between attempts, so that every line is an attempt."""
    monkeypatch.setattr(writer_module, "RETRY_SECONDS", -1.0)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_process_leaves_every_line_and_the_miss_in_flight(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from retrace.model import Run
from retrace.store.sinks import File
from retrace.store.writer import Writer
run = Run("k3f9a2x", "h", 1, None, 1.0, [], "", "", "")
writer = Writer(File(Path({str(tmp_path)!r}) / "k3f9a2x.jsonl"), run)
for number in range(100):
    function = writer.part("function", {FUNCTION!r})
    writer.miss(number, {{"at": 1.0, "thread": "t", "function": function, "stage": "trace"}})
    if number < 99:
        writer.amend(number, {{"stages": {{"trace": 0.5}}}})
writer.amend(99, {{"stages": {{"trace": 0.5}}, "stage": "compile"}})
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    recording = read([tmp_path])
    assert [found.number for found in recording.misses] == list(range(100))
    assert [found.in_flight for found in recording.misses] == [None] * 99 + [Stage.COMPILE]
    assert not recording.runs[0].complete


def test_threads_write_complete_lines(tmp_path: Path) -> None:
    path = tmp_path / "k3f9a2x.jsonl"
    writer = Writer(File(path), RUN)
    start = threading.Barrier(4)

    def work(first: int) -> None:
        start.wait()
        for number in range(first, 400, 4):
            miss(writer, number)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.end()
    recording = read([path])
    assert [found.number for found in recording.misses] == list(range(400))
    assert recording.runs[0].losses == {}
    assert recording.runs[0].complete


def test_a_signal_handler_may_write_in_the_middle_of_a_line() -> None:
    class Entered(Memory):
        """Writes another miss while each line is being written."""

        depth = 0

        def write(self, line: str) -> None:
            if self.depth < 3 and '"retrace"' not in line:
                self.depth += 1
                miss(writer, 100 + self.depth)
            super().write(line)

    sink = Entered()
    writer = Writer(sink, RUN)
    miss(writer, 0)
    recording = read_lines(sink.lines)
    assert [found.number for found in recording.misses] == [0, 101, 102, 103]
    assert recording.runs[0].losses == {}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
# If other tests have loaded jax, it warns about forks with threads.
@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_leaves_its_parents_file_alone(tmp_path: Path) -> None:
    writer = Writer(File(tmp_path / "k3f9a2x.jsonl"), RUN)
    miss(writer, 0)
    child_pid = os.fork()
    if not child_pid:
        status = 1
        try:
            miss(writer, 1)
            writer.end()
            child = Run("child01", "host", 2, None, 1.0, [], "", "", "")
            own = Writer(File(tmp_path / "child01.jsonl"), child)
            miss(own, 0)
            own.end()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child_pid, 0)[1]) == 0
    miss(writer, 2)
    writer.end()
    recording = read([tmp_path])
    assert [found.id for found in recording.misses] == ["child01-0", "k3f9a2x-0", "k3f9a2x-2"]
    assert all(run.complete for run in recording.runs)


class Disk(Memory):
    """A sink that can be full."""

    full = False

    def write(self, line: str) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(line)


def test_a_full_disk_is_raised_once_and_counted_once_there_is_room(
    no_pause: None,
) -> None:
    disk = Disk()
    writer = Writer(disk, RUN)
    miss(writer, 0)
    disk.full = True
    with pytest.raises(OSError, match="No space left"):
        miss(writer, 1)
    miss(writer, 2)
    writer.loss("never mind")
    disk.full = False
    miss(writer, 3)
    writer.end()
    recording = read_lines(disk.lines)
    assert [found.number for found in recording.misses] == [0, 3]
    assert recording.runs[0].losses == {"not written: No space left on device": 3}
    assert recording.runs[0].complete


def test_a_failing_disk_is_not_used_between_attempts() -> None:
    disk = Disk()
    writer = Writer(disk, RUN)
    disk.full = True
    with pytest.raises(OSError, match="No space left"):
        writer.loss("one")
    disk.full = False
    miss(writer, 0)
    assert len(disk.lines) == 1
    writer.end()  # the last attempt does not wait
    assert read_lines(disk.lines).runs[0].losses == {"not written: No space left on device": 2}


@pytest.mark.skipif(sys.platform == "win32", reason="limits")
def test_a_line_cut_by_a_full_disk_damages_no_other(
    tmp_path: Path, no_pause: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    # A limit is foreseen; that a disk is full is not.
    never: Callable[[int], bool] = lambda _: False
    monkeypatch.setattr(sinks, "_is_beyond_limit", never)
    path = tmp_path / "k3f9a2x.jsonl"
    writer = Writer(File(path), RUN)
    miss(writer, 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            miss(writer, 1)
        miss(writer, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    miss(writer, 3)
    writer.end()
    recording = read([path])
    assert [found.number for found in recording.misses] == [0, 3]
    assert recording.runs[0].losses == {"unreadable line": 1, "not written: File too large": 2}


def test_an_incomplete_header_is_written_again(tmp_path: Path, no_pause: None) -> None:
    class Torn(File):
        """Writes half of its first line, then fails."""

        whole = False

        def write(self, line: str) -> None:
            if not self.whole:
                self.whole = True
                super().write(line[:20])
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write(line)

    writer = Writer(Torn(tmp_path / "k3f9a2x.jsonl"), RUN)
    miss(writer, 0)
    (run,) = read([tmp_path]).runs
    assert run.host == "host"
    assert numbers(tmp_path) == [0]


def test_a_folder_missing_from_the_start_raises_at_the_first_line(
    tmp_path: Path, no_pause: None
) -> None:
    folder = tmp_path / "gone"
    writer = Writer(File(folder / "k3f9a2x.jsonl"), RUN)
    assert isinstance(writer.failure, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        writer.loss("one")
    writer.loss("two")
    folder.mkdir()
    miss(writer, 0)
    writer.end()
    assert numbers(folder) == [0]


def test_a_removed_file_is_started_again_with_everything_it_needs(
    tmp_path: Path, no_pause: None
) -> None:
    path = tmp_path / "k3f9a2x.jsonl"
    writer = Writer(File(path), RUN)
    miss(writer, 0)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        miss(writer, 1)
    miss(writer, 2)
    writer.end()
    assert numbers(path) == [2]


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors")
def test_a_descriptor_reused_by_the_program_is_never_written(tmp_path: Path) -> None:
    path, other = tmp_path / "k3f9a2x.jsonl", tmp_path / "the-programs-own"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.close(descriptor)  # the lowest free number, which the writer gets
    writer = Writer(File(path), RUN)
    miss(writer, 0)
    os.close(descriptor)
    taken = os.open(other, os.O_WRONLY | os.O_CREAT)
    assert taken == descriptor
    miss(writer, 1)
    writer.end()
    os.fstat(descriptor)  # still open: the writer must not close it
    os.close(descriptor)
    assert other.read_bytes() == b""
    assert numbers(path) == [0, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors")
def test_a_closed_descriptor_is_opened_again_above_the_standard_streams(tmp_path: Path) -> None:
    """A daemon closes all, and the next three files that it opens become its streams."""
    done = subprocess.run(
        [sys.executable, "-c", DAEMON, str(tmp_path / "k3f9a2x.jsonl")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert numbers(tmp_path / "k3f9a2x.jsonl") == [0, 1]


DAEMON = """
import os, sys
from pathlib import Path
from retrace.store.sinks import File
from retrace.store.writer import Writer
from tests.store.test_writing import RUN, miss

writer = Writer(File(Path(sys.argv[1])), RUN)
miss(writer, 0)
os.closerange(0, 64)
miss(writer, 1)
opened = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
writer.end()
os._exit(opened != [0, 1, 2])
"""


def test_a_line_too_long_for_readers_is_counted() -> None:
    sink = Memory()
    writer = Writer(sink, RUN)
    writer.part("static", [["x", ["str", "y" * MAX_LINE_BYTES, None, False, None]]])
    assert read_lines(sink.lines).runs[0].losses == {TOO_LARGE: 1}


def test_a_line_after_the_end_reopens_the_recording(tmp_path: Path) -> None:
    writer = Writer(File(tmp_path / "k3f9a2x.jsonl"), RUN)
    miss(writer, 0)
    writer.end()
    miss(writer, 1)
    assert numbers(tmp_path) == [0, 1]
    assert not read([tmp_path]).runs[0].complete
    writer.end()
    assert read([tmp_path]).runs[0].complete


def test_equal_parts_are_written_once() -> None:
    sink = Memory()
    writer = Writer(sink, RUN)
    first = writer.part("static", [["x", ["int", "1", None, True, 1]]])
    assert writer.part("static", [["x", ["int", "1", None, True, 1]]]) == first
    assert writer.part("options", [["x", ["int", "1", None, True, 1]]]) != first
    assert writer.part("static", [["x", ["bool", "1", None, True, True]]]) != first
    assert len(sink.lines) == 4


def test_later_facts_about_the_run_are_read() -> None:
    sink = Memory()
    writer = Writer(sink, RUN)
    writer.amend_run({"backend": "cpu", "process_index": 2})
    (run,) = read_lines(sink.lines).runs
    assert (run.backend, run.process_index) == ("cpu", 2)

"""Which recordings are old, and what is removed with them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retrace.store import removal
from tests.hostile.commands import run
from tests.reading.story import training, write

DAY = 86400


def record(root: Path, name: str, days: float = 0, ended: bool = True, **header: object) -> Path:
    directory = write(training(), root / name)
    (file,) = directory.glob("*.jsonl")
    first, *lines = file.read_text().splitlines()
    fields = json.loads(first)
    fields["run"] |= {"host": socket.gethostname(), "pid": ended_process(), **header}
    lines = [line for line in lines if line != '{"end":true}']
    end = ['{"end":true}'] if ended else []
    file.write_text("\n".join([json.dumps(fields, separators=(",", ":")), *lines, *end, ""]))
    then = time.time() - days * DAY
    for path in directory.iterdir():
        os.utime(path, (then, then))
    os.utime(directory, (then, then))
    return directory


def ended_process() -> int:
    """The number of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".retrace"


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_only_old_recordings_are_removed(root: Path) -> None:
    for day in range(1, 6):
        record(root, f"2025-01-0{day}T10-00-00", days=10 - day)
    assert run("clean", "--keep", "3").status == 0
    assert len(names(root)) == 5  # not a terminal: only listed
    listed = run("clean", "--keep", "3")
    assert listed.out.count("\n") == 2
    assert "--yes" in listed.err
    assert run("clean", "--yes").status == 0
    assert len(names(root)) == 5
    assert run("clean", "--keep", "3", "--older-than", "9", "--yes").status == 0
    assert len(names(root)) == 4
    assert run("clean", "--older-than", "7.5", "--yes").status == 0
    assert names(root) == [f"2025-01-0{day}T10-00-00" for day in (3, 4, 5)]
    assert run("clean", "--keep", "0", "--yes").status == 0
    assert names(root) == []
    assert run("clean", "--keep", "0", "--yes").status == 0
    for wrong in (["--keep", "-1"], ["--older-than", "-1"], ["--older-than", "nan"]):
        ended = run("clean", *wrong)
        assert (ended.status, ended.out, ended.err.count("\n")) == (2, "", 1)


def test_other_files_stay(root: Path, tmp_path: Path) -> None:
    mine = record(root, "mine")
    for name in ("notes.txt", "data.jsonl", "data.programs", "zero.jsonl"):
        (mine / name).write_text("" if name == "zero.jsonl" else '{"mine":1}\n')
    outside = record(tmp_path, "outside")
    (root / "link").symlink_to(outside)
    linked = root / "linked"
    linked.mkdir()
    (file,) = outside.glob("*.jsonl")
    (linked / "a1.jsonl").symlink_to(file)
    (root / "empty").mkdir()
    (root / "file").write_text("")
    (root / ".gitignore").write_text("*\n")
    os.mkfifo(mine / "pipe.jsonl")
    assert run("clean", "--keep", "0", "--yes").status == 0
    assert names(mine) == ["data.jsonl", "data.programs", "notes.txt", "pipe.jsonl", "zero.jsonl"]
    assert names(linked) == ["a1.jsonl"]
    assert file.exists()
    assert {"link", "empty", "file", ".gitignore"} <= {*names(root)}
    root.rename(tmp_path / "moved")
    root.symlink_to(tmp_path / "moved")
    before = names(tmp_path / "moved")
    assert run("clean", "--keep", "0", "--yes").status == 2
    assert names(tmp_path / "moved") == before


def test_a_recording_being_written_stays(root: Path) -> None:
    record(root, "ended", pid=os.getpid())
    record(root, "killed", ended=False)
    record(root, "running", ended=False, pid=os.getpid(), days=90)
    record(root, "elsewhere", ended=False, host="other", days=3)
    record(root, "long-ago", ended=False, host="other", days=90)
    writers = {one.directory.name: one.writer for one in removal.found(root)}
    assert {name for name, writer in writers.items() if writer} == {"running", "elsewhere"}
    assert str(os.getpid()) in str(writers["running"])
    assert run("clean", "--keep", "0", "--yes").status == 0
    assert names(root) == ["elsewhere", "running"]

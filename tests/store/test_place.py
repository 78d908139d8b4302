"""Where a recording goes, and which one is the newest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from retrace.errors import UnreadableError, UsageError
from retrace.model import Run
from retrace.store.place import create, holds_recording, new_run_id, newest, recordings
from retrace.store.sinks import File
from retrace.store.writer import Writer


def record(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    name = new_run_id()
    Writer(File(directory / f"{name}.jsonl"), Run(name, "h", 1, None, 1.0, [], "", "", "")).end()
    return directory


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_default_is_a_new_directory_named_by_time_and_ignored_by_git(here: Path) -> None:
    made = [create() for _ in range(3)]
    assert len(set(made)) == 3
    for path in made:
        assert path.parent == here / ".retrace"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(-\d)?", path.name)
    assert (here / ".retrace" / ".gitignore").read_text() == "*\n"


def test_the_newest_is_the_one_started_last(here: Path) -> None:
    root = here / ".retrace"
    names = ["2026-01-02T03-04-05", "2026-01-02T03-04-05-2", "2026-01-02T03-04-05-10"]
    for name in reversed(names):
        record(root / name)
    (root / "2026-12-31T00-00-00").mkdir()  # created, but nothing recorded
    assert newest().name == names[-1]
    assert [path.name for path in recordings()] == names[::-1]
    os.utime(record(root / "mine"), (0, 0))
    assert [path.name for path in recordings()] == [*names[::-1], "mine"]


def test_without_recordings_the_error_says_what_to_do() -> None:
    assert list(recordings()) == []
    with pytest.raises(UnreadableError, match="`retrace run SCRIPT`"):
        newest()


def test_a_recording_is_only_replaced_with_force(here: Path) -> None:
    out = record(here / "out")
    (out / "notes.jsonl").write_text('{"mine":1}\n')
    (out / "notes.txt").write_text("mine")
    before = sorted(out.iterdir())
    assert create(out) == create(out, append=True) == out
    assert sorted(out.glob("[!.]*")) == before
    assert create(out, force=True) == out
    assert sorted(path.name for path in out.glob("[!.]*")) == ["notes.jsonl", "notes.txt"]
    assert not holds_recording(out)


def test_processes_of_a_job_with_force_keep_each_others_recordings(here: Path) -> None:
    out = record(here / "out")
    create(out, job="training")
    (old,) = out.glob("*.jsonl")
    record(create(out, force=True, job="training-2"))
    assert not old.exists()
    (first,) = out.glob("*.jsonl")
    # Another process of the same job.
    code = "import sys; from pathlib import Path; from retrace.store.place import create; "
    code += "create(Path(sys.argv[1]), force=True, job='training-2')"
    subprocess.run([sys.executable, "-c", code, str(out)], check=True)
    assert list(out.glob("*.jsonl")) == [first]
    assert len(list(out.glob(".attempt-*"))) == 1
    # The next job replaces all of that.
    record(create(out, force=True, job="training-3"))
    assert len(list(out.glob("*.jsonl"))) == 1


def test_a_directory_with_other_files_is_used_unchanged(here: Path) -> None:
    (here / "notes.txt").write_text("mine")
    assert create(Path()) == here
    assert create(Path("new/one")) == here / "new" / "one"
    assert not (here / "new" / ".gitignore").exists()


def test_a_directory_that_cannot_be_written_is_one_line(here: Path) -> None:
    (here / "file").write_text("")
    with pytest.raises(UsageError, match="file is a file"):
        create(Path("file"))
    with pytest.raises(UsageError, match=r"cannot write .* --out DIR"):
        create(Path("file/inner"))
    (here / ".retrace").write_text("")
    with pytest.raises(UsageError, match=r"\.retrace is a file"):
        create()


def test_run_ids_are_short_and_need_no_quoting() -> None:
    ids = {new_run_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch("[a-z][0-9a-z]{6}", name) for name in ids)


@pytest.mark.parametrize("address", ["gs://bucket/run", "s3://bucket/a/b", "memory://x"])
def test_an_object_store_is_not_a_folder(address: str, here: Path) -> None:
    with pytest.raises(UsageError, match="object store"):
        create(Path(address))
    assert list(here.iterdir()) == []
    assert create(here / "a:b").is_dir()
    assert create(Path("C:run")).is_dir()

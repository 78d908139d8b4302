"""Paths that do not lead to regular files, and files that replace others."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrace.errors import UnreadableError, UsageError
from retrace.model import Run
from retrace.store import files
from retrace.store.place import create, recording_files
from retrace.store.reader import read
from retrace.store.sinks import File
from retrace.store.writer import Writer
from tests.reading.story import training, write


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, with the usual umask."""
    monkeypatch.chdir(tmp_path)
    mask = os.umask(0o022)
    yield tmp_path
    os.umask(mask)


def irregular(folder: Path) -> list[Path]:
    """Everything that is not a regular file, and a link to each."""
    folder.mkdir()
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("irregular/socket" if folder.name == "irregular" else str(folder / "socket"))
    (folder / "ring").symlink_to("ring")
    (folder / "nowhere").symlink_to("gone")
    found = [*sorted(folder.iterdir()), Path("/dev/zero"), Path("/dev/null")]
    for index, path in enumerate(list(found)):
        link = folder / f"link{index}"
        link.symlink_to(path)
        found.append(link)
    return found


def test_only_files_are_read(here: Path) -> None:
    for path in irregular(here / "irregular"):
        with pytest.raises(OSError, match=str(path)) as raised:
            files.content(path)
        assert not isinstance(raised.value, FileNotFoundError), path
    with pytest.raises(FileNotFoundError):
        files.content(here / "gone")
    (here / "file").write_text("text")
    (here / "link").symlink_to("file")
    assert files.content(here / "link") == b"text"
    assert files.content(here / "file", 4) == b"text"
    with pytest.raises(files.NotRegularError):
        files.content(here / "file", 3)
    assert (
        files.content(Path("/proc/self/cmdline")) != b""
    )  # its size is unknown before it is read


def test_a_recording_is_read_among_other_files(here: Path) -> None:
    directory = write(training(), here / "rec")
    for index, path in enumerate(irregular(here / "irregular")):
        (directory / f"x{index}.jsonl").symlink_to(path)
        os.replace(directory / f"x{index}.jsonl", directory / f"{chr(97 + index)}{index}.jsonl")
    (directory / "k3x9f2a.programs").unlink(missing_ok=True)
    os.mkfifo(directory / "k3x9f2a.programs")
    assert len(list(recording_files(directory))) == 1
    recording = read([directory])
    assert len(recording.misses) == 20
    assert len(recording.listings) == 0
    for path in irregular(here / "more"):
        with pytest.raises(UnreadableError):
            read([path])


def test_an_endless_file_is_not_a_recording(here: Path) -> None:
    with (here / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UnreadableError):
        read([here / "sparse"])


def test_a_rewritten_header_is_recognised(here: Path) -> None:
    directory = write(training(), here / "rec")
    (file,) = directory.glob("*.jsonl")
    text = file.read_text()
    assert text.startswith('{"retrace":')
    file.write_text(text.replace('{"retrace":', ' { "retrace" : ', 1))
    assert list(recording_files(directory)) == [file]
    assert len(read([directory]).misses) == 20


def test_a_file_is_written_completely_or_not_at_all(here: Path) -> None:
    target = here / "report"

    def broken() -> Iterator[str]:
        yield "half"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        files.write(target, broken())
    assert list(here.iterdir()) == []
    files.write(target, ["one", b"\n", "\ud800"])
    assert target.read_bytes() == b"one\n\\ud800"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    target.chmod(0o640)
    (here / "link").symlink_to("report")
    with pytest.raises(RuntimeError):
        files.write(here / "link", broken())
    assert target.read_bytes() == b"one\n\\ud800"
    files.write(here / "link", ["two"])
    assert (here / "link").is_symlink()
    assert target.read_text() == "two"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    os.link(target, here / "other")
    files.write(target, ["three"])
    assert (here / "other").read_text() == "three"
    (here / "nowhere").symlink_to("new")
    files.write(here / "nowhere", ["four"])
    assert (here / "new").read_text() == "four"
    assert sorted(path.name for path in here.iterdir()) == [
        "link", "new", "nowhere", "other", "report",
    ]  # fmt: skip


def test_irregular_files_are_written_directly(here: Path) -> None:
    os.mkfifo(here / "pipe")
    reader = os.open(here / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write(here / "pipe", ["through"])
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    files.write(Path("/dev/null"), ["away"])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with (here / "log").open("w") as log:
        log.write("before\n")
        log.flush()
        files.write(Path(f"/dev/fd/{log.fileno()}"), ["between\n"])
        log.write("after\n")
    assert (here / "log").read_text() == "before\nbetween\nafter\n"


# World-writable folders


def run_into(directory: Path) -> Path:
    file = directory / "a1.jsonl"
    Writer(File(file), Run("a1", "h", 1, None, 1.0, [], "", "", "")).end()
    return file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_in_a_shared_folder_only_the_user_can_read_a_recording(here: Path) -> None:
    shared = here / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    made = create(shared / "deep" / "rec")
    assert [mode(made), mode(made.parent)] == [0o755, 0o700]
    assert mode(create(shared / "rec")) == 0o700
    assert mode(run_into(shared)) == 0o600
    os.chdir(shared)
    assert mode(create().parent) == 0o700
    os.chdir(here)
    assert [mode(create(here / "own")), mode(create())] == [0o755, 0o755]
    assert mode(run_into(here / "own")) == 0o644


def test_another_users_folder_or_link_is_refused_there(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, elsewhere = here / "shared", here / "elsewhere"
    shared.mkdir()
    shared.chmod(0o1777)
    elsewhere.mkdir()
    (shared / "link").symlink_to(elsewhere)
    (shared / ".retrace").mkdir()
    own = os.geteuid() + 1
    for path in (shared / "link", shared / ".retrace"):
        os.chown(path, own, -1, follow_symlinks=False) if os.geteuid() == 0 else None
    if os.geteuid():
        monkeypatch.setattr(os, "geteuid", lambda: own)
    for out in (shared / "link", shared / ".retrace"):
        with pytest.raises(UsageError, match="another user"):
            create(out)
    monkeypatch.chdir(shared)
    with pytest.raises(UsageError, match="another user"):
        create()
    assert list(elsewhere.iterdir()) == []
    (elsewhere / "a1.jsonl").symlink_to(here / "victim")
    run = Run("a1", "h", 1, None, 1.0, [], "", "", "")
    writer = Writer(File(elsewhere / "a1.jsonl"), run)
    assert writer.failure is not None
    assert not (here / "victim").exists()

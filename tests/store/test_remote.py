"""Recordings in object stores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from retrace.errors import UnreadableError, UsageError
from retrace.store import place, remote
from retrace.store.processes import files_of
from tests.process import retrace
from tests.reading.story import training, write


def test_files_of_an_address_are_fetched() -> None:
    fsspec: Any = __import__("fsspec")
    store = fsspec.filesystem("memory")
    store.pipe("/bucket/run/a.jsonl", b'{"retrace": 1}\n')
    store.pipe("/bucket/run/a.programs", b"x")
    store.pipe("/bucket/run/other.txt", b"y")
    (file,) = files_of(Path("memory://bucket/run"))
    assert file.read_bytes() == b'{"retrace": 1}\n'
    assert sorted(p.name for p in file.parent.iterdir()) == ["a.jsonl", "a.programs"]
    with pytest.raises(UnreadableError, match="memory://bucket/none"):
        files_of(Path("memory://bucket/none"))


def test_a_single_file_has_an_address() -> None:
    fsspec: Any = __import__("fsspec")
    store = fsspec.filesystem("memory")
    for name in ("a", "b"):
        store.pipe(f"/home/.retrace/monday/{name}.jsonl", f"{name}\n".encode())
        store.pipe(f"/home/.retrace/monday/{name}.programs", b"x")
    (file,) = files_of(Path("memory://home/.retrace/monday/a.jsonl"))
    assert (file.name, file.read_bytes()) == ("a.jsonl", b"a\n")
    assert sorted(p.name for p in file.parent.iterdir()) == ["a.jsonl", "a.programs"]
    with pytest.raises(UnreadableError, match=r"memory://home/.retrace/monday/c\.jsonl"):
        files_of(Path("memory://home/.retrace/monday/c.jsonl"))


def test_a_worker_without_access_to_the_copy_makes_its_own() -> None:
    fsspec: Any = __import__("fsspec")
    store = fsspec.filesystem("memory")
    for end in ("jsonl", "2.jsonl", "programs"):
        store.pipe(f"/far/runs/monday/a.{end}", b'{"retrace": 1}\n')
    for address in ("memory://far/runs", "memory://far/runs/monday/a.jsonl"):
        (file,) = files_of(Path(address))
        origin = remote.origin_of(file)
        assert origin == "memory://far/runs/monday/a.jsonl"
        with remote.local_copy(file, origin) as same:
            assert same == file
        for copied in file.parent.iterdir():
            copied.unlink()
        with remote.local_copy(file, origin) as same:
            assert sorted(p.name for p in same.parent.iterdir()) == [
                "a.2.jsonl",
                "a.jsonl",
                "a.programs",
            ]
        assert not same.parent.exists()
    assert remote.origin_of(Path(__file__)) is None


def test_the_newest_recording_under_a_retrace_address_is_read() -> None:
    fsspec: Any = __import__("fsspec")
    store = fsspec.filesystem("memory")
    for name in ("2026-11-20T12-00-00", "2026-11-22T09-00-00", "2026-11-21T18-00-00"):
        store.pipe(f"/team/.retrace/{name}/a.jsonl", b'{"retrace": 1}\n')
    (file,) = files_of(Path("memory://team/.retrace"))
    assert file.parent.name == "2026-11-22T09-00-00"
    assert len(files_of(Path("memory://team/.retrace/2026-11-20T12-00-00"))) == 1


def test_without_fsspec_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UnreadableError, match=r"retrace-jax\[remote\]"):
        files_of(Path("s3://bucket/absent"))


@pytest.mark.parametrize("address", ["gs://bucket/run", "s3:/bucket", "memory://a"])
def test_a_window_is_not_recorded_to_an_address(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="retrace run --out"):
        place.create(Path(address))
    assert not list(tmp_path.iterdir())


def test_s3(bucket: str, tmp_path: Path) -> None:
    fsspec: Any = __import__("fsspec")
    (tmp_path / "here").mkdir()
    recording = write(training(), tmp_path / "run")
    fsspec.filesystem("s3", skip_instance_cache=True).put(
        str(recording), f"{bucket}/run", recursive=True
    )
    names = {"TMPDIR": str(tmp_path / "here")}
    there = retrace("report", f"{bucket}/run", cwd=tmp_path, **names)
    here = retrace("report", recording, cwd=tmp_path)
    assert (there.returncode, there.stdout) == (0, here.stdout)
    same = retrace("diff", f"{bucket}/run", recording, cwd=tmp_path, **names)
    assert (same.returncode, same.stderr) == (0, "")
    for absent in (f"{bucket}/none", "s3://no-such-bucket/run"):
        none = retrace("report", absent, cwd=tmp_path, **names)
        assert none.returncode == 2 and absent in none.stderr
    assert not list((tmp_path / "here").iterdir())

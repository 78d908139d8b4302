"""Recordings in object stores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from retrace.errors import UnreadableError
from retrace.store.processes import files_of


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


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UnreadableError, match=r"retrace-jax\[remote\]"):
        files_of(Path("s3://bucket/absent"))

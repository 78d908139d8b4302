"""Recordings that may go: what they are made of, and whether anybody writes them still."""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from retrace.store import files
from retrace.store.attempts import clear, numbers_of
from retrace.store.place import recording_files, recordings
from retrace.store.programs import BEGINNING, SUFFIX
from retrace.store.segments import all_of, firsts

DAY = 24 * 3600.0
_SILENT = 30 * DAY
"""After so long without a line a process elsewhere counts as gone."""
_ENDED = b'{"end":true}\n'
_LONGEST_HEADER = 1 << 20


class Old(NamedTuple):
    """One recording, as it lies in its directory."""

    directory: Path
    files: tuple[Path, ...]
    """Its own, and no others."""
    processes: int
    size: int
    changed: float
    """When a line was last written, in seconds since 1970."""
    writer: str | None
    """Who may still write it."""


def found(root: Path) -> list[Old]:
    """The recordings under `root`, newest first; none that a link leads to."""
    return [_look(path) for path in recordings(root) if not path.is_symlink()]


def remove(old: Old) -> None:
    """Remove the files of a recording, and its directory where nothing else lies in it.

    Raises OSError.
    """
    for file in old.files:
        file.unlink(missing_ok=True)
    if not any(recording_files(old.directory)):
        clear(old.directory, numbers_of(old.directory))
    with suppress(OSError):  # something of somebody else's lies in it
        old.directory.rmdir()


def _look(directory: Path) -> Old:
    lines = [path for path in recording_files(directory) if _is_plain(path)]
    programs = [path for path in directory.glob(f"*{SUFFIX}") if _is_programs(path, lines)]
    status = [path.lstat() for path in (*lines, *programs)]
    return Old(
        directory,
        (*lines, *programs),
        len(firsts(lines)),
        sum(one.st_size for one in status),
        max((one.st_mtime for one in status), default=0.0),
        next(filter(None, (_writer(all_of(first)[-1]) for first in firsts(lines))), None),
    )


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _is_programs(path: Path, lines: list[Path]) -> bool:
    if not _is_plain(path):
        return False
    try:
        with files.opened(path) as file:
            begun = file.read(len(BEGINNING))
    except OSError:
        return False
    # An empty one is what a full disk leaves.
    return begun == BEGINNING.encode() or (not begun and path.with_suffix(".jsonl") in lines)


def _writer(path: Path) -> str | None:
    """Who may still write a file; None where nobody does."""
    try:
        with files.opened(path) as file:
            if _has_ended(file):
                return None
            file.seek(0)
            run: Any = json.loads(file.readline(_LONGEST_HEADER))["run"]
            host, process = run["host"], run["pid"]
            is_here = host == socket.gethostname() and os.name == "posix"
            silent = time.time() - os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return "somebody, perhaps: its first line is unreadable"
    if not is_here or type(process) is not int:
        return "a process on another host, perhaps" if silent < _SILENT else None
    return f"process {process}" if lives(process) else None


def _has_ended(file: IO[bytes]) -> bool:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - len(_ENDED)))
    return file.read() == _ENDED


def lives(process: int) -> bool:
    """Whether a process of this host runs."""
    try:
        os.kill(process, 0)  # asks, and sends nothing
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    except OSError:
        return True  # another user's
    return True

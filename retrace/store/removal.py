"""Recordings that may be deleted: their files, and whether a process still writes them."""

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
_MAX_SILENCE = 30 * DAY
"""After this long without a line, a process on another host counts as ended."""
_END_LINE = b'{"end":true}\n'
_MAX_HEADER_BYTES = 1 << 20


class Removable(NamedTuple):
    """One recording in its directory."""

    directory: Path
    files: tuple[Path, ...]
    """Only its own files."""
    processes: int
    size: int
    changed: float
    """When a line was last written, in seconds since 1970."""
    writer: str | None
    """Who may still be writing it, if anybody."""


def found(root: Path) -> list[Removable]:
    """Find the recordings under `root`, newest first, without following links."""
    return [_recording(path) for path in recordings(root) if not path.is_symlink()]


def remove(recording: Removable) -> None:
    """Remove the files of a recording, and its directory if nothing else is in it.

    Raises OSError.
    """
    for file in recording.files:
        file.unlink(missing_ok=True)
    if not any(recording_files(recording.directory)):
        clear(recording.directory, numbers_of(recording.directory))
    with suppress(OSError):  # it contains other files
        recording.directory.rmdir()


def _recording(directory: Path) -> Removable:
    lines = [path for path in recording_files(directory) if _is_regular(path)]
    programs = [path for path in directory.glob(f"*{SUFFIX}") if _is_programs(path, lines)]
    status = [path.lstat() for path in (*lines, *programs)]
    return Removable(
        directory,
        (*lines, *programs),
        len(firsts(lines)),
        sum(one.st_size for one in status),
        max((one.st_mtime for one in status), default=0.0),
        next(filter(None, (_writer(all_of(first)[-1]) for first in firsts(lines))), None),
    )


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _is_programs(path: Path, lines: list[Path]) -> bool:
    if not _is_regular(path):
        return False
    try:
        with files.opened(path) as file:
            start = file.read(len(BEGINNING))
    except OSError:
        return False
    # A full disk leaves an empty file.
    return start == BEGINNING.encode() or (not start and path.with_suffix(".jsonl") in lines)


def _writer(path: Path) -> str | None:
    """Who may still be writing a file, if anybody."""
    try:
        with files.opened(path) as file:
            if _has_ended(file):
                return None
            file.seek(0)
            run: Any = json.loads(file.readline(_MAX_HEADER_BYTES))["run"]
            host, process = run["host"], run["pid"]
            is_here = host == socket.gethostname() and os.name == "posix"
            silence = time.time() - os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return "somebody, perhaps: its first line is unreadable"
    if not is_here or type(process) is not int:
        return "a process on another host, perhaps" if silence < _MAX_SILENCE else None
    return f"process {process}" if is_alive(process) else None


def _has_ended(file: IO[bytes]) -> bool:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - len(_END_LINE)))
    return file.read() == _END_LINE


def is_alive(process: int) -> bool:
    """Whether a process of this host is running."""
    try:
        os.kill(process, 0)  # sends no signal
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    except OSError:
        return True  # it belongs to another user
    return True

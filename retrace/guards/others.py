"""Reads other recordings of this process: `retrace run`, `install`, a `recording()` block.

Each line is read once, as the recording grows.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from weakref import WeakKeyDictionary

from retrace.errors import UnreadableError
from retrace.inside.live import recorded_directories
from retrace.model import Miss, Run
from retrace.store.bounded_lines import lines
from retrace.store.processes import files_of
from retrace.store.reader import Reader
from retrace.store.segments import after
from retrace.store.sinks import Memory


class _Tail:
    """One recording and how much of it has been read."""

    def __init__(self, path: Path | None = None) -> None:
        self._reader = Reader()
        self._misses = 0
        self.path = path
        """The segment being read."""
        self.read = 0
        """The position: a line number in memory, a byte offset in a file."""

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._reader.add(text)

    def more(self) -> list[Miss]:
        """The misses that were not returned before."""
        _, found = self._reader.since(self._misses)
        self._misses += len(found)
        return found

    @property
    def run(self) -> Run:
        return self._reader.since(self._misses)[0]


class Others:
    """The recordings of this process other than the guards' own."""

    def __init__(self) -> None:
        self._windows: WeakKeyDictionary[Memory, _Tail] = WeakKeyDictionary()
        self._files: dict[Path, _Tail | None] = {}
        """None for a file of another process."""
        self._changed: dict[Path, int] = {}

    def more(self, run: str) -> Iterator[Miss]:
        """The new misses, renamed as if `run` had recorded them."""
        from retrace.capture.session import session

        for memory in session().windows.values():
            tail = self._windows.setdefault(memory, _Tail())
            new = memory.lines[tail.read :]
            tail.read += len(new)
            tail.add(new)
            yield from _of_run(tail.more(), run)
        for directory in recorded_directories():
            try:
                self._find_files(directory)
            except (OSError, UnreadableError):
                continue  # removed or unreadable
        for tail in self._files.values():
            if tail is not None:
                _read_rest(tail)
                yield from _of_run(tail.more(), run)

    def _find_files(self, directory: Path) -> None:
        """Find this process's files in a directory, which many processes may share."""
        changed = directory.stat().st_mtime_ns
        if self._changed.get(directory) == changed:
            return
        for path in files_of(directory):
            if path not in self._files:
                tail = _Tail(path)
                _read_lines(path, tail, limit=1)
                ours = (tail.run.pid, tail.run.host) == (os.getpid(), socket.gethostname())
                if ours or tail.read:
                    self._files[path] = tail if ours else None
        self._changed[directory] = changed


def _read_rest(tail: _Tail) -> None:
    """Read the rest of a file and the segments that continue it."""
    while tail.path is not None:
        following = after(tail.path)
        is_full = following.is_file()  # checked first: then the current segment is complete
        _read_lines(tail.path, tail)
        if not is_full:
            return
        tail.path, tail.read = following, 0


def _read_lines(path: Path, tail: _Tail, limit: int | None = None) -> None:
    try:
        with path.open("rb") as file:
            file.seek(tail.read)
            for number, (data, size) in enumerate(lines(file), 1):
                if data is not None and not data.endswith(b"\n"):
                    break  # still being written
                tail.read += size
                if data is not None:
                    tail.add([data.decode(errors="replace")])
                if number == limit:
                    break
    except OSError:
        pass


def _of_run(misses: Iterable[Miss], run: str) -> Iterator[Miss]:
    """Rename misses as the guards' own recording would have named them."""
    for miss in misses:
        parent = None if miss.parent is None else f"{run}-{miss.parent.rpartition('-')[2]}"
        miss.run, miss.id, miss.parent = run, f"{run}-{miss.number}", parent
        yield miss

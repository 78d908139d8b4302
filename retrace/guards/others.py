"""What others recorded of this process: `retrace run`, `install`, a `recording()` around a guard.

Read once, line by line, as it grows.
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
    """One recording, and how much of it has been read."""

    def __init__(self, path: Path | None = None) -> None:
        self._reader = Reader()
        self._misses = 0
        self.path = path
        """The segment of a file that is read."""
        self.read = 0
        """Lines of a recording in memory, bytes of one in a file."""

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._reader.add(text)

    def more(self) -> list[Miss]:
        """The misses that have not been asked for yet."""
        _, found = self._reader.since(self._misses)
        self._misses += len(found)
        return found

    @property
    def run(self) -> Run:
        return self._reader.since(self._misses)[0]


class Others:
    """The recordings of this process that are not the guards' own."""

    def __init__(self) -> None:
        self._windows: WeakKeyDictionary[Memory, _Tail] = WeakKeyDictionary()
        self._files: dict[Path, _Tail | None] = {}
        """None: that of another process."""
        self._changed: dict[Path, int] = {}

    def more(self, run: str) -> Iterator[Miss]:
        """The misses that are new, as a recording with this run's id would have them."""
        from retrace.capture.session import session

        for memory in session().windows.values():
            tail = self._windows.setdefault(memory, _Tail())
            new = memory.lines[tail.read :]
            tail.read += len(new)
            tail.add(new)
            yield from _of_run(tail.more(), run)
        for directory in recorded_directories():
            try:
                self._look_into(directory)
            except (OSError, UnreadableError):
                continue  # it was removed, or cannot be read: then it tells nothing
        for tail in self._files.values():
            if tail is not None:
                _read_on(tail)
                yield from _of_run(tail.more(), run)

    def _look_into(self, directory: Path) -> None:
        """Find this process's files in a directory; it may hold those of many others."""
        changed = directory.stat().st_mtime_ns
        if self._changed.get(directory) == changed:
            return
        for path in files_of(directory):
            if path not in self._files:
                tail = _Tail(path)
                _read_lines(path, tail, most=1)
                ours = (tail.run.pid, tail.run.host) == (os.getpid(), socket.gethostname())
                if ours or tail.read:
                    self._files[path] = tail if ours else None
        self._changed[directory] = changed


def _read_on(tail: _Tail) -> None:
    """Read what a file holds beyond what was read, and the segments that it goes on in."""
    while tail.path is not None:
        following = after(tail.path)
        is_full = following.is_file()  # asked first: it was written to its end before
        _read_lines(tail.path, tail)
        if not is_full:
            return
        tail.path, tail.read = following, 0


def _read_lines(path: Path, tail: _Tail, most: int | None = None) -> None:
    try:
        with path.open("rb") as file:
            file.seek(tail.read)
            for number, (data, size) in enumerate(lines(file), 1):
                if data is not None and not data.endswith(b"\n"):
                    break  # it is still being written
                tail.read += size
                if data is not None:
                    tail.add([data.decode(errors="replace")])
                if number == most:
                    break
    except OSError:
        pass


def _of_run(misses: Iterable[Miss], run: str) -> Iterator[Miss]:
    """The same misses as the guards' own recording would have written them."""
    for miss in misses:
        parent = None if miss.parent is None else f"{run}-{miss.parent.rpartition('-')[2]}"
        miss.run, miss.id, miss.parent = run, f"{run}-{miss.number}", parent
        yield miss

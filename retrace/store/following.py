"""Follows a recording while its processes write it: each read continues where the last one ended.

A line that is still being written is left for the next read.
"""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from retrace.errors import UnreadableError
from retrace.model import Miss, Recording, Run
from retrace.store import files
from retrace.store.attempts import is_running, members
from retrace.store.bounded_lines import lines
from retrace.store.processes import attempts_of, files_of
from retrace.store.programs import SUFFIX, Library
from retrace.store.reader import Reader
from retrace.store.segments import after


class Life(StrEnum):
    """What is known about a process that records."""

    RUNS = "running"
    ENDED = "ended"
    """It closed its recording."""
    GONE = "gone"
    """It no longer runs but did not close its recording."""
    UNKNOWN = "unknown"
    """It may be running on another host."""


class Tail:
    """The file of one process, and how far it has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = Run(path.stem, "", 0, None, 0.0, [], "", "", "")
        self.misses: list[Miss] = []
        """In the order in which they started."""
        self._reader = Reader(path.stem, str(path))
        self._segment = path
        self._read = 0

    def more(self) -> bool:
        """Read what was appended; return whether there was anything new."""
        new = self._more()
        while (following := after(self._segment)).is_file():
            # A segment is complete before the next one is created.
            new = self._more() or new
            self._segment, self._read = following, 0
            new = self._more() or new
        if new:
            self.run, self.misses = self._reader.result()
        return new

    def _more(self) -> bool:
        read = self._read
        try:
            with files.opened(self._segment) as file:
                file.seek(read)
                for data, size in lines(file):
                    if data is not None and not data.endswith(b"\n"):
                        break
                    read += size
                    if data is not None:
                        self._reader.add(data.decode(errors="replace"))
        except OSError:
            pass  # removed, or not readable at the moment: keep what was read
        new, self._read = read > self._read, read
        return new

    @property
    def life(self) -> Life:
        """What is known about its process."""
        if self.run.complete:
            return Life.ENDED
        if self.run.host != socket.gethostname() or os.name != "posix" or self.run.pid <= 0:
            return Life.UNKNOWN
        return Life.RUNS if is_running(self.run.pid, self.run.started) else Life.GONE


class Following:
    """The processes of one attempt of a recording, as they write it."""

    def __init__(self, directory: Path, attempt: int | None = None) -> None:
        """Without `attempt`, follow the newest one as soon as there is one."""
        self.directory = directory
        self.tails: list[Tail] = []
        self._attempt = attempt
        self._known: set[Path] = set()
        self._last_change: int | None = None

    def more(self) -> bool:
        """Read what was appended to all files; return whether there was anything new."""
        self._find_files()
        new = [tail.more() for tail in self.tails]
        return any(new)

    def _find_files(self) -> None:
        """Find the files of processes that started in the meantime."""
        try:
            changed = self.directory.stat().st_mtime_ns
            if changed == self._last_change:
                return
            if self._attempt is None and (found := attempts_of(self.directory)):
                self._attempt = found[-1]
            paths = files_of(self.directory, self._attempt)
        except (OSError, UnreadableError):
            return  # it does not exist yet, or no longer
        # A file is created before its first line, which names its attempt, is written.
        self._last_change = changed if all(path.stat().st_size for path in paths) else None
        for path in paths:
            if path not in self._known and path.stat().st_size:
                self._known.add(path)
                self.tails.append(Tail(path))

    @property
    def is_over(self) -> bool:
        """Whether all its processes have ended, as far as can be known from here."""
        over = (Life.ENDED, Life.GONE)
        if self.tails:
            return all(tail.life in over for tail in self.tails)
        return not any(
            host != socket.gethostname() or os.name != "posix" or is_running(process, began)
            for host, process, began in members(self.directory)
        )

    def recording(self) -> Recording:
        """What was read so far; programs are read on demand."""
        library = Library()
        runs: list[Run] = []
        for tail in self.tails:
            # Each reading counts the unreadable programs in a copy of the losses.
            run = replace(tail.run, losses=dict(tail.run.losses))
            library.add_file(tail.path.with_suffix(SUFFIX), run)
            runs.append(run)
        misses = [miss for tail in self.tails for miss in tail.misses]
        return Recording(runs, misses, library)

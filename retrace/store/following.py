"""Follows a recording while its processes write it: each file is read on from where it was left.

A line that is still being written is left for the next time.
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
    """What is known of a process that records."""

    RUNS = "running"
    ENDED = "ended"
    """It closed its recording."""
    GONE = "gone"
    """It no longer runs, and did not close its recording."""
    UNKNOWN = "unknown"
    """It runs on another host, if it does."""


class Tail:
    """The file of one process, and how much of it has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = Run(path.stem, "", 0, None, 0.0, [], "", "", "")
        self.misses: list[Miss] = []
        """In the order in which they began."""
        self._reader = Reader(path.stem, str(path))
        self._segment = path
        self._read = 0

    def more(self) -> bool:
        """Read on; whether there was anything new."""
        new = self._more()
        while (following := after(self._segment)).is_file():
            # What is full was written to its end before the next one was made.
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
            pass  # it was removed, or cannot be read just now: what was read stays true
        new, self._read = read > self._read, read
        return new

    @property
    def life(self) -> Life:
        """Whether its process still runs."""
        if self.run.complete:
            return Life.ENDED
        if self.run.host != socket.gethostname() or os.name != "posix" or self.run.pid <= 0:
            return Life.UNKNOWN
        return Life.RUNS if is_running(self.run.pid, self.run.started) else Life.GONE


class Following:
    """The processes of one attempt of a recording, as they write it."""

    def __init__(self, directory: Path, attempt: int | None = None) -> None:
        """Without `attempt` the newest one, as soon as there is one."""
        self.directory = directory
        self.tails: list[Tail] = []
        self._attempt = attempt
        self._known: set[Path] = set()
        self._looked: int | None = None

    def more(self) -> bool:
        """Read on in all files; whether there was anything new."""
        self._look()
        new = [tail.more() for tail in self.tails]
        return any(new)

    def _look(self) -> None:
        """Find the files of processes that began meanwhile."""
        try:
            changed = self.directory.stat().st_mtime_ns
            if changed == self._looked:
                return
            if self._attempt is None and (found := attempts_of(self.directory)):
                self._attempt = found[-1]
            paths = files_of(self.directory, self._attempt)
        except (OSError, UnreadableError):
            return  # not there yet, or no longer
        # A file is made before its first line is written, which tells its attempt.
        self._looked = changed if all(path.stat().st_size for path in paths) else None
        for path in paths:
            if path not in self._known and path.stat().st_size:
                self._known.add(path)
                self.tails.append(Tail(path))

    @property
    def is_over(self) -> bool:
        """Whether none of its processes goes on, as far as can be known from here."""
        over = (Life.ENDED, Life.GONE)
        if self.tails:
            return all(tail.life in over for tail in self.tails)
        return not any(
            host != socket.gethostname() or os.name != "posix" or is_running(process, began)
            for host, process, began in members(self.directory)
        )

    def recording(self) -> Recording:
        """What was read so far; the programs are read when they are asked for."""
        library = Library()
        runs: list[Run] = []
        for tail in self.tails:
            # What cannot be read of the programs is counted there, at each reading.
            run = replace(tail.run, losses=dict(tail.run.losses))
            library.add_file(tail.path.with_suffix(SUFFIX), run)
            runs.append(run)
        misses = [miss for tail in self.tails for miss in tail.misses]
        return Recording(runs, misses, library)

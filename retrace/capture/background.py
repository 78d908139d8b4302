"""The work that need not hold the program up, on a thread of its own.

Lines of the recording are encoded and written when XLA compiles and releases the
interpreter, or a moment later; programs are walked only while XLA compiles, since
walking one beside the program's own Python would slow that down. Where too many wait,
the oldest are walked nevertheless.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Task: TypeAlias = Callable[[], None]

_PATIENCE = 10.0
"""Seconds that the end of a recording waits for a disk that does not answer."""


_LINGER = 0.02
"""Seconds after which the thread looks for more by itself, until it finds nothing: to wake
it costs the program more than the rest of a line does."""


_MOST_WAITING = 1000
"""Programs that may wait for a compilation: one that only traces would queue them for ever."""


class Background:
    """Two queues and the thread that empties them, in order."""

    def __init__(self, guarded: Callable[[Task], None]) -> None:
        self._guarded = guarded
        self._lines: deque[Task] = deque()
        self._programs: deque[Task] = deque()
        self._wake = threading.Event()
        self._resting = True
        self._thread: threading.Thread | None = None
        self._compiling = 0
        self._flushing = 0

    def line(self, task: Task) -> None:
        """Write something, after all that was to be written before."""
        self._lines.append(task)
        if self._resting:
            self._stir()

    def program(self, task: Task) -> None:
        """Walk a program while the next one compiles."""
        self._programs.append(task)
        if len(self._programs) > _MOST_WAITING and self._resting:
            self._stir()

    def compiling(self, more: int) -> None:
        """One compilation more is under way, or one less."""
        self._compiling = max(0, self._compiling + more)
        if more > 0 and self._programs:
            # Also where it lingers: a small compilation ends before it would look again, and
            # what JAX lets go of then could not be walked any more.
            self._stir()

    def flush(self) -> None:
        """Do all that waits, and return when it is done."""
        if threading.current_thread() is self._thread:
            return
        if self._thread is None and not self._programs:
            return
        done = threading.Event()
        self._flushing += 1
        self._programs.append(done.set)
        self._stir()
        done.wait(_PATIENCE)
        self._flushing -= 1

    def _stir(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="retrace", daemon=True)
            self._thread.start()
        if not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._resting = False
            more = True
            while more:
                self._wake.clear()
                while (task := self._next()) is not None:
                    self._guarded(task)  # nobody else is there to catch what it raises
                    del task
                more = self._wake.wait(_LINGER) or bool(self._lines)
            self._resting = True
            if self._lines:  # put there before it was known that nobody looks
                self._wake.set()

    def _next(self) -> Task | None:
        try:
            if self._lines:
                return self._lines.popleft()
            many = len(self._programs) > _MOST_WAITING
            if self._programs and (many or self._compiling or self._flushing):
                return self._programs.popleft()
        except IndexError:  # a child of a fork may find the queue of its parent
            pass
        return None

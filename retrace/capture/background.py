"""The work that need not hold the program up, on a thread of its own.

Lines of the recording are encoded and written when XLA compiles and releases the
interpreter, or a moment later; programs are walked only while XLA compiles, since
walking one beside the program's own Python would slow that down. Where too many wait,
the oldest are walked nevertheless.

The program shall not meet this thread: one that waits until no other thread is left would wait
for ever. So `threading` does not know of it, and it ends as soon as there is nothing to do.
"""

from __future__ import annotations

import sys
import threading
from _thread import LockType, allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Task: TypeAlias = Callable[[], None]

_PATIENCE = 10.0
"""Seconds that the end of a recording waits for a disk that does not answer."""


_LINGER = 0.02
"""Seconds that the thread waits for more before it ends: to start it costs the program more
than the rest of a line does."""


_MOST_WAITS = 50
"""So often it waits while XLA compiles: an older JAX may not tell that a compilation ended."""

NAMED: dict[int, str] = {}
"""Threads of ours that call code of the program's, and what a miss there says of its thread."""

_MOST_WAITING = 1000
"""Programs that may wait for a compilation: one that only traces would queue them for ever."""


class Background:
    """Two queues and the thread that empties them, in order."""

    def __init__(self, guarded: Callable[[Task], None]) -> None:
        self._guarded = guarded
        self._lines: deque[Task] = deque()
        self._programs: deque[Task] = deque()
        self._at_work = allocate_lock()
        """Held by whoever empties the queues. Nobody waits for it: a signal handler may ask."""
        self._asleep = allocate_lock()
        """Let go of to have the thread look at once."""
        self._asleep.acquire()
        self._lingers = False
        self._thread: int | None = None
        self._compiling = 0
        self._flushing = 0

    def line(self, task: Task) -> None:
        """Write something, after all that was to be written before."""
        self._lines.append(task)
        if not self._at_work.locked():
            self._stir()

    def program(self, task: Task) -> None:
        """Walk a program while the next one compiles."""
        self._programs.append(task)
        if len(self._programs) > _MOST_WAITING and not self._at_work.locked():
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
        if get_ident() == self._thread:
            return
        if not (self._lines or self._programs or self._at_work.locked()):
            return
        done = allocate_lock()
        done.acquire()
        self._flushing += 1
        self._programs.append(done.release)
        self._stir()
        done.acquire(timeout=_PATIENCE)
        self._flushing -= 1

    def _stir(self) -> None:
        if not self._at_work.acquire(blocking=False):
            if self._lingers:
                let_go(self._asleep)
            return
        try:
            start_new_thread(self._run, ())
        except (RuntimeError, MemoryError):  # no thread is to be had: whoever asks does it
            self._work()
        except BaseException:  # put into this thread from outside, just now
            let_go(self._at_work)
            raise

    def _run(self) -> None:
        try:
            self._work(_LINGER)
        except BaseException:  # noqa: BLE001 - a tracer's of all threads; nobody is there for it
            self._thread = None
            let_go(self._at_work)

    def _work(self, linger: float = 0.0) -> None:
        """Empty the queues. Whoever calls it holds `_at_work`, which it lets go of."""
        self._thread = here = get_ident()
        waited = 0
        while True:
            while (task := self._next()) is not None:
                self._guarded(task)  # nobody else is there to catch what it raises
                del task
                waited = 0
            if linger:
                leave_no_trace(here)
                self._lingers = True
                again = self._lines or self._asleep.acquire(timeout=linger)
                self._lingers = False
                waited += 1
                # What is compiled is told soon; meanwhile the interpreter is free.
                if again or (self._compiling and waited < _MOST_WAITS):
                    continue
            self._thread = None
            let_go(self._at_work)
            # What was put there before it was known that nobody looks.
            if not self._waits() or not self._at_work.acquire(blocking=False):
                return
            self._thread = here

    def _waits(self) -> bool:
        return bool(self._lines or (self._programs and self._may_walk()))

    def _may_walk(self) -> bool:
        return bool(len(self._programs) > _MOST_WAITING or self._compiling or self._flushing)

    def _next(self) -> Task | None:
        try:
            if self._lines:
                return self._lines.popleft()
            if self._programs and self._may_walk():
                return self._programs.popleft()
        except IndexError:  # a child of a fork may find the queue of its parent
            pass
        return None


def let_go(lock: LockType) -> None:
    """Let go of a lock that somebody else may have let go of."""
    try:
        lock.release()
    except RuntimeError:  # somebody else was first
        pass


def leave_no_trace(thread: int) -> None:
    """Take out what the program's own code may have left behind on this thread.

    A finaliser or a weak reference's callback of the program's runs wherever the collector
    does. It may ask for the current thread, which then gets a name and is counted.
    """
    active = getattr(threading, "_active", None)
    if active:
        active.pop(thread, None)
    if sys.gettrace() is not None:  # set for all threads
        sys.settrace(None)
    if sys.getprofile() is not None:
        sys.setprofile(None)

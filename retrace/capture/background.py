"""A background thread for work that the program need not wait for.

Lines of the recording are encoded and written while XLA compiles and has released the
interpreter lock, or a moment later. Programs are walked only while XLA compiles: doing it
while the program runs Python code would slow that code down. If too many are waiting,
the oldest are walked anyway.

The program must not notice this thread: a program that waits until no other thread is left would
wait forever. So `threading` does not know it, and it ends as soon as there is nothing to do.
"""

from __future__ import annotations

import sys
import threading
from _thread import LockType, allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from retrace.failure import alone

Task: TypeAlias = Callable[[], None]

_MAX_FLUSH_SECONDS = 10.0
"""Maximum number of seconds to wait for an unresponsive disk when a recording ends."""


_LINGER_SECONDS = 0.02
"""Seconds that the thread waits for more work before it ends: starting it costs the program more
than everything else about a line."""


_MAX_WAITS = 50
"""Maximum number of waits while XLA compiles: an older JAX may not report the end."""

NAMED: dict[int, str] = {}
"""retrace's own threads that call user code, with the thread name that a miss there records."""

_MAX_WAITING = 1000
"""Maximum number of programs that wait for a compilation. If the user's code only traces, none
comes, and the queue would grow forever."""


class Background:
    """Two queues, and the thread that empties them in order."""

    def __init__(self, guarded: Callable[[Task], None], settle: Task) -> None:
        """Start with empty queues.

        Args:
            guarded: runs a task, and keeps its errors from the program.
            settle: called after tasks, to append to the file what they wrote.
        """
        self._guarded = guarded
        self._settle = settle
        self.is_emptying = False
        """Whether tasks run, after which `settle` is called."""
        self._lines: deque[Task] = deque()
        self._programs: deque[Task] = deque()
        self._at_work = allocate_lock()
        """Held by the thread that empties the queues. Nobody waits for it: a signal handler may
        try to take it."""
        self._asleep = allocate_lock()
        """Released to make the thread check its queues immediately."""
        self._asleep.acquire()
        self._lingers = False
        self._thread: int | None = None
        self._compiling = 0
        self._flushing = 0

    def line(self, task: Task) -> None:
        """Queue a task that writes, after all earlier ones."""
        self._lines.append(task)
        if not self._at_work.locked():
            self._stir()

    def program(self, task: Task) -> None:
        """Queue a task that walks a program while the next one compiles."""
        self._programs.append(task)
        if len(self._programs) > _MAX_WAITING and not self._at_work.locked():
            self._stir()

    def compiling(self, more: int) -> None:
        """A compilation began (`more` is 1) or ended (-1)."""
        self._compiling = max(0, self._compiling + more)
        if more > 0 and self._programs:
            # Even if the thread lingers: a small compilation ends before it would check again,
            # and a program that JAX has freed by then can no longer be walked.
            self._stir()

    def flush(self) -> None:
        """Run all queued tasks, and return when they are done."""
        if get_ident() == self._thread:
            return
        if not (self._lines or self._programs or self._at_work.locked()):
            return
        done = allocate_lock()
        done.acquire()
        self._flushing += 1
        self._programs += (self._settle, done.release)
        self._stir()
        done.acquire(timeout=_MAX_FLUSH_SECONDS)
        self._flushing -= 1

    def _stir(self) -> None:
        if not self._at_work.acquire(blocking=False):
            if self._lingers:
                let_go(self._asleep)
            return
        try:
            start_new_thread(self._run, ())
        except (RuntimeError, MemoryError):  # no new thread is possible: run the tasks here
            self._work()
        except BaseException:  # raised asynchronously in this thread
            let_go(self._at_work)
            raise

    def _run(self) -> None:
        alone("a part of the recording may be missing", self._work_for_long, self._give_up)

    def _work_for_long(self) -> None:
        self._work(_LINGER_SECONDS)

    def _give_up(self) -> None:
        self._thread = None
        let_go(self._at_work)

    def _work(self, linger: float = 0.0) -> None:
        """Empty the queues. The caller must hold `_at_work`, which is released at the end."""
        self._thread = here = get_ident()
        waited = 0
        while True:
            if self._empty():
                waited = 0
            if linger:
                leave_no_trace(here)
                self._lingers = True
                again = self._lines or self._asleep.acquire(timeout=linger)
                self._lingers = False
                waited += 1
                # The end of a compilation is reported soon; until then the interpreter is free.
                if again or (self._compiling and waited < _MAX_WAITS):
                    continue
            self._thread = None
            let_go(self._at_work)
            # Tasks that were queued while this thread still seemed to be at work.
            if not self._waits() or not self._at_work.acquire(blocking=False):
                return
            self._thread = here

    def _empty(self) -> bool:
        """Run the tasks that wait; whether there were any."""
        if (task := self._next()) is None:
            return False
        self.is_emptying = True
        try:
            while task is not None:
                self._guarded(task)  # nothing else catches what a task raises
                task = self._next()
        finally:
            self.is_emptying = False
        self._guarded(self._settle)
        return True

    def _waits(self) -> bool:
        return bool(self._lines or (self._programs and self._may_walk()))

    def _may_walk(self) -> bool:
        return bool(len(self._programs) > _MAX_WAITING or self._compiling or self._flushing)

    def _next(self) -> Task | None:
        try:
            if self._lines:
                return self._lines.popleft()
            if self._programs and self._may_walk():
                return self._programs.popleft()
        except IndexError:  # a forked child may see its parent's queue
            pass
        return None


def let_go(lock: LockType) -> None:
    """Release a lock that another thread may already have released."""
    try:
        lock.release()
    except RuntimeError:  # it was already released
        pass


def leave_no_trace(thread: int) -> None:
    """Remove what the program's own code may have left behind on this thread.

    The user's finalizers and weakref callbacks run on whichever thread the garbage collector
    runs. They may ask for the current thread, which then gets a name and is counted.
    """
    active = getattr(threading, "_active", None)
    if active:
        active.pop(thread, None)
    if sys.gettrace() is not None:  # set for all threads
        sys.settrace(None)
    if sys.getprofile() is not None:
        sys.setprofile(None)

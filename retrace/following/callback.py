"""`retrace.on_miss`: passes each miss, explained, to a callback of the program.

The callback runs on our own thread, which `threading` does not know and which ends when there is
nothing left to hand over. However long the callback takes, the program only waits for it at exit,
and only briefly.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import traceback
from _thread import allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from retrace.capture.background import NAMED, leave_no_trace, let_go
from retrace.errors import UsageError
from retrace.failure import alone, contain, outcome, say, send
from retrace.following.ended_misses import EndedMisses
from retrace.inside.explained import ExplainedMiss
from retrace.inside.live import is_off
from retrace.store.programs import BEGINNING

THREAD = "retrace.on_miss"
"""The thread name of misses that a callback itself causes."""

_FAILED = "a miss could not be passed to the on_miss callback"
_LINGER = 0.02
_POLL_SECONDS = 0.1
"""How often to check whether misses that did not compile have ended."""
_MAX_BYTES = 1 << 26
"""Maximum size of the lines waiting for a slow callback; later ones are dropped."""
_EXIT_TIMEOUT = 2.0

Callback = Callable[[ExplainedMiss], object]


class Following:
    """Returned by `on_miss`: counts what became of the misses, and stops the callback."""

    def __init__(
        self,
        callback: Callback,
        most_waiting: int = 1000,
        at_end: Callable[[], object] | None = None,
    ) -> None:
        self.handed = 0
        """How many misses were passed to the callback."""
        self.dropped = 0
        """How many were not, because too many were waiting."""
        self.failed = 0
        """How many times the callback raised."""
        self._callback: Callback | None = callback
        self._at_end = at_end
        self._max_waiting = most_waiting
        self._lines: deque[str] = deque()
        self._size = 0
        self._waiting: deque[int] = deque()
        self._misses = EndedMisses()
        self._pid = os.getpid()
        self._at_work = allocate_lock()
        """Held by the thread that hands misses over."""
        self._asleep = allocate_lock()
        self._asleep.acquire()
        self._sleeps = False
        self._thread: int | None = None
        self._is_full = False
        """Too much is waiting: further lines are dropped."""
        self._ending = False
        self._finished = allocate_lock()
        """Released when the last miss was handed over."""
        self._finished.acquire()
        self._knows_earlier = False
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start listening."""
        from retrace.capture.session import describe_run, session
        from retrace.store.writer import Writer

        self._writer = Writer(self, describe_run(), self)
        session().attach(self._writer)
        _all[self] = None

    def stop(self, timeout: float = _EXIT_TIMEOUT) -> bool:
        """Hand over what is left, then stop.

        Args:
            timeout: maximum number of seconds to wait.

        Returns:
            Whether everything was handed over in time.
        """
        return self._waited(timeout) if self._told_to_end() else True

    def _told_to_end(self) -> bool:
        """Stop listening; returns whether there is something to wait for."""
        if self._writer is None or self._pid != os.getpid():
            return False
        from retrace.capture.session import session

        writer, self._writer = self._writer, None
        _all.pop(self, None)
        session().detach(writer)
        self._ending = True
        self._wake()
        return get_ident() != self._thread  # else called by the callback itself

    def _waited(self, timeout: float) -> bool:
        """Wait until everything is handed over, and tell what was not in time."""
        in_time = self._finished.acquire(timeout=max(0.0, timeout))
        if not in_time:
            begun = sum(map(_misses_in, self._lines))
            self.dropped += len(self._waiting) + self._misses.running + begun
        self._callback = None
        if self.dropped:
            said = f"{self.dropped:,} misses were not passed to the callback: it took too long"
            say(f"retrace: {said}")
        return in_time

    @staticmethod
    def end_all() -> None:
        """Stop all followings of the process; one that hangs takes no time from the others."""
        until = time.monotonic() + _EXIT_TIMEOUT
        told = [one for one in list(_all) if one._told_to_end()]  # noqa: SLF001 - our own class
        for following in told:
            following._waited(until - time.monotonic())  # noqa: SLF001

    def wait(self, timeout: float = 10.0) -> bool:
        """Wait until all misses that have ended by now are handed over.

        Args:
            timeout: maximum number of seconds.

        Returns:
            Whether they were.
        """
        if self._pid != os.getpid() or get_ident() == self._thread:
            return False
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if "retrace.capture.session" in sys.modules:
                sys.modules["retrace.capture.session"].flush()
            if self._at_work.acquire(timeout=_LINGER):
                let_go(self._at_work)
                if not (self._lines or self._waiting):
                    return True
                self._wake()
        return False

    def open(self) -> bool:
        """Ask for the header line, as a new file does (`store.writer.Sink`)."""
        return False

    def write(self, line: str) -> None:
        """Accept a line, on the thread that writes recordings."""
        if self._is_full:
            self.dropped += _misses_in(line)
            return
        self._lines.append(line)
        self._size += len(line)
        if self._size > _MAX_BYTES:
            self._is_full = True
        if not line.startswith(BEGINNING):  # a program alone is no news
            self._wake()

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _wake(self) -> None:
        if not self._at_work.acquire(blocking=False):
            if self._sleeps:
                let_go(self._asleep)
            return
        try:
            start_new_thread(self._run, ())
        except (RuntimeError, MemoryError):  # no thread available; the next line tries again
            let_go(self._at_work)
        except BaseException:  # raised in this thread from outside
            let_go(self._at_work)
            raise

    def _run(self) -> None:
        self._thread = here = get_ident()
        NAMED[here] = THREAD
        try:
            alone(_FAILED, self._hand_over_all, lambda: None)
        finally:
            NAMED.pop(here, None)
            leave_no_trace(here)
            self._thread = None
            let_go(self._at_work)
        if self._lines or (self._ending and self._finished.locked()):  # arrived while ending
            self._wake()

    def _hand_over_all(self) -> None:
        while self._hand_over():
            self._sleep(get_ident())

    def _sleep(self, here: int) -> None:
        leave_no_trace(here)
        self._sleeps = True
        if not (self._lines or self._ending):
            self._asleep.acquire(timeout=_POLL_SECONDS if self._misses.settles else _LINGER)
        self._sleeps = False

    def _hand_over(self) -> bool:
        """Hand over the misses that have ended; returns whether there may soon be more."""
        ending, came = self._ending, bool(self._lines)
        contain(self._report_failure, self._collect)
        while self._waiting:
            number = self._waiting.popleft()
            miss = contain(self._report_failure, self._misses.explained, number)
            if miss is not None:
                self._call(miss)
            if self._lines:
                contain(self._report_failure, self._collect)
        if ending:
            if self._at_end is not None:
                self._guarded(self._at_end)
            let_go(self._finished)
        return not ending and (came or self._ending or self._misses.settles)

    def _collect(self) -> None:
        from retrace.capture.session import flush

        self._read()
        if not self._knows_earlier and self._misses.has_begun:
            self._knows_earlier = True
            from retrace.guards.others import Others

            self._misses.add_earlier(Others().more(self._misses.run.id))
        now = time.monotonic()
        found = self._misses.ended(now, everything=self._ending)
        if found:
            flush()  # their programs may not be written yet
            self._read()
        for number in found:
            if self._misses.thread(number) == THREAD:
                continue  # caused by a callback: handing these over might never end
            if len(self._waiting) < self._max_waiting:
                self._waiting.append(number)
            else:
                self.dropped += 1

    def _read(self) -> None:
        while self._lines:
            line = self._lines.popleft()
            self._size -= len(line)
            self._misses.add(line)

    def _call(self, miss: ExplainedMiss) -> None:
        callback = self._callback
        if callback is None:
            self.dropped += 1
            return
        self._guarded(callback, miss)
        self.handed += 1

    def _guarded(self, call: Callable[..., object], *args: object) -> None:
        _, error = outcome(call, *args)
        if error is None:
            return
        self.failed += 1
        if self.failed == 1:
            trace = "".join(traceback.format_exception(error)).rstrip()
            said = "the on_miss callback raised an error; it will be called again"
            say(f"retrace: {said}:\n{trace}")

    def _report_failure(self, error: Exception) -> None:
        send(_FAILED, error)


_all: dict[Following, None] = {}  # in the order in which they began


def on_miss(
    callback: Callback,
    *,
    most_waiting: int = 1000,
    at_end: Callable[[], object] | None = None,
) -> Following:
    """Pass each miss from now on to a callback, explained, on a thread of retrace.

    All misses of this process are recorded, however the functions were jitted. A miss is passed
    on when its last stage has ended; one that is not compiled (`lower`, `eval_shape`) about a
    second later. The callback gets the same objects as in `recording().misses`.

    If the callback raises, the error is reported once on stderr and the callback is called
    again for the next miss. A callback that is slow or hangs costs the program nothing: misses
    wait for it, and those beyond `most_waiting` are counted in `dropped`. At exit the program
    waits at most two seconds for it. Misses that the callback itself causes are not passed on.
    A forked child has no callback unless it calls `on_miss` itself.

    Args:
        callback: called with an `ExplainedMiss`; its result is ignored.
        most_waiting: maximum number of waiting misses.
        at_end: called after the last miss, on the same thread, under the same conditions.

    Returns:
        A `Following`; `stop()`, or leaving its `with` block, ends it; `handed`, `dropped` and
        `failed` count what became of the misses.

    Raises:
        UsageError: the callback is not callable.

    Example:
        >>> import jax, retrace
        >>> with retrace.on_miss(lambda miss: print(miss.cause)):
        ...     _ = jax.jit(lambda x: 2 * x)(3)
        first-trace
    """
    if not callable(callback):
        raise UsageError("on_miss takes a function that is called with a miss")
    following = Following(callback, most_waiting, at_end)
    if not is_off():
        following.start()
    return following


def _misses_in(text: str) -> int:
    return sum(line.startswith('{"miss":') for line in text.split("\n"))


atexit.register(Following.end_all)

"""`retrace.on_miss`: each miss, explained, to a callback of the program's own.

The callback runs on a thread of ours, which `threading` does not know of and which ends as soon
as there is nothing to hand over. However long it takes, the program waits for it nowhere but at
its own end, and there for a moment only.
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
from retrace.failure import contain, send
from retrace.following.heard import Heard
from retrace.inside.explained import ExplainedMiss
from retrace.inside.live import is_off
from retrace.store.programs import BEGINNING

THREAD = "retrace.on_miss"
"""What misses say of their thread that a callback makes itself."""

_LINGER = 0.02
_TURN = 0.1
"""Seconds between two looks at misses of which only time tells whether they have ended."""
_MAX_BYTES = 1 << 26
"""Lines that wait while a callback does not return; beyond these nothing more is handed over."""
_AT_EXIT = 2.0

Callback = Callable[[ExplainedMiss], object]


class Following:
    """What `on_miss` gives back: counts what became of the misses, and stops."""

    def __init__(
        self,
        callback: Callback,
        most_waiting: int = 1000,
        at_end: Callable[[], object] | None = None,
    ) -> None:
        self.handed = 0
        """How many misses the callback was given."""
        self.dropped = 0
        """How many it was not given, since too many waited."""
        self.failed = 0
        """How many times it raised."""
        self._callback: Callback | None = callback
        self._at_end = at_end
        self._most = most_waiting
        self._lines: deque[str] = deque()
        self._size = 0
        self._waiting: deque[int] = deque()
        self._heard = Heard()
        self._pid = os.getpid()
        self._at_work = allocate_lock()
        """Held by the thread that hands over."""
        self._asleep = allocate_lock()
        self._asleep.acquire()
        self._sleeps = False
        self._thread: int | None = None
        self._is_deaf = False
        """So much waits that nothing more is taken in."""
        self._ending = False
        self._finished = allocate_lock()
        """Let go of when the last miss was handed over."""
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
        """Begin to listen."""
        from retrace.capture.session import describe_run, session
        from retrace.store.writer import Writer

        self._writer = Writer(self, describe_run(), self)
        session().attach(self._writer)
        _all.add(self)

    def stop(self, timeout: float = _AT_EXIT) -> bool:
        """Hand over what is left, and nothing after that.

        Args:
            timeout: maximum number of seconds to wait for it.

        Returns:
            Whether all was handed over in time.
        """
        if self._writer is None or self._pid != os.getpid():
            return True
        from retrace.capture.session import session

        writer, self._writer = self._writer, None
        _all.discard(self)
        session().detach(writer)
        self._ending = True
        self._stir()
        if get_ident() == self._thread:  # the callback itself asks
            return True
        in_time = self._finished.acquire(timeout=max(0.0, timeout))
        if not in_time:
            begun = sum(map(_misses_in, self._lines))
            self.dropped += len(self._waiting) + self._heard.running + begun
        self._callback = None
        if self.dropped:
            _say(f"{self.dropped:,} misses were not handed to the callback: it took too long")
        return in_time

    def wait(self, timeout: float = 10.0) -> bool:
        """Wait until all misses that have ended by now were handed over.

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
                self._stir()
        return False

    def open(self) -> bool:
        """The lines begin with a header, as in a file (`store.writer.Sink`)."""
        return False

    def write(self, line: str) -> None:
        """Take in a line, on the thread that writes recordings."""
        if self._is_deaf:
            self.dropped += _misses_in(line)
            return
        self._lines.append(line)
        self._size += len(line)
        if self._size > _MAX_BYTES:
            self._is_deaf = True
        if not line.startswith(BEGINNING):  # which tells of no miss by itself
            self._stir()

    def close(self) -> None:
        """Nothing is open."""

    def _stir(self) -> None:
        if not self._at_work.acquire(blocking=False):
            if self._sleeps:
                let_go(self._asleep)
            return
        try:
            start_new_thread(self._run, ())
        except (RuntimeError, MemoryError):  # no thread is to be had; the next line tries again
            let_go(self._at_work)
        except BaseException:  # put into this thread from outside, just now
            let_go(self._at_work)
            raise

    def _run(self) -> None:
        self._thread = here = get_ident()
        NAMED[here] = THREAD
        try:
            while self._hand_over():
                self._sleep(here)
        except BaseException as error:  # noqa: BLE001 - put in from outside; nobody is above us
            self._tell(error)
        finally:
            NAMED.pop(here, None)
            leave_no_trace(here)
            self._thread = None
            let_go(self._at_work)
        if self._lines or (self._ending and self._finished.locked()):  # came as it was leaving
            self._stir()

    def _sleep(self, here: int) -> None:
        leave_no_trace(here)
        self._sleeps = True
        if not (self._lines or self._ending):
            self._asleep.acquire(timeout=_TURN if self._heard.settles else _LINGER)
        self._sleeps = False

    def _hand_over(self) -> bool:
        """Hand over what has ended; whether there may soon be more."""
        ending, came = self._ending, bool(self._lines)
        contain(self._tell, self._take_in)
        while self._waiting:
            number = self._waiting.popleft()
            miss = contain(self._tell, self._heard.explained, number)
            if miss is not None:
                self._call(miss)
            if self._lines:
                contain(self._tell, self._take_in)
        if ending:
            if self._at_end is not None:
                self._guarded(self._at_end)
            let_go(self._finished)
        return not ending and (came or self._ending or self._heard.settles)

    def _take_in(self) -> None:
        from retrace.capture.session import flush

        self._read()
        if not self._knows_earlier and self._heard.has_begun:
            self._knows_earlier = True
            from retrace.guards.others import Others

            self._heard.add_earlier(Others().more(self._heard.run.id))
        now = time.monotonic()
        found = self._heard.ended(now, everything=self._ending)
        if found:
            flush()  # their programs may not have been walked yet
            self._read()
        for number in found:
            if self._heard.thread(number) == THREAD:
                continue  # made by a callback: to tell it of these might never end
            if len(self._waiting) < self._most:
                self._waiting.append(number)
            else:
                self.dropped += 1

    def _read(self) -> None:
        while self._lines:
            line = self._lines.popleft()
            self._size -= len(line)
            self._heard.add(line)

    def _call(self, miss: ExplainedMiss) -> None:
        callback = self._callback
        if callback is None:
            self.dropped += 1
            return
        self._guarded(callback, miss)
        self.handed += 1

    def _guarded(self, call: Callable[..., object], *args: object) -> None:
        try:
            call(*args)
        except BaseException as error:  # noqa: BLE001 - the program's own, and nobody is above us
            self.failed += 1
            if self.failed == 1:
                trace = "".join(traceback.format_exception(error)).rstrip()
                _say(f"the callback of on_miss raised, and will be called again:\n{trace}")

    def _tell(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            send("a miss could not be handed over", error)


_all: set[Following] = set()


def on_miss(
    callback: Callback,
    *,
    most_waiting: int = 1000,
    at_end: Callable[[], object] | None = None,
) -> Following:
    """Hand each miss from here on to a callback, explained, on a thread of retrace's.

    Everything is recorded that JAX misses in this process, however it was jitted. A miss is
    handed over when its last stage has ended; one that is not compiled (`lower`, `eval_shape`)
    about a second later. The callback gets what `recording().misses` holds.

    A callback that raises is called on, and told of once on stderr. One that is slow or hangs
    costs the program nothing: misses wait for it, and beyond `most_waiting` they are counted in
    `dropped`. The end of the program waits two seconds for it at most. What it makes JAX miss
    itself is not handed over. A forked child has no callback until it asks for one.

    Args:
        callback: called with one `ExplainedMiss`; what it returns is not looked at.
        most_waiting: maximum number of misses waiting for it.
        at_end: called after the last miss, on the same thread, under the same conditions.

    Returns:
        A `Following`, to `stop()`, also at the end of a `with` block; `handed`, `dropped` and
        `failed` count what became of the misses.

    Raises:
        UsageError: the callback cannot be called.

    Example:
        >>> import jax, retrace
        >>> with retrace.on_miss(lambda miss: print(miss.cause)):
        ...     _ = jax.jit(lambda x: 2 * x)(3)
        first-trace
    """
    if not callable(callback):
        raise UsageError("on_miss takes a function of one miss")
    following = Following(callback, most_waiting, at_end)
    if not is_off():
        following.start()
    return following


def _misses_in(text: str) -> int:
    return sum(line.startswith('{"miss":') for line in text.split("\n"))


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"retrace: {text}\n")


def _at_exit() -> None:
    until = time.monotonic() + _AT_EXIT
    for following in list(_all):
        following.stop(until - time.monotonic())


atexit.register(_at_exit)

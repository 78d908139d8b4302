"""Makes Python switch to the sampling thread sooner, while it is about to take a sample.

Python switches threads when the running one releases the GIL by itself, as many C functions do,
and otherwise only after 5 ms. If such functions are called every few milliseconds, a sampling
thread would see them again and again: `jax.jit(...)` in a loop would seem to take all the time of
what it traces. So the thread waits once more, until a moment that it chooses itself, and from
then on gets the GIL almost at once. It does not do so after waiting for C code that held the GIL.
"""

from __future__ import annotations

import sys
import time
from _thread import get_ident

_SHORT_INTERVAL = 5e-5
"""The switch interval in seconds, instead of 5 ms."""
_GOLDEN = 0.6180339887498949
_MIN_WAIT, _MAX_WAIT = 0.0005, 0.004
"""Range of that wait in seconds: it samples every phase of a period of milliseconds evenly."""

_CLEARLY_LATE = 0.1
"""A delay in seconds that a busy machine does not explain."""


class Held:
    """Whether a thread held the GIL for long. Must be created in that thread."""

    def __init__(self) -> None:
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        self._clock: int | None = None if clock_of is None else clock_of(get_ident())
        self._spent = 0.0
        self._at = 0.0

    def seen(self) -> None:
        """The thread is sampled now."""
        self._at, self._spent = time.perf_counter(), self._processor()

    def was_held(self, late: float) -> bool:
        """Whether the thread ran on while the sampling thread waited for the GIL.

        Processor time taken by other programs in the meantime does not count. `late` is how
        many seconds later than planned the sampling thread got the GIL.
        """
        interval = sys.getswitchinterval()
        if late < interval or late >= _CLEARLY_LATE or self._clock is None:
            return late >= interval
        awaited = time.perf_counter() - self._at - late
        return self._processor() - self._spent >= awaited + interval

    def _processor(self) -> float:
        """Processor time of the thread in seconds; 0 if it is unknown."""
        try:
            return 0.0 if self._clock is None else time.clock_gettime(self._clock)
        except OSError:  # the thread has ended
            return 0.0


class Turn:
    """Shortens the switch interval for moments, and restores it."""

    def __init__(self) -> None:
        self._before: float | None = None
        self._ours = 0.0
        self._phase = 0.0

    def soon(self) -> float:
        """Shorten the interval; return how many seconds to wait before taking the sample."""
        before = sys.getswitchinterval()
        if before > _SHORT_INTERVAL:
            sys.setswitchinterval(_SHORT_INTERVAL)
            self._before, self._ours = before, sys.getswitchinterval()
        # Evenly distributed, and without using anybody's random numbers.
        self._phase = (self._phase + _GOLDEN) % 1.0
        return _MIN_WAIT + (_MAX_WAIT - _MIN_WAIT) * self._phase

    def over(self) -> None:
        """Restore the interval, unless the program has set it in the meantime."""
        before, self._before = self._before, None
        if before is not None and sys.getswitchinterval() == self._ours:
            sys.setswitchinterval(before)

"""How soon Python gives a thread of ours its turn, while it wants to see another one.

Python hands over between threads where the running one lets go by itself, as many functions in C
do, and only after 5 ms wherever it is. A thread that looks at another so sees it at the former
again and again, if these come every few milliseconds: `jax.jit(...)` in a loop would seem to take
all the time of what it traces. So it waits once more, for a moment of its own choosing, from
which on it hardly waits at all; but not where it has waited for C code that lets nobody in.
"""

from __future__ import annotations

import sys
import time
from _thread import get_ident

_SOON = 5e-5
"""Seconds in place of 5 ms."""
_GOLDEN = 0.6180339887498949
_LEAST, _MOST = 0.0005, 0.004
"""Seconds of the moment: all phases of what recurs in milliseconds are seen alike."""

_LONG = 0.1
"""Seconds of being late that are no matter of how busy the machine is."""


class Held:
    """Whether a thread kept others out: to be made in that thread."""

    def __init__(self) -> None:
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        self._clock: int | None = None if clock_of is None else clock_of(get_ident())
        self._spent = 0.0
        self._at = 0.0

    def seen(self) -> None:
        """It is looked at."""
        self._at, self._spent = time.perf_counter(), self._processor()

    def was_held(self, late: float) -> bool:
        """Whether it ran on while the one who looks was to be let in, so many seconds ago.

        What other programs took of the processors meanwhile is not the thread's.
        """
        interval = sys.getswitchinterval()
        if late < interval or late >= _LONG or self._clock is None:
            return late >= interval
        awaited = time.perf_counter() - self._at - late
        return self._processor() - self._spent >= awaited + interval

    def _processor(self) -> float:
        """Seconds of processors that the thread took; 0 where that cannot be told."""
        try:
            return 0.0 if self._clock is None else time.clock_gettime(self._clock)
        except OSError:  # it has ended
            return 0.0


class Turn:
    """Asks to be let in soon, for moments, and leaves the interval as it was."""

    def __init__(self) -> None:
        self._before: float | None = None
        self._ours = 0.0
        self._phase = 0.0

    def soon(self) -> float:
        """From now on; for how many seconds to wait before one looks."""
        before = sys.getswitchinterval()
        if before > _SOON:
            sys.setswitchinterval(_SOON)
            self._before, self._ours = before, sys.getswitchinterval()
        # Even over the whole, and without a draw from anybody's random numbers.
        self._phase = (self._phase + _GOLDEN) % 1.0
        return _LEAST + (_MOST - _LEAST) * self._phase

    def over(self) -> None:
        """As it was before; what the program has set meanwhile stays."""
        before, self._before = self._before, None
        if before is not None and sys.getswitchinterval() == self._ours:
            sys.setswitchinterval(before)

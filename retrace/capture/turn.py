"""How soon Python gives a thread of ours its turn, while it wants to see another one.

Python hands over between threads where the running one lets go by itself, as many functions in C
do, and only after 5 ms wherever it is. A thread that looks at another so sees it at the former
again and again, if these come every few milliseconds: `jax.jit(...)` in a loop would seem to take
all the time of what it traces. So it waits once more, for a moment of its own choosing, from
which on it hardly waits at all.
"""

from __future__ import annotations

import sys

_SOON = 5e-5
"""Seconds in place of 5 ms."""
_GOLDEN = 0.6180339887498949
_LEAST, _MOST = 0.0005, 0.004
"""Seconds of the moment: all phases of what recurs in milliseconds are seen alike."""


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

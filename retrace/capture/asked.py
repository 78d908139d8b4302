"""Audits that are asked for from outside: at the end, every so often, by a file.

`retrace run --audit` says so in the environment, so that it holds for what the program starts
as well; `retrace audit` puts a file beside the recording. It is looked for at the end of each
outermost miss, in the thread that missed: no signal and no thread of ours is in the way.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from time import monotonic

from retrace.store.place import REQUEST

VARIABLE = "RETRACE_AUDIT"
"""`end`; before it, between commas, `every 100` or `every 30s`; `all` for `--audit-all`,
`seconds 5` and `total 30` for its limits."""


_PAUSE = 0.1
"""Seconds between two looks for a request: each is a call of the system."""


class Asked:
    """Whether an audit was asked for, of a process that records into a directory."""

    def __init__(self, directory: Path, run: str, wish: str) -> None:
        """`wish` is what the environment says."""
        self._request = str(directory / f"{run}{REQUEST}")
        words = [word.strip() for word in wish.split(",")]
        self._effects = "all" in words
        self._limits = {
            name: float(limit)
            for name, _, limit in (word.partition(" ") for word in words)
            if name in ("seconds", "total")
        }
        every = next((word[6:] for word in words if word.startswith("every ")), "")
        self._seconds = float(every[:-1]) if every.endswith("s") else None
        self._misses = int(every) if every.isdigit() else None
        self._left = self._misses or 0
        self._last = self._looked = monotonic()
        self._pid = os.getpid()
        if "end" in words:
            # After jax's own handler, and so run before it, which clears all caches.
            atexit.register(self._end)

    def looks(self) -> bool:
        """Whether it is worth a look: that something is due, or may have been asked for."""
        if self._misses is None and self._seconds is None:
            return monotonic() - self._looked >= _PAUSE
        return True

    def missed(self) -> None:
        """An outermost miss has ended, in this thread."""
        if self._is_due() or self._is_requested():
            self._audit()

    def _is_requested(self) -> bool:
        now = monotonic()
        if now - self._looked < _PAUSE:
            return False
        self._looked = now
        return os.path.exists(self._request)

    def stop(self) -> None:
        """The recording ends."""
        atexit.unregister(self._end)
        self._withdraw()

    def _withdraw(self) -> None:
        try:
            os.unlink(self._request)
        except OSError:
            pass

    def _is_due(self) -> bool:
        if self._misses is not None:
            self._left -= 1
            return self._left <= 0
        return self._seconds is not None and monotonic() - self._last >= self._seconds

    def _end(self) -> None:
        if os.getpid() == self._pid:
            self._audit()

    def _audit(self) -> None:
        self._withdraw()
        # Only here: whoever asks for no audit loads nothing of it.
        from retrace.auditing.examination import ALL, EACH, Limits
        from retrace.auditing.request import audit

        each, total = self._limits.get("seconds", EACH), self._limits.get("total", ALL)
        audit(Limits(each, total, self._effects))
        self._left = self._misses or 0
        self._last = monotonic()


def wish() -> str:
    """What the environment asks for."""
    return os.environ.get(VARIABLE, "")

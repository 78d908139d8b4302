"""Audits requested from outside: at exit, at intervals, or by a request file.

`retrace run --audit` sets an environment variable, so child processes are audited as well;
`retrace audit` puts a file beside the recording. The file is looked for at the end of each
outermost miss, on the thread that missed, so neither a signal nor an extra thread is needed.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from time import monotonic

from retrace.store.place import REQUEST

VARIABLE = "RETRACE_AUDIT"
"""Comma-separated: `end`, `every 100` or `every 30s`, `all` (for `--audit-all`), and the limits
`seconds 5` and `total 30`."""


_CHECK_SECONDS = 0.1
"""Seconds between two checks for a request: each is a system call."""


class AuditRequest:
    """Requests to audit a process that records into a directory."""

    def __init__(self, directory: Path, run: str, wish: str) -> None:
        """Read `wish`, the value of the environment variable."""
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
            # Registered after jax's own handler, which clears all caches, so it runs before it.
            atexit.register(self._end)

    def looks(self) -> bool:
        """Whether to check now: an audit may be due or requested."""
        if self._misses is None and self._seconds is None:
            return monotonic() - self._looked >= _CHECK_SECONDS
        return True

    def missed(self) -> None:
        """An outermost miss ended on this thread."""
        if self._is_due() or self._is_requested():
            self._audit()

    def _is_requested(self) -> bool:
        now = monotonic()
        if now - self._looked < _CHECK_SECONDS:
            return False
        self._looked = now
        return os.path.exists(self._request)

    def stop(self) -> None:
        """End of the recording."""
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
        # Imported here, so that a program without audits does not load this code.
        from retrace.auditing.examination import ALL, EACH, Limits
        from retrace.auditing.request import audit

        each, total = self._limits.get("seconds", EACH), self._limits.get("total", ALL)
        audit(Limits(each, total, self._effects))
        self._left = self._misses or 0
        self._last = monotonic()


def wish() -> str:
    """The audits that the environment requests."""
    return os.environ.get(VARIABLE, "")

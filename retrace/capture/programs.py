"""Fingerprints of the programs that were traced, taken while XLA compiles.

XLA releases the GIL: a second thread walks the jaxprs meanwhile. A jaxpr is held
only until it was walked; compilation itself holds it for as long.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from retrace.jax_internals.jaxprs import fingerprint
from retrace.model import Program

_SMALL = 48
"""So few equations are walked at once: less than waking a thread costs."""


class Programs:
    """The programs that wait for their fingerprint."""

    def __init__(self, known: Callable[[int, Program], None]) -> None:
        self._known = known
        self._waiting: deque[tuple[int, Any]] = deque()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._idle.set()

    def add(self, number: int, jaxpr: Any) -> None:
        """Take the fingerprint of a miss's program, now or while the next compiles."""
        equations = getattr(getattr(jaxpr, "jaxpr", jaxpr), "eqns", None)
        if equations is None:
            return
        if len(equations) <= _SMALL:
            self._known(number, fingerprint(jaxpr))
        else:
            self._waiting.append((number, jaxpr))

    def work(self) -> None:
        """A compilation begins: now is the time."""
        if not self._waiting:
            return
        self._idle.clear()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._run, name="retrace-programs", daemon=True
            )
            self._thread.start()
        self._wake.set()

    def flush(self) -> None:
        """Take all fingerprints that are still waiting."""
        self.work()
        self._idle.wait(timeout=10)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._waiting:
                number, jaxpr = self._waiting.popleft()
                self._known(number, fingerprint(jaxpr))
                del jaxpr
            self._idle.set()

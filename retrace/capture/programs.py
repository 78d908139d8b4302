"""What can wait until XLA compiles: the text of programs, and lines of the recording.

XLA releases the GIL, so a second thread does this work meanwhile, at no cost to the
program. A jaxpr that waits is held weakly: what JAX let go of is not walked.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from retrace.capture.place import Owner, owner
from retrace.jax_internals.jaxprs import Transcript, transcribe

_SMALL = 48
"""So few equations are walked at once where no compilation follows."""


def _is_library(filename: str) -> bool | None:
    match owner(filename):
        case Owner.USER:
            return False
        case Owner.LIBRARY:
            return True
        case _:
            return None


class Programs:
    """The work that waits for a compilation."""

    def __init__(
        self, known: Callable[[int, Transcript], None], guarded: Callable[..., None]
    ) -> None:
        self._known = known
        self._guarded = guarded
        self._waiting: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._idle.set()

    def add(self, number: int, jaxpr: Any, *, compiles: bool = True) -> None:
        """Write down a miss's program, as a rule while it compiles."""
        equations = getattr(getattr(jaxpr, "jaxpr", jaxpr), "eqns", None)
        if equations is None:
            return
        if not compiles and len(equations) <= _SMALL:
            self._known(number, transcribe(jaxpr, _is_library))
        else:
            self.later(partial(self._walk, number, weakref.ref(jaxpr)))

    def later(self, task: Callable[[], None]) -> None:
        """Do something while the next program compiles."""
        self._waiting.append(task)

    def work(self) -> None:
        """A compilation begins: now is the time."""
        if not self._waiting:
            return
        self._idle.clear()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="retrace", daemon=True)
            self._thread.start()
        self._wake.set()

    def flush(self) -> None:
        """Do now all that still waits."""
        self.work()
        self._idle.wait(timeout=10)

    def _walk(self, number: int, reference: weakref.ref[Any]) -> None:
        jaxpr = reference()
        if jaxpr is not None:
            self._known(number, transcribe(jaxpr, _is_library))

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._waiting:
                task = self._waiting.popleft()
                self._guarded(task)  # nobody else is there to catch what it raises
                del task
            self._idle.set()

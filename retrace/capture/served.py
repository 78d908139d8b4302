"""Counts how often each compiled program is called, if requested (`retrace run --count`)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import monotonic
from types import FrameType
from typing import Any

from retrace.capture.journal import Journal
from retrace.capture.weak import ByObject
from retrace.jax_internals.calls import marked
from retrace.jax_internals.names_frames import CALL_JAXPR
from retrace.jax_internals.served import tell

LOSS = "calls that hit were not counted: this JAX does not show them"

_WRITE_INTERVAL = 1.0
"""Seconds between two writes of the counts. A killed program loses the counts since the last."""


class _Calls:
    """The calls of one program, counted without a lock: `next` of an iterator is atomic."""

    __slots__ = ("_asked", "_counter", "number", "written")

    def __init__(self, number: int) -> None:
        self.number = number
        self._counter = count()
        self._asked = 0
        self.written = 0

    def add(self) -> None:
        next(self._counter)

    def total(self) -> int:
        self._asked += 1
        return next(self._counter) - self._asked + 1


class Served:
    """Counts the calls in this process."""

    def __init__(self, journal: Journal, guarded: Callable[..., Any]) -> None:
        self._journal, self._guarded = journal, guarded
        self._programs: ByObject[_Calls] = ByObject()
        self._by_number: dict[int, _Calls] = {}
        self._due = 0.0
        self._end = tell(self._compiled)
        if self._end is None:
            journal.lose(LOSS)

    def stop(self) -> None:
        """Write the counts and stop counting."""
        if self._end is not None:
            self._end()
            self._end = None
        self._guarded(self._write)

    def forked(self) -> None:
        """A forked child counts only the programs that it compiles itself."""
        self._programs.clear()
        self._by_number = {}

    def _compiled(self, executable: object, frame: FrameType) -> None:
        self._guarded(self._count, executable, frame)

    def _count(self, executable: object, frame: FrameType) -> None:
        if executable is None:
            return  # inside a trace
        number = marked(frame)
        known = self._programs.get(executable)
        if known is None:
            # Before 0.7, JAX creates a new executable at each call, but keeps the jaxpr.
            jaxpr = CALL_JAXPR.among(frame.f_locals)
            known = self._programs.get(jaxpr)
            if known is None or number not in (None, known.number):
                if number is None:
                    return  # a function that is not recorded
                known = self._by_number.setdefault(number, _Calls(number))
                if jaxpr is not None:
                    self._programs.put(jaxpr, known)
            self._programs.put(executable, known)
        known.add()
        if monotonic() >= self._due:
            self._write()

    def _write(self) -> None:
        self._due = monotonic() + _WRITE_INTERVAL
        for calls in list(self._by_number.values()):
            total = calls.total()
            if total != calls.written:
                calls.written = total
                self._journal.amend(calls.number, {"calls": total})

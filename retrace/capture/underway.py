"""What is in progress in a thread: the stages that have begun, and what is not yet written."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from time import time
from types import FrameType
from typing import TypeAlias

from retrace.jax_internals import spanning
from retrace.jax_internals.disk_cache import Lookup
from retrace.jax_internals.traces import Trace
from retrace.model import Stage
from retrace.model.miss_fields import MissFields

_LOWER, _COMPILE = Stage.LOWER, Stage.COMPILE
Held: TypeAlias = tuple[int, MissFields] | None


class Running:
    """A stage in progress in a thread."""

    __slots__ = ("handled", "inner", "lookup", "number", "stage")

    def __init__(self, number: int, stage: Stage) -> None:
        self.number = number
        self.stage = stage
        self.inner = 0
        self.handled = sys.exc_info()[1]
        """The exception being handled when the stage began; the stage did not raise it."""
        self.lookup = Lookup() if stage is _COMPILE else None


class Progress:
    """How far the calls of one thread got, to notice stages that JAX does not report."""

    def __init__(self) -> None:
        self._traced: set[int] = set()
        """Misses that were traced but not lowered yet."""
        self._lowered: int | None = None
        """The miss that was lowered but not compiled yet."""
        self._compiles = False
        """Whether any compilation was reported."""

    def traced(self, number: int) -> None:
        """A call was traced; lowering comes next."""
        if len(self._traced) > _MAX_TRACED:
            self._traced.clear()
        self._traced.add(number)

    def lowered(self, number: int) -> None:
        """A traced call was lowered; compilation comes next."""
        if number in self._traced:
            self._traced.discard(number)
            self._lowered = number

    def compiles(self, number: int) -> bool:
        """A call is compiled; True if it must have been lowered, but that was not reported."""
        self._compiles, self._lowered = True, None
        found = number in self._traced
        self._traced.discard(number)
        return found

    def left_uncompiled(self) -> bool:
        """Whether a call was lowered, but no compilation was ever reported."""
        found = self._lowered is not None and not self._compiles
        self._lowered = None
        return found


_MAX_TRACED = 1000


class Underway(threading.local):
    """What is in progress in the current thread."""

    def __init__(self) -> None:
        self.running: list[Running] = []
        self.lookup: Lookup | None = None
        """The look-up of a compilation whose beginning this JAX does not report."""
        self.lowered: int | None = None
        self.progress = Progress()
        self.nameless: tuple[int, str, Stage] | None = None
        """The last miss for which JAX exposed only a name, and its last stage."""
        self.ended: tuple[Stage, str] | None = None
        """The stage that ended last and its name, if none has begun since."""
        self.ended_of: tuple[Stage, int] | None = None
        """The stage that ended last and its miss."""
        self.held: Held = None
        """What is known about the current miss but not yet written."""
        self.forward: dict[str, int] = {}
        """Calls under an eager transform whose backward program may follow, by function."""
        self.deriving: list[tuple[Trace, str]] = []
        """Traces with which JAX derives a program outside all misses, with their source."""
        self.derived: Counter[str] = Counter()
        """JAX's own traces inside them, by source, until the program is lowered."""

    def pop(self, number: int, stage: Stage) -> Running | None:
        """Remove the ended stage of a miss and all inside it; None if it had not begun."""
        running = self.running
        for index in range(len(running) - 1, -1, -1):
            if running[index].number == number and running[index].stage is stage:
                found = running[index]
                del running[index:]
                return found
        return None

    def looking(self) -> Lookup:
        """The look-up in JAX's on-disk cache for the compilation in progress."""
        lookup = self.running[-1].lookup if self.running else None
        if lookup is None:
            lookup = self.lookup = self.lookup or Lookup()
        return lookup


def is_lowering(running: list[Running], number: int | None) -> bool:
    """Whether a miss is being lowered."""
    return any(each.number == number and each.stage is _LOWER for each in running)


def stage_fields(running: Running | None, stage: Stage, seconds: float) -> MissFields:
    """The fields of a line for a stage that ends now."""
    fields: MissFields = {"stages": {stage: seconds}, "began": {stage: time() - seconds}}
    if running is not None and running.inner:
        fields["inner"] = running.inner
    return fields


def spans(frame: FrameType) -> MissFields:
    """Number of processes that run the program being compiled, if there are several."""
    found = spanning.processes_of(frame)
    return {"processes": len(found)} if len(found) > 1 else {}


def raised(frame: FrameType, running: Running | None) -> str | None:
    """The type of the exception that ends a stage, if one does.

    Args:
        frame: the frame of the JAX function that reports the end of the stage.
        running: the stage; None if its beginning was not reported.
    """
    error = sys.exc_info()[1]
    if error is None or (running is not None and error is running.handled):
        return None
    if running is None and not _passes(error, frame):
        return None
    return type(error).__name__


def _passes(error: BaseException, frame: FrameType) -> bool:
    # An exception that the program is handling was raised outside these frames.
    within = [frame, frame.f_back, frame.f_back and frame.f_back.f_back]
    passed = error.__traceback__
    while passed is not None:
        if any(passed.tb_frame is one for one in within):
            return True
        passed = passed.tb_next
    return False

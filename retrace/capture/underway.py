"""What is under way in a thread: the stages that have begun, and what waits to be written."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from time import time
from types import FrameType
from typing import TypeAlias

from retrace.jax_internals.disk_cache import Lookup
from retrace.jax_internals.traces import Trace
from retrace.model import Stage
from retrace.model.miss_fields import MissFields

_LOWER, _COMPILE = Stage.LOWER, Stage.COMPILE
Held: TypeAlias = tuple[int, MissFields] | None


class Running:
    """A stage that is under way in a thread."""

    __slots__ = ("handled", "inner", "lookup", "number", "stage")

    def __init__(self, number: int, stage: Stage) -> None:
        self.number = number
        self.stage = stage
        self.inner = 0
        self.handled = sys.exc_info()[1]
        """What the program was handling when the stage began: it did not raise that."""
        self.lookup = Lookup() if stage is _COMPILE else None


class Progress:
    """How far the calls of one thread got, to notice stages that JAX does not tell."""

    def __init__(self) -> None:
        self._traced: set[int] = set()
        """Traced, and not lowered yet."""
        self._lowered: int | None = None
        """Lowered, and not compiled yet."""
        self._compiles = False
        """Whether any compilation was told."""

    def traced(self, number: int) -> None:
        """A call was traced: to be compiled, it is lowered first."""
        if len(self._traced) > _MAX_TRACED:
            self._traced.clear()
        self._traced.add(number)

    def lowered(self, number: int) -> None:
        """What was traced was lowered; it is compiled next."""
        if number in self._traced:
            self._traced.discard(number)
            self._lowered = number

    def compiles(self, number: int) -> bool:
        """A call is compiled; True where it must have been lowered, and that was not told."""
        self._compiles, self._lowered = True, None
        found = number in self._traced
        self._traced.discard(number)
        return found

    def left_uncompiled(self) -> bool:
        """Whether a call was lowered and then no compilation was told, of this or any call."""
        found = self._lowered is not None and not self._compiles
        self._lowered = None
        return found


_MAX_TRACED = 1000


class Underway(threading.local):
    """What is under way in the thread that asks."""

    def __init__(self) -> None:
        self.running: list[Running] = []
        self.lookup: Lookup | None = None
        """The look-up of a compilation whose beginning this JAX does not tell."""
        self.lowered: int | None = None
        self.progress = Progress()
        self.nameless: tuple[int, str, Stage] | None = None
        """The last miss of which JAX showed a name alone, and its last stage."""
        self.ended: tuple[Stage, str] | None = None
        """The stage that ended last, and its name, where none has begun since."""
        self.ended_of: tuple[Stage, int] | None = None
        """The stage that ended last, and its miss."""
        self.held: Held = None
        """What is known of the miss under way and not written yet."""
        self.forward: dict[str, int] = {}
        """Calls under an eager transform whose backward program may follow, by function."""
        self.deriving: list[tuple[Trace, str]] = []
        """The traces by which JAX derives a program outside of all misses, and from what."""
        self.derived: Counter[str] = Counter()
        """Traces of JAX's own inside them, until the program is lowered."""

    def pop(self, number: int, stage: Stage) -> Running | None:
        """The stage of a miss that has ended, with all inside it; None where none has begun."""
        running = self.running
        for index in range(len(running) - 1, -1, -1):
            if running[index].number == number and running[index].stage is stage:
                found = running[index]
                del running[index:]
                return found
        return None

    def looking(self) -> Lookup:
        """What JAX's cache on disk is asked for the compilation that is under way."""
        lookup = self.running[-1].lookup if self.running else None
        if lookup is None:
            lookup = self.lookup = self.lookup or Lookup()
        return lookup

    def hold(self, number: int, fields: MissFields) -> Held:
        """Keep what is known of a miss; what was kept of another one, and is to be written."""
        held = self.held
        if held is None or held[0] != number:
            self.held = (number, fields)
            return held
        known = held[1]
        inner, stages, began = known.get("inner", 0), known.get("stages"), known.get("began")
        known.update(fields)
        if stages and "stages" in fields:
            known["stages"] = {**stages, **fields["stages"]}
        if began and "began" in fields:
            known["began"] = {**began, **fields["began"]}
        if "stage" in known and known["stage"] in known.get("stages", ()):
            del known["stage"]
        if inner and "inner" in fields:
            known["inner"] = inner + fields["inner"]
        return None


def is_lowering(running: list[Running], number: int | None) -> bool:
    """Whether a miss is being lowered."""
    # Nothing runs, as a rule, and a generator would cost more than the question.
    return bool(running) and any(
        each.number == number and each.stage is _LOWER for each in running
    )


def stage_fields(running: Running | None, stage: Stage, seconds: float) -> MissFields:
    """What a line tells of a stage that ends now."""
    fields: MissFields = {"stages": {stage: seconds}, "began": {stage: time() - seconds}}
    if running is not None and running.inner:
        fields["inner"] = running.inner
    return fields


def raised(frame: FrameType, running: Running | None) -> str | None:
    """The type of the exception that ends the stage whose end JAX tells in `frame`, if one does.

    Args:
        frame: that of JAX's function which tells it.
        running: the stage; None where its beginning was not told.
    """
    error = sys.exc_info()[1]
    if error is None or (running is not None and error is running.handled):
        return None
    if running is None and not _passes(error, frame):
        return None
    return type(error).__name__


def _passes(error: BaseException, frame: FrameType) -> bool:
    # An exception that the program handles meanwhile was raised outside of these frames.
    within = [frame, frame.f_back, frame.f_back and frame.f_back.f_back]
    passed = error.__traceback__
    while passed is not None:
        if any(passed.tb_frame is one for one in within):
            return True
        passed = passed.tb_next
    return False

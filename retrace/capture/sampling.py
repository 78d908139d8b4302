"""Samples the stack of a thread that traces, from another thread.

A long trace is sampled at most a hundred times a second, and less often the longer it lasts; a
short one is never sampled. Each sample counts for the time since the previous one, so C code that
holds the interpreter is counted in full.

Like the writer thread (`background`), the sampling thread is unknown to `threading`. It starts
with a trace and ends with it.
"""

from __future__ import annotations

import gc
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, thread_time
from types import CodeType
from typing import TypeAlias

from retrace.capture.background import let_go
from retrace.capture.loops import LoopCode, around, loops
from retrace.capture.notebook_cells import shown
from retrace.capture.other_threads import At, local, stack
from retrace.capture.place import Owner, owner
from retrace.capture.turn import Held, Turn
from retrace.failure import alone, contain
from retrace.jax_internals.parts_of_jax import (
    EQUATION_NAME,
    handles_equations,
    is_boundary,
    part_of,
    source_of,
    takes_apart,
)
from retrace.model import Frame
from retrace.model.slow import Loop, Part, Sampled, Tracing

INTERVAL = 0.01
"""Minimum seconds between two samples."""
_SAMPLING_SHARE = 0.02
"""Maximum share of the time spent on sampling, so deep stacks are sampled less often."""
_INTERVAL_SHARE = 1 / 250
"""Minimum interval between samples as a share of the trace's duration so far: for one minute,
about 1,000 samples tell as much as 6,000, at a sixth of the cost."""
_MAX_STACKS = 4000
_MAX_FRAMES = 2000
_MAX_ELSEWHERE = 200
_MAX_LOOPS = 200
_MAX_CALLBACK_FRAMES = 4
"""Maximum number of frames searched for a callback of the garbage collector."""
_FREE_LOOP_SECONDS = 0.01
"""Seconds that may always be spent on finding loops in bytecode (once per function)."""
_LOOP_SHARE = 0.01
"""Share of the trace's time that may be spent on this in addition."""
_FIRST_REPORT_SECONDS = 10.0
"""Intermediate results are written after this time, and again each time it has doubled."""

Line: TypeAlias = tuple[str, int, str, int]
"""File, line, function and its first line. Plain text and numbers keep no code alive."""
Seen: TypeAlias = tuple[tuple[Line, ...], Part]

_EQUALITY = frozenset(("__eq__", "__ne__", "__hash__"))
_OUTSIDE = frozenset((Part.PYTHON, Part.EQUALITY))
_CONTAINED = contain.__code__
"""The wrapper around all code of retrace that runs inside JAX."""


@dataclass(slots=True, eq=False)
class Watched:
    """A trace in progress."""

    number: int
    since: float
    last: float = 0.0
    """Time of the last sample; 0 before the first one."""
    waited: float = 0.0
    samples: int = 0
    cut: float = 0.0
    stacks: dict[Seen, float] = field(default_factory=dict[Seen, float])
    collections: int = 0
    told: float = _FIRST_REPORT_SECONDS
    loops: dict[Line, int] = field(default_factory=dict[Line, int])
    """Python loops around the user's lines: the line of each loop, and its last line."""
    held: Held = field(default_factory=Held)
    elsewhere: int = 0
    """Number of consecutive samples outside any call of JAX."""

    def tracing(self, *, ended: bool = True) -> Tracing:
        """Summarize the samples."""
        stacks = tuple(
            Sampled(spent, part, tuple(_frame(line) for line in lines))
            for (lines, part), spent in sorted(self.stacks.items(), key=lambda item: -item[1])
        )
        collections = _collections() - self.collections
        spent = self.last - self.since - self.waited
        seen = tuple(Loop(_frame(line), end) for line, end in self.loops.items())
        return Tracing(
            self.waited, spent, self.samples, stacks, self.cut, collections, ended, seen
        )


class Sampler:
    """Samples the threads that trace."""

    def __init__(
        self,
        patience: float,
        guarded: Callable[[Callable[[], None]], None],
        told: Callable[[int, Tracing], object],
    ) -> None:
        """Prepare sampling; a thread starts with the first trace.

        Args:
            patience: seconds before a trace is sampled.
            guarded: keeps failures on retrace's threads from the program.
            told: called with the results so far of a miss that is still being traced.
        """
        self._patience = patience
        self._guarded = guarded
        self._told = told
        self._watched: dict[int, Watched] = {}
        self._known_loops: dict[tuple[str, str, int], tuple[LoopCode, ...]] = {}
        """Loops of the functions seen, by file, name and line so that no code is kept alive."""
        self._at_work = allocate_lock()
        """Held by the sampling thread."""
        self._asleep = allocate_lock()
        self._asleep.acquire()
        self._cost_of_loops = 0.0
        self._cost_of_waiting = 0.0
        """Processor time of waiting for the GIL with a short switch interval, at each of which
        the thread wakes up: 30 ms while C code holds it for half a second."""
        self._turn = Turn()

    def forked(self) -> None:
        """Reset in a forked child, where the sampling thread does not exist."""
        self._turn.over()

    def began(self, number: int) -> None:
        """An outermost trace begins in this thread."""
        self._watched[get_ident()] = Watched(number, perf_counter())
        self._stir()

    def ended(self, number: int) -> Tracing | None:
        """The trace is over. Return its results if it lasted long enough to be sampled."""
        watched = self._watched.get(get_ident())
        if watched is None or watched.number != number:
            return None
        del self._watched[get_ident()]
        if not self._watched:
            self._wake()
        if not watched.samples:
            return None
        self._guarded(lambda: _last(watched))
        return watched.tracing()

    def _wake(self) -> None:
        """Wake the sampling thread, so that it sees that no trace is left."""
        let_go(self._asleep)

    def _stir(self) -> None:
        if not self._at_work.acquire(blocking=False):
            return
        try:
            start_new_thread(self._run, ())
        except (RuntimeError, MemoryError):  # no thread can be started, so nothing is sampled
            self._at_work.release()

    def _run(self) -> None:
        alone("a trace was not sampled to its end", self._sample, self._give_up)

    def _give_up(self) -> None:
        if self._at_work.locked():
            self._at_work.release()

    def _sample(self) -> None:
        while True:
            pause = INTERVAL
            while self._watched:
                since = perf_counter()
                self._asleep.acquire(timeout=pause)
                late = perf_counter() - since - pause
                # CPU time of this thread: waiting for the GIL costs the program nothing.
                begun = thread_time() - self._cost_of_loops - self._cost_of_waiting
                self._guarded(partial(self._look, late))
                apart = self._cost_of_loops + self._cost_of_waiting
                pause = self._pause(thread_time() - apart - begun)
            self._at_work.release()
            # Traces may have begun before the lock was released.
            if not self._watched or not self._at_work.acquire(blocking=False):
                return

    def _pause(self, cost: float) -> float:
        """Seconds until the next sample."""
        now = perf_counter()
        begun = [one.since for one in list(self._watched.values())]
        waits = min(begun, default=now) + self._patience - now
        lasted = now - max(begun, default=now)
        return max(INTERVAL, cost / _SAMPLING_SHARE, waits, lasted * _INTERVAL_SHARE)

    def _look(self, late: float) -> None:
        """Sample the traces that are due; `late` is the delay in getting the GIL."""
        now = perf_counter()
        watched = list(self._watched.items())
        due = [(thread, one) for thread, one in watched if now - one.since >= self._patience]
        if not due:
            return
        try:
            # C code that held the GIL long is over a moment later, so sample now; else wait once.
            if not any(one.held.was_held(late) for _, one in due):
                begun = thread_time()
                self._asleep.acquire(timeout=self._turn.soon())
                self._cost_of_waiting += thread_time() - begun
            stacks = [stack(thread, _MAX_FRAMES) for thread, _ in due]
        finally:
            self._turn.over()
        for (thread, one), functions in zip(due, stacks, strict=True):
            self._take(thread, one, functions)
            one.held.seen()

    def _take(self, thread: int, one: Watched, functions: Sequence[At]) -> None:
        """Take one sample."""
        seen = look(thread, functions)
        if seen is not None:
            self._loops(functions, one)
        now = perf_counter()
        if self._watched.get(thread) is not one:
            return
        one.elsewhere = 0 if seen is not None else one.elsewhere + 1
        if one.elsewhere > _MAX_ELSEWHERE:
            # The end of the trace was missed: do not sample forever.
            self._watched.pop(thread, None)
            return
        if not one.last:
            one.waited, one.collections = now - one.since, _collections()
        elif seen is not None:
            _add(one, seen, now - one.last)
        one.last = now
        if now - one.since >= one.told:
            one.told *= 2
            self._told(one.number, one.tracing(ended=False))

    def _loops(self, functions: Sequence[At], one: Watched) -> None:
        """Remember the loops around the user's lines of a stack."""
        for code, _, instruction in functions:
            if len(one.loops) >= _MAX_LOOPS:
                return
            if owner(code.co_filename) is Owner.USER:
                key = (code.co_filename, code.co_qualname, code.co_firstlineno)
                known = self._known_loops.get(key)
                if known is None:
                    lasted = perf_counter() - one.since
                    if self._cost_of_loops > _FREE_LOOP_SECONDS + _LOOP_SHARE * lasted:
                        return
                    begun = thread_time()
                    known = self._known_loops[key] = loops(code)
                    self._cost_of_loops += thread_time() - begun
                for loop in around(known, instruction):
                    line = (code.co_filename, loop.line, code.co_qualname, code.co_firstlineno)
                    one.loops[line] = loop.end


def _last(watched: Watched) -> None:
    """Count the time from the last sample to the end for the last stack seen."""
    now = perf_counter()
    if watched.stacks:
        newest = next(reversed(watched.stacks))
        watched.stacks[newest] += now - watched.last
    watched.last = now


def _add(one: Watched, seen: Seen, spent: float) -> None:
    one.samples += 1
    stacks = one.stacks
    before = stacks.pop(seen, None)
    if before is None and len(stacks) >= _MAX_STACKS:
        one.cut += spent
        seen = (seen[0][:1], seen[1])
        before = stacks.pop(seen, None)
        if before is None and len(stacks) >= 2 * _MAX_STACKS:
            return
    stacks[seen] = (before or 0.0) + spent  # the most recent stack goes last


def look(thread: int, functions: Sequence[At]) -> Seen | None:
    """What a thread is doing: its lines outside JAX but inside the trace, and the part of JAX.

    Args:
        thread: its identifier.
        functions: its stack, the innermost first.

    Returns:
        None if the thread is not in a call of JAX.
    """
    lines: list[Line] = []
    first, part = _behind_collection(functions)
    inside = outermost = -1
    is_behind = False
    for depth, (code, line, _) in enumerate(functions[first:], first):
        match owner(code.co_filename):
            case Owner.JAX:
                outermost_before, outermost = outermost, len(lines)
                if is_boundary(code):
                    inside = len(lines)
                if not lines:
                    part = part or part_of(code)
                    # The line that an equation came from, while JAX transforms a program.
                    lines = _behind(thread, depth, code)
                    is_behind = bool(lines)
                elif not is_behind and outermost_before < 0 and part in _OUTSIDE:
                    if all(_is_standard(line[0]) for line in lines):
                        # JAX's own use of the standard library.
                        lines, outermost, part = [], 0, part_of(code)
                    elif part is Part.PYTHON and takes_apart(code):
                        part = Part.FLATTEN
            case Owner.OURS:
                # What JAX and Python do below this counts as retrace's as well. A call that is
                # only forwarded, to one of JAX's C caches, counts as JAX's.
                if code is _CONTAINED and inside < 0:
                    lines, outermost, part = [], -1, Part.RECORDING
            case _:
                if outermost < 0 and part in (None, Part.PYTHON):
                    part = Part.EQUALITY if code.co_name in _EQUALITY else Part.PYTHON
                if not _is_made(code):
                    lines.append(_line(code, line or code.co_firstlineno))
    if outermost < 0:
        return None
    return _inside(lines, inside if inside >= 0 else outermost, part or Part.TRACING)


def _inside(lines: list[Line], kept: int, part: Part) -> Seen:
    # Time spent on recording is not charged to a line of the program.
    return () if part is Part.RECORDING else tuple(lines[:kept]), part


def _behind_collection(functions: Sequence[At]) -> tuple[int, Part | None]:
    """Which function a thread was in when Python started a garbage collection in it.

    During a collection a thread releases the GIL only in the callbacks of `gc.callbacks`, one
    of which is JAX's.
    """
    told = [getattr(called, "__code__", None) for called in gc.callbacks]
    for depth, (code, _, _) in enumerate(functions[:_MAX_CALLBACK_FRAMES]):
        if code in told:
            return depth + 1, Part.COLLECTION
    return 0, None


def _behind(thread: int, depth: int, code: CodeType) -> list[Line]:
    """The user's line of the equation that a JAX frame handles, and library lines inside it."""
    if not handles_equations(code):
        return []
    if (about := source_of(local(thread, depth, code, EQUATION_NAME))) is None:
        return []
    lines: list[Line] = []
    for inner, position in zip(*about.raw_frames(), strict=True):
        if is_boundary(inner):
            break
        whose = owner(inner.co_filename)
        if whose not in (Owner.USER, Owner.LIBRARY) or _is_made(inner):
            continue
        lines.append(_line(inner, type(about).code_addr2line(inner, position)))
        if whose is Owner.USER:
            return lines
    return []


def _line(code: CodeType, line: int) -> Line:
    return code.co_filename, line, code.co_qualname, code.co_firstlineno


def _is_made(code: CodeType) -> bool:
    """Whether the source of a function was generated, as for dataclasses: it has no line."""
    return code.co_filename == "<string>" and code.co_qualname.startswith("__create_fn__")


def _is_standard(file: str) -> bool:
    """Whether a file belongs to the standard library."""
    return owner(file) is Owner.LIBRARY and "-packages" not in file


def _frame(line: Line) -> Frame:
    file, number, function, first = line
    return Frame(shown(file), number, function, first, owner(file) is Owner.LIBRARY)


def _collections() -> int:
    """Number of full garbage collections in this process."""
    return int(gc.get_stats()[-1]["collections"])

"""The stack of a thread that traces, looked at from another thread of ours.

A trace that lasts is sampled, at most a hundred times a second, and less often the longer it has
lasted; a trace that is over before that is never looked at. Each sample counts for the time since
the one before, so that C code which holds the interpreter counts for as long as it did.

As with the thread that writes (`background`), `threading` does not know of this one. It begins
with a trace and ends with it.
"""

from __future__ import annotations

import gc
import sys
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, thread_time
from types import CodeType, FrameType
from typing import TypeAlias

from retrace.capture.loops import Around, around, loops
from retrace.capture.notebook_cells import shown
from retrace.capture.place import Owner, owner
from retrace.capture.turn import Held, Turn
from retrace.failure import contain
from retrace.jax_internals.parts import (
    equation_of,
    is_boundary,
    part_of,
    takes_apart,
)
from retrace.model import Frame
from retrace.model.slow import Loop, Part, Sampled, Tracing

INTERVAL = 0.01
"""Seconds between two samples."""
_SHARE = 0.02
"""So much of its time may be spent on looking: stacks that are deep are looked at less often."""
_SPARSE = 1 / 250
"""Of what a trace has lasted, the least between two samples: some 1,000 of a minute tell as much
as 6,000, and cost a sixth."""
_MAX_STACKS = 4000
_MAX_FRAMES = 2000
_MAX_ELSEWHERE = 200
_MAX_LOOPS = 200
_MAX_COLLECTING = 4
"""Frames below what is told of a collection of garbage."""
_FREE = 0.01
"""Seconds that may be spent on the bytecode of functions, each looked at once, in any case."""
_SHARE_OF_LOOPS = 0.01
"""Of its time, what may be spent on more of them."""
_FIRST_TOLD = 10.0
"""After so many seconds what was seen so far is written, and again whenever it has doubled."""

Line: TypeAlias = tuple[str, int, str, int]
"""File, line, function, and the function's own line: text and numbers hold no code alive."""
Seen: TypeAlias = tuple[tuple[Line, ...], Part]

_EQUALITY = frozenset(("__eq__", "__ne__", "__hash__"))
_OUTSIDE = frozenset((Part.PYTHON, Part.EQUALITY))
_CONTAINED = contain.__code__
"""Around whatever of ours runs inside JAX."""


@dataclass(slots=True, eq=False)
class Watched:
    """A trace that is under way."""

    number: int
    since: float
    last: float = 0.0
    """When it was looked at last; 0 before the first time."""
    waited: float = 0.0
    samples: int = 0
    cut: float = 0.0
    stacks: dict[Seen, float] = field(default_factory=dict[Seen, float])
    collections: int = 0
    told: float = _FIRST_TOLD
    loops: dict[Line, int] = field(default_factory=dict[Line, int])
    """The Python loops around the user's lines, by their own line, with the last one."""
    held: Held = field(default_factory=Held)
    elsewhere: int = 0
    """How often in a row it was in no call of JAX's."""

    def tracing(self, *, ended: bool = True) -> Tracing:
        """What was seen."""
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
    """Looks at the threads that trace."""

    def __init__(
        self,
        patience: float,
        guarded: Callable[[Callable[[], None]], None],
        told: Callable[[int, Tracing], object],
    ) -> None:
        """Begin to look.

        Args:
            patience: seconds that a trace lasts before it is looked at.
            guarded: keeps what fails on a thread of ours away from the program.
            told: given what was seen of a miss so far, while it is still traced.
        """
        self._patience = patience
        self._guarded = guarded
        self._told = told
        self._watched: dict[int, Watched] = {}
        self._known_loops: dict[tuple[str, str, int], tuple[Around, ...]] = {}
        """Of each function that was seen; by its name, so that no code is kept alive."""
        self._at_work = allocate_lock()
        """Held by the thread that looks."""
        self._asleep = allocate_lock()
        self._asleep.acquire()
        self._cost_of_loops = 0.0
        self._turn = Turn()

    def forked(self) -> None:
        """This is a child, in which the thread that looks is not."""
        self._turn.over()

    def began(self, number: int) -> None:
        """A trace begins in this thread, inside no other."""
        here = get_ident()
        now = perf_counter()
        self._watched[here] = Watched(number, now)
        self._stir()

    def ended(self, number: int) -> Tracing | None:
        """The trace is over; what was seen of it, where it lasted long enough."""
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
        """Let the thread see that there is nothing to look at any more."""
        try:
            self._asleep.release()
        except RuntimeError:  # it is awake
            pass

    def _stir(self) -> None:
        if not self._at_work.acquire(blocking=False):
            return
        try:
            start_new_thread(self._run, ())
        except (RuntimeError, MemoryError):  # no thread is to be had: nothing is sampled
            self._at_work.release()

    def _run(self) -> None:
        try:
            while True:
                pause = INTERVAL
                while self._watched:
                    since = perf_counter()
                    self._asleep.acquire(timeout=pause)
                    late = perf_counter() - since - pause
                    # Its own time: what it waits for the interpreter costs the program nothing.
                    begun, loops_before = thread_time(), self._cost_of_loops
                    self._guarded(partial(self._look, late))
                    once = self._cost_of_loops - loops_before
                    pause = self._pause(thread_time() - begun - once)
                self._at_work.release()
                # What began before it was known that nobody looks.
                if not self._watched or not self._at_work.acquire(blocking=False):
                    return
        except BaseException:  # noqa: BLE001 - a tracer's of all threads; nobody is there for it
            if self._at_work.locked():
                self._at_work.release()

    def _pause(self, cost: float) -> float:
        """Seconds until there is something to look at again."""
        now = perf_counter()
        begun = [one.since for one in list(self._watched.values())]
        waits = min(begun, default=now) + self._patience - now
        return max(INTERVAL, cost / _SHARE, waits, (now - max(begun, default=now)) * _SPARSE)

    def _look(self, late: float) -> None:
        """Take samples, having been let in by so many seconds too late."""
        now = perf_counter()
        watched = list(self._watched.items())
        due = [(thread, one) for thread, one in watched if now - one.since >= self._patience]
        if not due:
            return
        try:
            # C code that let nobody in for long is over by the next moment; else it is awaited.
            if not any(one.held.was_held(late) for _, one in due):
                self._asleep.acquire(timeout=self._turn.soon())
            stacks = _frames()
        finally:
            self._turn.over()
        try:
            for thread, one in due:
                self._take(thread, one, stacks.get(thread))
                one.held.seen()
        finally:
            # Our own frame is among them: a ring, which would keep what all of them hold alive
            # until the collector comes.
            stacks.clear()

    def _take(self, thread: int, one: Watched, frame: FrameType | None) -> None:
        """Take one sample."""
        seen = None if frame is None else look(frame)
        if frame is not None and seen is not None:
            self._loops(frame, one)
        del frame
        now = perf_counter()
        if self._watched.get(thread) is not one:
            return
        one.elsewhere = 0 if seen is not None else one.elsewhere + 1
        if one.elsewhere > _MAX_ELSEWHERE:
            # Its end was not told: nobody looks at a thread for ever.
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

    def _loops(self, frame: FrameType | None, one: Watched) -> None:
        """Remember the loops that the user's frames of a stack are in."""
        for _ in range(_MAX_FRAMES):
            if frame is None or len(one.loops) >= _MAX_LOOPS:
                return
            code = frame.f_code
            if owner(code.co_filename) is Owner.USER:
                key = (code.co_filename, code.co_qualname, code.co_firstlineno)
                known = self._known_loops.get(key)
                if known is None:
                    lasted = perf_counter() - one.since
                    if self._cost_of_loops > _FREE + _SHARE_OF_LOOPS * lasted:
                        return
                    begun = thread_time()
                    known = self._known_loops[key] = loops(code)
                    self._cost_of_loops += thread_time() - begun
                for loop in around(known, frame.f_lasti):
                    line = (code.co_filename, loop.line, code.co_qualname, code.co_firstlineno)
                    one.loops[line] = loop.end
            frame = frame.f_back


# The one way to see the stack of another thread.
_frames: Callable[[], dict[int, FrameType]] = sys._current_frames  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _last(watched: Watched) -> None:
    """Count the time between the last sample and the end for what was seen last."""
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
    stacks[seen] = (before or 0.0) + spent  # the one seen last stands last


def look(frame: FrameType | None) -> Seen | None:
    """What a thread is at: the lines outside JAX, inside the trace, and the part of JAX below.

    Args:
        frame: its innermost.

    Returns:
        None where it is in no call of JAX's.
    """
    lines: list[Line] = []
    frame, part = _behind_collection(frame)
    inside = outermost = -1
    is_behind = False
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        code = frame.f_code
        match owner(code.co_filename):
            case Owner.JAX:
                outermost_before, outermost = outermost, len(lines)
                if is_boundary(code):
                    inside = len(lines)
                if not lines:
                    part = part or part_of(code)
                    # The line behind what JAX derives from a program, while it does so.
                    lines = _behind(frame)
                    is_behind = bool(lines)
                elif not is_behind and outermost_before < 0 and part in _OUTSIDE:
                    if all(_is_standard(line[0]) for line in lines):
                        # JAX's own use of the standard library.
                        lines, outermost, part = [], 0, part_of(code)
                    elif part is Part.PYTHON and takes_apart(code):
                        part = Part.FLATTEN
            case Owner.OURS:
                # What JAX and Python do for us in there is ours as well. A call that we only
                # hand on, to a cache of JAX's in C, is JAX's.
                if code is _CONTAINED and inside < 0:
                    lines, outermost, part = [], -1, Part.RECORDING
            case _:
                if outermost < 0 and part in (None, Part.PYTHON):
                    part = Part.EQUALITY if code.co_name in _EQUALITY else Part.PYTHON
                if not _is_made(code):
                    line = frame.f_lineno or code.co_firstlineno
                    lines.append((code.co_filename, line, code.co_qualname, code.co_firstlineno))
        frame = frame.f_back
    if outermost < 0:
        return None
    return _inside(lines, inside if inside >= 0 else outermost, part or Part.TRACING)


def _inside(lines: list[Line], kept: int, part: Part) -> Seen:
    # What recording takes, no line of the program's costs.
    return () if part is Part.RECORDING else tuple(lines[:kept]), part


def _behind_collection(frame: FrameType | None) -> tuple[FrameType | None, Part | None]:
    """Where a thread was when Python began to collect garbage in it.

    It gives way to another thread where it calls what is told of collections, as a function of
    JAX's is, and nowhere else in them.
    """
    told = [getattr(called, "__code__", None) for called in gc.callbacks]
    inner = frame
    for _ in range(_MAX_COLLECTING):
        if inner is None:
            break
        if inner.f_code in told:
            return inner.f_back, Part.COLLECTION
        inner = inner.f_back
    return frame, None


def _behind(frame: FrameType) -> list[Line]:
    """The user's line that a frame of JAX's goes on from, and a library's inside it."""
    if (about := equation_of(frame)) is None:
        return []
    lines: list[Line] = []
    for code, position in zip(*about.raw_frames(), strict=True):
        if is_boundary(code):
            break
        whose = owner(code.co_filename)
        if whose not in (Owner.USER, Owner.LIBRARY) or _is_made(code):
            continue
        line = type(about).code_addr2line(code, position)
        lines.append((code.co_filename, line, code.co_qualname, code.co_firstlineno))
        if whose is Owner.USER:
            return lines
    return []


def _is_made(code: CodeType) -> bool:
    """Whether Python made the source of a function, as for dataclasses: it has no line."""
    return code.co_filename == "<string>" and code.co_qualname.startswith("__create_fn__")


def _is_standard(file: str) -> bool:
    """Whether a file is Python's own."""
    return owner(file) is Owner.LIBRARY and "-packages" not in file


def _frame(line: Line) -> Frame:
    file, number, function, first = line
    return Frame(shown(file), number, function, first, owner(file) is Owner.LIBRARY)


def _collections() -> int:
    """How often all garbage was collected in this process."""
    return int(gc.get_stats()[-1]["collections"])

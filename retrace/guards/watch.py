"""Watches the misses of this process for the guards.

One recording in memory serves all guards of a process. It is written to while any guard is
open, and kept, so that a later guard can refer to what an earlier one saw.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from retrace.guards.history import History
from retrace.guards.others import Others
from retrace.inside.excerpt import excerpt, view_of
from retrace.inside.live import here
from retrace.model import Function, Listing, Miss, Pattern, Recording, Verdict
from retrace.present.view import View
from retrace.reason.patterns import recognise
from retrace.reason.verdict import judge
from retrace.store.programs import Library
from retrace.store.reader import Reader
from retrace.store.writer import Writer

if TYPE_CHECKING:
    from retrace.capture.journal import Event


class Listener(Protocol):
    """Called for each miss, at the call that misses and in its thread."""

    def begun(self, number: int, functions: tuple[Function, ...]) -> BaseException | None:
        """A miss began or was renamed; returns the error to raise at the call, or None.

        `functions` are the function of the miss and the bodies that it runs; empty if only
        the recorded miss can tell.
        """
        ...

    def compiled(self, number: int) -> BaseException | None:
        """A miss finished its last stage; returns the error to raise at the call, or None."""
        ...


class _Happened(NamedTuple):
    number: int
    event: Event
    functions: tuple[Function, ...]


class _Thread(threading.local):
    def __init__(self) -> None:
        self.events: list[_Happened] = []
        """Events in this thread since JAX last asked."""


class _Feed:
    """The sink of the recording: keeps its lines until they are read."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque()
        self._begun = False

    def open(self) -> bool:
        first, self._begun = not self._begun, True
        return first

    def write(self, line: str) -> None:
        self.lines.append(line)

    def close(self) -> None:
        """Do nothing: the lines are kept."""


class Watch:
    """The recording in memory and its listeners."""

    def __init__(self) -> None:
        from retrace.capture.session import describe_run

        self._feed = _Feed()
        self._writer = Writer(self._feed, describe_run())
        self._reader = Reader()
        self._read = 0
        self._texts: _Feed | None = None
        self._programs: Library | None = None
        self._history = History()
        self._others = Others()
        self._thread = _Thread()
        self._numbers: list[int] = []
        """Miss numbers in the order the misses began."""
        self._compiled: list[int] = []
        """Miss numbers in the order they were compiled."""
        self._next = 0
        """Higher than all of these numbers."""
        self._lock = threading.RLock()
        self._open = 0
        self._is_attached = self._is_held = False
        self._read_others = False
        self._listeners: tuple[Listener, ...] = ()

    def keep_programs(self) -> None:
        """From now on also keep the text of programs, to compare them between tests."""
        if self._texts is None:
            self._texts, self._programs = _Feed(), Library()
            self._writer.keep_programs(self._texts)

    def listings(self) -> Mapping[str, Listing]:
        """The kept program texts."""
        self._update()
        with self._lock:
            if self._texts is None or self._programs is None:
                return {}
            while self._texts.lines:
                self._programs.add_line(self._texts.lines.popleft())
            return self._programs

    def open(self, listener: Listener | None = None) -> int:
        """Start watching; returns the position to pass to `numbers`."""
        with self._lock:
            if not self._open:
                self._read_new()
                self._read_others = False
                self._history.begin(self._next)
                self._attach()
            self._open += 1
            if listener is not None:
                self._listeners = (*self._listeners, listener)
            return len(self._numbers)

    def close(self, listener: Listener | None = None) -> None:
        """Stop watching, unless another guard is still open."""
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one is not listener)
            self._open -= 1
            if not self._open:
                self._thread.events.clear()
                self._detach()

    def hold(self, held: bool) -> None:
        """Whether to go on recording between one guard and the next.

        Beginning to record anew for each of a thousand short tests takes longer than they do.
        """
        with self._lock:
            self._is_held = held
            if held:
                self._attach()
            else:
                self._detach()

    def _attach(self) -> None:
        from retrace.capture.session import session

        if not self._is_attached:
            self._is_attached = True
            session().attach(self._writer)
            session().refuse(self._on_event, self._refusal)

    def _detach(self) -> None:
        from retrace.capture.session import session

        if self._is_attached and not self._open and not self._is_held:
            self._is_attached = False
            session().refuse(None, None)
            session().detach(self._writer)

    @property
    def position(self) -> int:
        """How many misses have begun."""
        return len(self._numbers)

    def numbers(self, start: int) -> list[int]:
        """The numbers of the misses that began since a position."""
        return self._numbers[start:]

    def is_earlier(self, number: int, start: int) -> bool:
        """Whether a miss began before a position; its number is below all since."""
        return start >= len(self._numbers) or number < self._numbers[start]

    @property
    def compilations(self) -> int:
        """How many misses were compiled."""
        return len(self._compiled)

    def compiled_since(self, start: int, begun: Iterable[int]) -> list[int]:
        """The numbers of the misses that were lowered before, and compiled since.

        Args:
            start: the number of `compilations` until then.
            begun: the misses that began since.
        """
        found = dict.fromkeys(self._compiled[start:]).keys() - {*begun}
        return [miss.number for miss in self.misses_of(found) if miss.ahead] if found else []

    def misses_of(self, numbers: Iterable[int]) -> list[Miss]:
        """The misses with these numbers, in their current state."""
        self._update()
        return [miss for number in numbers if (miss := self._history.miss(number)) is not None]

    def view(self, numbers: Iterable[int], *, patterns: bool = True) -> View:
        """Some misses and those around them, judged by everything known.

        Args:
            numbers: the misses.
            patterns: also look for patterns with earlier misses, which only a full message
                shows.
        """
        self._update()
        with self._lock:
            history = self._history
            verdicts = list(excerpt(numbers, history.miss, history.verdict).values())
            made = self._patterns(verdicts) if patterns else {}
            verdicts = [
                replace(one, pattern=made[one.miss.id]) if one.miss.id in made else one
                for one in verdicts
            ]
            run, _ = self._reader.since(self._read)
            return view_of(run, verdicts, history.label)

    def alone(self, numbers: Iterable[int]) -> View:
        """Some misses, judged as if there had been no others before."""
        found = self.misses_of(numbers)
        run, _ = self._reader.since(self._read)
        recording = Recording([run], sorted(found, key=lambda miss: miss.number))
        return View(recording, judge(recording), here())

    def verdict(self, number: int) -> Verdict | None:
        """The verdict on one miss, judged by everything known, at a constant cost."""
        self._update()
        with self._lock:
            miss = self._history.miss(number)
            return None if miss is None else self._history.verdict(miss)

    def _patterns(self, verdicts: Sequence[Verdict]) -> dict[str, Pattern]:
        """Patterns over several misses of a site, seen from the last one."""
        last = {one.miss.function.site: one for one in verdicts}
        found: dict[str, Pattern] = {}
        for one in last.values():
            found.update(recognise([*self._history.before(one.miss), one]))
        return found

    def _update(self) -> None:
        """Read everything recorded so far."""
        from retrace.capture.session import flush

        flush()
        with self._lock:
            self._read_new()
            if not self._read_others:
                self._read_others = True
                run, _ = self._reader.since(self._read)
                self._history.add_others(self._others.more(run.id))

    def _read_new(self) -> None:
        if not self._feed.lines:
            return
        self._history.more_is_known()
        while self._feed.lines:
            for line in self._feed.lines.popleft().split("\n"):
                self._reader.add(line)
        _, new = self._reader.since(self._read)
        self._read += len(new)
        self._history.add(new)

    def _on_event(self, number: int, event: Event, functions: tuple[Function, ...]) -> None:
        if event == "begun":
            self._numbers.append(number)
            self._next = max(self._next, number + 1)
        elif event == "compiled":
            self._compiled.append(number)
        if self._listeners:
            self._thread.events.append(_Happened(number, event, functions))

    def _refusal(self) -> BaseException | None:
        events = self._thread.events
        if not events:
            return None
        pending, events[:] = list(events), []
        for number, event, functions in pending:
            for listener in self._listeners:
                if event == "compiled":
                    error = listener.compiled(number)
                else:
                    error = listener.begun(number, functions)
                if error is not None:
                    return error
        return None


_watch: Watch | None = None
_pid = 0
_locks: dict[int, Any] = {}
"""By process id: only one thread creates the watch."""


def watch() -> Watch:
    """The watch of this process; a forked child has its own."""
    global _watch, _pid
    if _watch is None or _pid != os.getpid():
        from retrace.capture import lock

        with _locks.setdefault(os.getpid(), lock.make()):
            if _watch is None or _pid != os.getpid():
                _watch, _pid = Watch(), os.getpid()
    return _watch


def of_numbers(verdicts: Iterable[Verdict], numbers: Sequence[int]) -> list[Verdict]:
    """The verdicts on some misses."""
    wanted = set(numbers)
    return [verdict for verdict in verdicts if verdict.miss.number in wanted]

"""What this process misses while anyone watches, with all that was known before.

One recording in memory serves all guards of a process: it is written to while any
of them is open, and kept, so that a later guard can name what an earlier one saw.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from retrace.inside.live import here, recorded_directories
from retrace.model import Miss, Recording, Run, Verdict
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.store.reader import Reader, read, read_lines
from retrace.store.writer import Writer


class Listener(Protocol):
    """Who is told of misses at the call that makes them, in its thread."""

    def begun(self, number: int) -> BaseException | None:
        """A miss began: what to raise at the call, or None."""
        ...

    def compiled(self, number: int) -> BaseException | None:
        """A miss ran its last stage: what to raise at the call, or None."""
        ...


class _Thread(threading.local):
    def __init__(self) -> None:
        self.events: list[tuple[int, bool]] = []
        """What came to pass in this thread since JAX last asked: the number, whether compiled."""


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
        """Nothing: the lines stay."""


class Watch:
    """The recording in memory, who listens to it, and what it tells."""

    def __init__(self) -> None:
        from retrace.capture.session import describe_run

        self._feed = _Feed()
        self._writer = Writer(self._feed, describe_run())
        self._reader = Reader()
        self._thread = _Thread()
        self._numbers: list[int] = []
        """The misses in the order in which they began."""
        self._lock = threading.RLock()
        self._earlier: dict[int, Miss] = {}
        self._sources: list[Callable[[], Recording]] = []
        self._open = 0
        self._since = 0
        """The position at which the outermost of those who watch began."""
        self._listeners: tuple[Listener, ...] = ()

    def open(self, listener: Listener | None = None) -> int:
        """Begin to watch; returns the position to ask `misses` from."""
        from retrace.capture.session import session

        with self._lock:
            if not self._open:
                self._sources, self._earlier = list(self._others()), {}
                self._since = len(self._numbers)
                session().attach(self._writer)
                session().refuse(self._told, self._refusal)
            self._open += 1
            if listener is not None:
                self._listeners = (*self._listeners, listener)
            return len(self._numbers)

    def close(self, listener: Listener | None = None) -> None:
        """Watch no longer, unless someone else does."""
        from retrace.capture.session import session

        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one is not listener)
            self._open -= 1
            if not self._open:
                session().refuse(None, None)
                session().detach(self._writer)
                self._thread.events.clear()

    @property
    def position(self) -> int:
        """How many misses have begun."""
        return len(self._numbers)

    def numbers(self, start: int) -> list[int]:
        """The numbers of the misses that began from a position on."""
        return self._numbers[start:]

    def view(self) -> View:
        """All that is known of this process, judged."""
        recording = self._known()
        return View(recording, judge(recording), here())

    def judged(self, number: int) -> tuple[View, Verdict] | None:
        """One miss, judged by the history of its function alone: quick, and less to show."""
        recording = self._known()
        miss = next((one for one in recording.misses if one.number == number), None)
        if miss is None:
            return None
        kept = {miss.function.site}
        ids = {miss.parent}
        near = [m for m in recording.misses if m.function.site in kept or m.id in ids]
        view = View(
            Recording(recording.runs, near), judge(Recording(recording.runs, near)), here()
        )
        return view, view.by_id[miss.id]

    def _known(self) -> Recording:
        from retrace.capture.session import flush

        flush()
        with self._lock:
            while self._feed.lines:
                for line in self._feed.lines.popleft().split("\n"):
                    self._reader.add(line)
            run, misses = self._reader.result()
            sources, self._sources = self._sources, []
            for source in sources:
                for miss in source().misses:
                    self._earlier.setdefault(miss.number, _of_run(miss, run))
            # What was watched before and has ended counts where the very same function
            # object comes again: a test's verdict must not depend on the tests before it.
            now = set(self._numbers[self._since :])
            objects = {miss.function.object for miss in misses if miss.number in now}
            kept = {
                m.number: m for m in misses if m.number in now or m.function.object in objects
            }
        both = {**self._earlier, **kept}
        return Recording([run], [both[number] for number in sorted(both)])

    def _others(self) -> Iterator[Callable[[], Recording]]:
        """What others record of this process, to be read when it is needed."""
        from retrace.capture.session import session

        for memory in session().windows.values():
            yield lambda lines=memory.lines: read_lines(list(lines))
        for directory in recorded_directories():
            yield lambda directory=directory: _of_this_process(read([directory]))

    def _told(self, number: int, is_compiled: bool) -> None:
        if not is_compiled:
            self._numbers.append(number)
        if self._listeners:
            self._thread.events.append((number, is_compiled))

    def _refusal(self) -> BaseException | None:
        events = self._thread.events
        if not events:
            return None
        told, events[:] = list(events), []
        for number, is_compiled in told:
            for listener in self._listeners:
                error = listener.compiled(number) if is_compiled else listener.begun(number)
                if error is not None:
                    return error
        return None


def _of_run(miss: Miss, run: Run) -> Miss:
    """The same miss as this recording would have written it: numbers are the process's."""
    parent = None if miss.parent is None else f"{run.id}-{miss.parent.rpartition('-')[2]}"
    return replace(miss, run=run.id, id=f"{run.id}-{miss.number}", parent=parent)


def _of_this_process(recording: Recording) -> Recording:
    here = {run.id for run in recording.runs if (run.pid, run.host) == _process()}
    return Recording(
        [run for run in recording.runs if run.id in here],
        [miss for miss in recording.misses if miss.run in here],
    )


def _process() -> tuple[int, str]:
    return os.getpid(), socket.gethostname()


_watch: Watch | None = None
_pid = 0
_locks: dict[int, Any] = {}
"""By process: only one thread makes the watch."""


def watch() -> Watch:
    """The watch of this process; a forked child has one of its own."""
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

"""`retrace watch`: follows a running program's recording from another terminal."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrace.command import console
from retrace.errors import UnreadableError

if TYPE_CHECKING:
    from retrace.model import Verdict
    from retrace.present.watching import Seen
    from retrace.store.following import Following

_INTERVAL = 0.5
"""Seconds between updates."""
_PAUSE_FACTOR = 10.0
"""After explaining all misses, wait this many times as long before explaining them again."""
_START_TIMEOUT = 5.0
"""Seconds to wait for the recording of a program that is just starting."""
_STILL_AFTER = 2.0
"""Seconds after which line output first mentions that something is still compiling."""


def watch(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A recording (default: the newest).")
    ] = None,
) -> int:
    """Follow a running program: what is compiling, what missed, what it cost.

    Ends when the program does, or on Ctrl-C; never disturbs the program.

    Example:  retrace watch    # while `retrace run train.py` runs in another terminal
    """
    from retrace.store.following import Following

    try:
        found = _wait_for(directory)
        following = Following(found)
        _follow(Watching(following), _Terminal() if _is_terminal() else _Lines(), found)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        console.silence()  # the reader closed the pipe (`| head`)
    return 0


def _wait_for(directory: Path | None) -> Path:
    """The recording to follow; waits for one that is about to be created."""
    from retrace.store.place import begun

    until = time.monotonic() + _START_TIMEOUT
    announced = False
    while (found := begun(directory)) is None:
        where = "under .retrace/" if directory is None else f"in {directory}"
        if time.monotonic() > until:
            raise UnreadableError(
                f"no recording {where}: start the program first, as in `retrace run train.py`"
            )
        if not announced:
            console.say(f"no recording {where} yet, waiting for it")
            announced = True
        time.sleep(_INTERVAL / 5)
    return found


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _follow(watching: Watching, shown: _Terminal | _Lines, directory: Path) -> None:
    while True:
        over = watching.is_over
        # Checked before reading, so that the last read sees everything.
        watching.look(at_once=over)
        if over:
            break
        shown.show(watching.seen)
        time.sleep(_INTERVAL)
    shown.end(watching.seen, directory)


class Watching:
    """A growing recording and what to show of it."""

    def __init__(self, following: Following) -> None:
        from retrace.model import Recording
        from retrace.present.tally import Tally
        from retrace.present.view import View
        from retrace.present.watching import Seen

        self._following = following
        self._here = console.here()
        self._unexplained = True
        self._wait_until = 0.0
        self.seen: Seen = Seen(View(Recording([], []), [], self._here), Tally())

    @property
    def is_over(self) -> bool:
        """Whether all of its processes have ended."""
        return self._following.is_over

    def has_ended(self, process: int) -> bool:
        """Whether a process on this host has closed its recording."""
        return any(t.run.pid == process and t.run.complete for t in self._following.tails)

    def look(self, *, at_once: bool = False) -> None:
        """Read what is new, and explain it at once or when the pause is over."""
        from retrace.reason.underway import underway

        following, seen = self._following, self.seen
        if following.more():
            self._unexplained = True
            misses = [miss for tail in following.tails for miss in tail.misses]
            outermost = (m for m in misses if m.parent is None or m.derived is not None)
            seen.misses, seen.spent = len(misses), sum(miss.seconds for miss in outermost)
        began = time.monotonic()
        if self._unexplained and (at_once or began >= self._wait_until):
            self._explain()
            # Explaining many misses takes long: never use most of a processor.
            now = time.monotonic()
            self._wait_until = now + _PAUSE_FACTOR * (now - began)
        seen.underway = [
            (tail.run, one) for tail in following.tails for one in underway(tail.misses)
        ]
        seen.underway.sort(key=lambda one: one[1].since)
        seen.lives = Counter(tail.life for tail in following.tails)
        seen.now = time.time()

    def _explain(self) -> None:
        from retrace.failure import contain
        from retrace.plan.order import plan
        from retrace.present.tally import Tally
        from retrace.present.view import View
        from retrace.reason.verdict import judge

        self._unexplained = False
        recording = self._following.recording()
        view = View(recording, judge(recording), self._here)
        self.seen.view, self.seen.tally = view, Tally.of(view)
        self.seen.plan = contain(_ignore, plan, recording, view.verdicts)


def _ignore(_: Exception) -> None:
    """The report will show the error once the program has ended."""


class _Lines:
    """Output line by line, for a pipe or a file."""

    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._next_mention: dict[str, float] = {}
        self._width = console.terminal(sys.stdout)[0]
        self._opened = False

    def show(self, seen: Seen) -> None:
        """Write what is new."""
        from retrace.present import watching

        if not self._opened and seen.view.recording.runs:
            self._opened = True
            self._write(watching.opening(seen, self._width))
        new = list(self._ended(seen))
        for lines in watching.rows(seen.view, new, self._width):
            self._write(lines)
        for run, one in seen.underway:
            # Mentioned after 2 s, 4 s, 8 s and so on.
            spent = seen.now - one.since
            due = self._next_mention.get(one.inner.id, _STILL_AFTER)
            if spent >= due:
                while due <= spent:
                    due *= 2
                self._next_mention[one.inner.id] = due
                self._write(watching.still(seen, run, one, self._width))

    def end(self, seen: Seen, directory: Path) -> None:
        """Write the rest and the summary."""
        self.show(seen)
        self._write(_summary(seen, directory, self._width).splitlines())

    def _ended(self, seen: Seen) -> Iterable[Verdict]:
        """Finished misses that were not shown yet."""
        at = {one.inner.id for _, one in seen.underway} | {
            one.outer.id for _, one in seen.underway
        }
        for verdict in seen.view.verdicts:
            miss = verdict.miss
            if miss.id not in self._shown and miss.in_flight is None and miss.id not in at:
                self._shown.add(miss.id)
                yield verdict

    def _write(self, lines: Iterable[str]) -> None:
        from retrace.present.words import inert

        for line in lines:
            sys.stdout.write(f"{inert(line)}\n")
        sys.stdout.flush()


class _Terminal:
    """Output on a terminal, each update drawn over the one before."""

    def __init__(self) -> None:
        self._lines = 0
        self._columns = 0

    def show(self, seen: Seen) -> None:
        """Show the current state."""
        from retrace.present.watching import screen

        size = os.get_terminal_size(sys.stdout.fileno())
        width, paint = console.terminal(sys.stdout)
        if size.columns != self._columns:
            # A resized terminal may have wrapped the old lines: leave them there.
            self._columns, self._lines = size.columns, 0
        lines = screen(seen, min(width, size.columns - 1), max(4, size.lines - 1), paint)
        self._draw("\n".join(lines) + "\n", len(lines))

    def end(self, seen: Seen, directory: Path) -> None:
        """Replace the display by the summary."""
        width, paint = console.terminal(sys.stdout)
        self._draw(_summary(seen, directory, width, paint), 0)

    def _draw(self, text: str, lines: int) -> None:
        up = f"\x1b[{self._lines}A" if self._lines else ""
        sys.stdout.write(f"{up}\r\x1b[J{text}")
        sys.stdout.flush()
        self._lines = lines


def _summary(seen: Seen, directory: Path, width: int, paint: Any = None) -> str:
    """The summary that `retrace run` prints at its end."""
    from retrace.present.layout import plain
    from retrace.present.terminal import summary
    from retrace.store.place import recordings

    shown, here = str(directory.absolute()), console.here()
    shown = shown[len(here) + 1 :] if here and shown.startswith(here + os.sep) else shown
    newest = next(recordings(), None)
    return summary(
        seen.view,
        shown,
        seen.tally,
        newest=newest is not None and newest.absolute() == directory.absolute(),
        width=width,
        paint=paint or plain,
        plan=seen.plan,
    )

"""`retrace run --live`: shows what is compiling on the last line of the terminal.

That line is excluded from the scrolling region, as `apt` does, so the program's output continues
above it. A separate process draws it; it is not a child of the program, holds none of its files,
and ends with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from retrace.command import console

_INTERVAL = 0.4
"""Seconds between updates."""
_MIN_LINES = 6
"""No line is taken from a terminal with fewer lines than this."""


def begin(directory: Path, attempt: int) -> None:
    """Start drawing, until this process, or the program that replaces it, ends.

    Args:
        directory: the recording.
        attempt: the number of the attempt in it.
    """
    if not hasattr(os, "fork") or not _is_terminal():
        console.say("--live shows nothing: stderr is no terminal that can redraw a line")
        return
    program = os.getpid()
    # Forked twice, so that the program's `wait` calls never see it.
    if child := os.fork():
        os.waitpid(child, 0)
        return
    try:
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.01)
            # Process 1 of a container adopts all orphans, so there it would be a child.
            if os.getppid() != program:
                _draw(program, directory, attempt)
    finally:
        os._exit(0)


def _is_terminal() -> bool:
    try:
        return os.isatty(2) and os.environ.get("TERM", "dumb") not in ("", "dumb")
    except OSError:
        return False


def _draw(program: int, directory: Path, attempt: int) -> None:
    from retrace.command.watch import Watching
    from retrace.present.watching import status
    from retrace.store.attempts import is_running
    from retrace.store.following import Following

    os.setsid()  # leave Ctrl-C to the program
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    # Otherwise the program's pipes would stay open after its end.
    os.closerange(3, min(os.sysconf("SC_OPEN_MAX"), 1 << 16))
    os.nice(10)
    began = time.time()
    watching = Watching(Following(directory, attempt))
    line = LastLine()
    try:
        while is_running(program, began) and not watching.has_ended(program):
            watching.look()
            if watching.seen.misses:
                line.show(lambda width: status(watching.seen, width))
            time.sleep(_INTERVAL)
    finally:
        line.clear()


class LastLine:
    """The last line of a terminal, excluded from scrolling."""

    def __init__(self, terminal: int = 2) -> None:
        self._terminal = terminal
        self._size: os.terminal_size | None = None
        """Size of the terminal when its last line was taken."""

    def show(self, text: Callable[[int], str]) -> None:
        """Redraw the line; `text` makes its content for a given width."""
        from retrace.present.words import clean

        size = os.get_terminal_size(self._terminal)
        if size.lines < _MIN_LINES or not self._is_free():
            self.clear()
            return
        drawn = ""
        if size != self._size:
            self.clear()
            # Down and up again in the same column, in case the cursor is on the last line.
            drawn = f"\x1bD\x1b7\x1b[1;{size.lines - 1}r\x1b8\x1b[1A"
            self._size = size
        said = clean(text(size.columns), None)
        self._write(f"{drawn}\x1b7\x1b[{size.lines};1H\x1b[0m\x1b[2K{said}\x1b8")

    def clear(self) -> None:
        """Return the line to the terminal."""
        size, self._size = self._size, None
        if size is not None:
            lines = os.get_terminal_size(self._terminal).lines
            self._write(f"\x1b7\x1b[r\x1b[{lines};1H\x1b[2K\x1b8")

    def _is_free(self) -> bool:
        """Whether the terminal is in line mode, so that no full-screen program is using it."""
        import termios

        try:
            return bool(termios.tcgetattr(self._terminal)[3] & termios.ICANON)
        except termios.error:
            return False

    def _write(self, text: str) -> None:
        # In one call, so that the program's output cannot come between.
        os.write(self._terminal, text.encode(errors="replace"))

"""`retrace run --live`: the last line of the terminal tells what is being compiled.

That line is kept out of the part of the terminal that scrolls, as `apt` does it, so what the
program prints goes on above it. It is drawn by a process of its own, which is no child of the
program, holds none of its files, and ends with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from retrace.command import console

_EVERY = 0.4
"""Seconds between two looks."""
_LOWEST = 6
"""Lines; of a lower terminal none is taken away."""


def begin(directory: Path, attempt: int) -> None:
    """Draw beside this process, and beside the program that takes its place, until it ends.

    Args:
        directory: of its recording.
        attempt: that it joined there.
    """
    if not hasattr(os, "fork") or not _is_terminal():
        console.say("--live shows nothing here: it needs a terminal on stderr")
        return
    program = os.getpid()
    # Forked twice, so that no `wait` of the program's meets it.
    if child := os.fork():
        os.waitpid(child, 0)
        return
    try:
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.01)
            # The first process of a container is given all orphans: there it would be a child.
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

    os.setsid()  # Ctrl-C is the program's
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    # A pipe of the program's would stay open after its end.
    os.closerange(3, min(os.sysconf("SC_OPEN_MAX"), 1 << 16))
    os.nice(10)
    began = time.time()
    watching = Watching(Following(directory, attempt))
    foot = Foot()
    try:
        while is_running(program, began) and not watching.has_ended(program):
            watching.look()
            if watching.seen.misses:
                foot.show(lambda width: status(watching.seen, width))
            time.sleep(_EVERY)
    finally:
        foot.clear()


class Foot:
    """The last line of a terminal, kept out of what scrolls."""

    def __init__(self, terminal: int = 2) -> None:
        self._terminal = terminal
        self._size: os.terminal_size | None = None
        """Of the terminal whose last line was taken."""

    def show(self, text: Callable[[int], str]) -> None:
        """Draw the line anew, from what `text` makes of the columns that there are."""
        from retrace.present.words import clean

        size = os.get_terminal_size(self._terminal)
        if size.lines < _LOWEST or not self._is_free():
            self.clear()
            return
        drawn = ""
        if size != self._size:
            self.clear()
            # One line down and up again, in the same column: the cursor may stand on the last.
            drawn = f"\x1bD\x1b7\x1b[1;{size.lines - 1}r\x1b8\x1b[1A"
            self._size = size
        said = clean(text(size.columns), None)
        self._write(f"{drawn}\x1b7\x1b[{size.lines};1H\x1b[0m\x1b[2K{said}\x1b8")

    def clear(self) -> None:
        """Give the line back."""
        size, self._size = self._size, None
        if size is not None:
            lines = os.get_terminal_size(self._terminal).lines
            self._write(f"\x1b7\x1b[r\x1b[{lines};1H\x1b[2K\x1b8")

    def _is_free(self) -> bool:
        """Whether the terminal reads lines, as it does for a program that does not draw on it."""
        import termios

        try:
            return bool(termios.tcgetattr(self._terminal)[3] & termios.ICANON)
        except termios.error:
            return False

    def _write(self, text: str) -> None:
        # At once: what the program writes shall not come between.
        os.write(self._terminal, text.encode(errors="replace"))

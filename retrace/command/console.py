"""Writes text to a terminal, a pipe that may close, or a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_MIN_WIDTH = 40
_MAX_WIDTH = 140
"""Columns: longer lines are hard to read."""


def say(text: str) -> None:
    """Print one line to stderr, wrapped between words on a terminal."""
    from retrace.present.words import clean, inert

    try:
        said = f"retrace: {inert(clean(text, None))}"
        if sys.stderr.isatty():
            from retrace.present.layout import wrapped

            said = "\n".join(wrapped(said, _columns(), 9))
        sys.stderr.write(f"{said}\n")
        sys.stderr.flush()
    except (OSError, AttributeError):
        pass  # stderr is closed, or its disk is full


def _columns() -> int:
    """The terminal's width, within limits."""
    from shutil import get_terminal_size

    return max(_MIN_WIDTH, min(get_terminal_size().columns or 80, _MAX_WIDTH))


def here() -> str:
    """The working directory; empty if it no longer exists."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def terminal(stream: Any, output: Path | None = None) -> tuple[int, Any]:
    """The width and the painter for text written to `stream`, or to the file `output`."""
    from retrace.present.layout import colour, plain

    if output is not None or stream is None:
        return 80, plain
    variable = os.environ.get
    is_terminal = stream.isatty()
    width = 80
    if is_terminal or variable("COLUMNS", "").isdecimal():
        width = _columns()
    forced = any(
        variable(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")
    )
    coloured = forced or (is_terminal and variable("TERM") != "dumb")
    return width, colour if coloured and not variable("NO_COLOR") else plain


@contextmanager
def progress(what: str, total: int) -> Generator[Callable[[int], object] | None]:
    """Show a progress bar if stderr is a terminal; yields the function that advances it.

    Args:
        what: the label.
        total: the sum of all steps; no bar is shown if it is 0.
    """
    if not total or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    with _bar(f"retrace: {what}", total) as bar:
        yield bar.update


def _bar(label: str, total: int) -> Any:
    """A progress bar that fits on one line."""
    import typer

    from retrace.present.words import cells

    columns = _columns()
    if cells(label) > columns - 16:
        label = " ".join(label.split()[:2])
    # 11 columns: brackets, spaces and the percentage.
    room = columns - cells(label) - 11
    is_timed = room >= 30
    return typer.progressbar(
        length=total,
        label=label,
        file=sys.stderr,
        show_eta=is_timed,
        width=max(4, min(36, room - (10 if is_timed else 0))),
    )


def silence() -> None:
    """Discard what is left for stdout, which Python would otherwise try to flush at exit."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write(
    text: str | Iterable[str],
    output: Path | None,
    *,
    commands: bool = False,
    force: bool = False,
) -> None:
    """Write text to stdout or a file; raises UsageError if the file cannot be written.

    Args:
        text: what to write, whole or in pieces of complete lines.
        output: the file; None or `-` means stdout.
        commands: let GitHub Actions read workflow commands in the text.
        force: overwrite a file even if it is not a retrace report.
    """
    from retrace.present.words import inert

    pieces = (text,) if isinstance(text, str) else text
    if not commands:
        pieces = map(inert, pieces)
    if output is not None and str(output) != "-":
        from retrace.command import output as files

        files.write(output, pieces, force=force)
        return
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - `>&-`
        return
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="backslashreplace")  # names may not fit the encoding
    try:
        sys.stdout.writelines(pieces)
        sys.stdout.flush()
    except BrokenPipeError:
        silence()  # the reader closed the pipe (`| head`)

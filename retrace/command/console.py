"""Where text goes: a terminal, a pipe that may close, a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NARROWEST = 40
_WIDEST = 140
"""Columns: longer lines are hard to read."""


def say(text: str) -> None:
    """One line on stderr; on a terminal as many as it takes, broken between words."""
    from retrace.present.words import clean, inert

    try:
        said = f"retrace: {inert(clean(text, None))}"
        if sys.stderr.isatty():
            from retrace.present.layout import wrapped

            said = "\n".join(wrapped(said, _columns(), 9))
        sys.stderr.write(f"{said}\n")
        sys.stderr.flush()
    except (BrokenPipeError, AttributeError):
        pass


def _columns() -> int:
    """Columns of the terminal, within reason."""
    from shutil import get_terminal_size

    return max(_NARROWEST, min(get_terminal_size().columns or 80, _WIDEST))


def here() -> str:
    """The working directory; nothing where it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def terminal(stream: Any, output: Path | None = None) -> tuple[int, Any]:
    """Columns and colours of where the text goes."""
    from retrace.present.layout import colour, plain

    if output is not None or stream is None:
        return 80, plain
    asked = os.environ.get
    is_terminal = stream.isatty()
    width = 80
    if is_terminal or asked("COLUMNS", "").isdecimal():
        width = _columns()
    forced = any(asked(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE"))
    coloured = forced or (is_terminal and asked("TERM") != "dumb")
    return width, colour if coloured and not asked("NO_COLOR") else plain


@contextmanager
def progress(what: str, total: int) -> Generator[Callable[[int], object] | None]:
    """A bar on stderr, where that is a terminal; what is to be told of each step.

    Args:
        what: what takes its time.
        total: of all steps together; no bar where it is 0.
    """
    if not total or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    with _bar(f"retrace: {what}", total) as bar:
        yield bar.update


def _bar(label: str, total: int) -> Any:
    """As wide as the terminal lets it be on one line."""
    import typer

    from retrace.present.words import cells

    columns = _columns()
    if cells(label) > columns - 16:
        label = " ".join(label.split()[:2])
    # Brackets and spaces, the share, and the time that is left.
    room = columns - cells(label) - 11
    is_timed = room >= 30
    return typer.progressbar(
        length=total,
        label=label,
        file=sys.stderr,
        show_eta=is_timed,
        width=max(4, min(36, room - (10 if is_timed else 0))),
    )


def write(
    text: str | Iterable[str],
    output: Path | None,
    *,
    commands: bool = False,
    force: bool = False,
) -> None:
    """Text to stdout, or into a file; raises UsageError where that cannot be written.

    Args:
        text: what to write, whole or in pieces of whole lines.
        output: the file; None, or `-`, for stdout.
        commands: whether GitHub is to read commands in it.
        force: also over a file that is no report of ours.
    """
    from retrace.present.words import inert

    pieces = (text,) if isinstance(text, str) else text
    if not commands:
        pieces = map(inert, pieces)
    if output is not None and str(output) != "-":
        from retrace.command import output as files

        files.write(output, pieces, force=force)
        return
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="backslashreplace")  # a name may hold what the encoding does not
    try:
        sys.stdout.writelines(pieces)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (`| head`); at exit Python would try to flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

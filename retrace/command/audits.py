"""`retrace audit`, and what `retrace run --audit` tells the program."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrace.command import console
from retrace.errors import UsageError

if TYPE_CHECKING:
    from retrace.model import Run

_VARIABLE = "RETRACE_AUDIT"
_EVERY = re.compile(r"[1-9]\d{0,8}s?")


def ask(
    *,
    end: bool,
    every: str | None,
    effects: bool,
    seconds: float | None,
    total: float | None,
) -> None:
    """Tell the program, and what it starts, when to make audits.

    Raises:
        UsageError: `every` is neither a number of misses nor of seconds, or a limit is negative.
    """
    if every is not None and not _EVERY.fullmatch(every):
        raise UsageError(
            f"invalid value {every!r} for --audit-every: give a number of misses (100), or of "
            "seconds (30s)"
        )
    limits = {"seconds": seconds, "total": total}
    for name, limit in limits.items():
        if limit is not None and not 0 <= limit < math.inf:
            raise UsageError(
                f"invalid value {limit} for --audit-{name}: give a number of seconds (10)"
            )
    given = [f"{name} {limit}" for name, limit in limits.items() if limit is not None]
    # A limit is a limit of something.
    words = ["end"] if end or effects or (given and every is None) else []
    words += [f"every {every}"] if every is not None else []
    words += ["all"] if effects else []
    words += given
    if words:
        # By the environment, so that it holds for what the program starts as well.
        os.environ[_VARIABLE] = ",".join(words)


def audit(
    which: Annotated[
        str, typer.Argument(metavar="PID|DIR", help="A process that records, or its recording.")
    ],
) -> int:
    """Ask a running program which compiled functions are out of date.

    It traces its functions again at the end of its next miss; `retrace report` shows
    the result.

    Example:  retrace audit 14658
    """
    from retrace.store.place import REQUEST

    found = list(_running(which))
    if not found:
        raise UsageError(_nobody(which))
    for directory, run in found:
        try:
            (directory / f"{run.id}{REQUEST}").touch()
        except OSError as error:
            raise UsageError(f"cannot write in {directory}: {error.strerror}") from error
        console.say(
            f"asked process {run.pid}: it makes an audit at the end of its next miss, and "
            f"`retrace report {directory}` tells what it found"
        )
    return 0


def _running(which: str) -> Iterator[tuple[Path, Run]]:
    """The processes that are meant and run on this host, each with where it records."""
    import socket

    from retrace.store.old import lives
    from retrace.store.place import recordings, written_by
    from retrace.store.processes import headers

    host = socket.gethostname()
    path = Path(which)
    if path.is_dir():
        directories = [path]
    else:
        # It may record into a directory of its own, which the command is not told of.
        theirs = written_by(int(which)) if which.isdecimal() else ()
        by_place = {each.resolve(): each for each in (*theirs, *recordings())}
        directories = list(by_place.values())
    for directory in directories:
        for _, run in headers(directory):
            if not path.is_dir() and str(run.pid) != which:
                continue
            if run.host == host and lives(run.pid):
                yield directory, run


def _nobody(which: str) -> str:
    """That nothing which records is meant, and what to name."""
    from retrace.store.old import lives

    if not which.isdecimal():
        return (
            f"no process that is running records under {which!r}: name its number, or the "
            "directory that it records into"
        )
    if not lives(int(which)):
        return f"no process {which} is running on this host"
    return (
        f"process {which} records nothing that is found from here: name the directory that it "
        "records into, if it does"
    )

"""`retrace audit`, and how `retrace run --audit` configures the program."""

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
    """Configure audits for the program and the processes it starts.

    Raises:
        UsageError: `every` is not a number of misses or seconds, or a limit is negative.
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
    # A limit alone implies an audit at the end.
    words = ["end"] if end or effects or (given and every is None) else []
    words += [f"every {every}"] if every is not None else []
    words += ["all"] if effects else []
    words += given
    if words:
        # Through the environment, so that processes started by the program inherit it.
        os.environ[_VARIABLE] = ",".join(words)


def audit(
    which: Annotated[
        str, typer.Argument(metavar="PID|DIR", help="A recorded process, or its recording.")
    ],
) -> int:
    """Ask a running program which compiled functions are out of date.

    The program traces its functions again at the end of its next miss; `retrace report`
    shows the result.

    Example:  retrace audit 14658
    """
    from retrace.present.words import argument
    from retrace.store.place import REQUEST

    found = list(_running(which))
    if not found:
        raise UsageError(_none_running(which))
    for directory, run in found:
        try:
            (directory / f"{run.id}{REQUEST}").touch()
        except OSError as error:
            raise UsageError(f"cannot write in {directory}: {error.strerror}") from error
        console.say(
            f"asked process {run.pid} for an audit at the end of its next miss: "
            f"`retrace report {argument(str(directory))}` will show the result"
        )
    return 0


def _running(which: str) -> Iterator[tuple[Path, Run]]:
    """The matching processes on this host, each with the directory it records into."""
    import socket

    from retrace.store.place import recordings, written_by
    from retrace.store.processes import headers
    from retrace.store.removal import is_alive

    host = socket.gethostname()
    path = Path(which)
    if path.is_dir():
        directories = [path]
    else:
        # The process may record into a directory outside .retrace/.
        theirs = written_by(int(which)) if which.isdecimal() else ()
        by_place = {each.resolve(): each for each in (*theirs, *recordings())}
        directories = list(by_place.values())
    for directory in directories:
        for _, run in headers(directory):
            if not path.is_dir() and str(run.pid) != which:
                continue
            if run.host == host and is_alive(run.pid):
                yield directory, run


def _none_running(which: str) -> str:
    """The message when no recording process matches."""
    from retrace.store.removal import is_alive

    if not which.isdecimal():
        return (
            f"no running process records under {which!r}: pass a process id, or the directory "
            "it records into"
        )
    if not is_alive(int(which)):
        return f"no process {which} is running on this host"
    return (
        f"found no recording of process {which} from here: if it is recorded, pass the "
        "directory it records into"
    )

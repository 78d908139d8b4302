"""`retrace import`: makes a recording from logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retrace.command import console
from retrace.errors import UsageError


def import_(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="LOG...", help="Logs of JAX, also gzipped; - for stdin."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Where to write (default: a new folder in .retrace/).",
        ),
    ] = None,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Write no values and no paths outside the project."),
    ] = False,
) -> int:
    """Make a recording from the logs of a program that was not recorded.

    The program must have run with JAX_LOG_COMPILES=1, and with JAX_EXPLAIN_CACHE_MISSES=1 to
    show causes. What a log does not show is reported as unknown.

    Example:  retrace import train.log && retrace report
    """
    from retrace.logs.importing import Importer
    from retrace.logs.source import size_of
    from retrace.store.place import create, discard

    if not logs:
        raise UsageError("no log to import: name files, or - for standard input")
    redaction = None
    if redact:
        from retrace.store.redaction import Redaction
        from retrace.store.roots import project_folders

        redaction = Redaction(project_folders(console.here()))
    directory = create(out)
    importer = Importer(directory, redaction)
    try:
        lines = processes = misses = compiled = 0
        for path in logs:
            with console.progress(f"reading {path.name}", size_of(path)) as progress:
                made = importer.take(path, progress)
            if made.broken:
                console.say(f"{made.broken}; everything before that was imported")
            lines, processes = lines + made.lines, processes + made.processes
            misses, compiled = misses + made.misses, compiled + made.compiled
    except BaseException:
        discard(directory)
        raise
    console.say(
        f"{lines:,} lines: {misses:,} misses, {compiled:,} compilations of "
        f"{processes:,} {'process' if processes == 1 else 'processes'} in {directory}"
    )
    return 0

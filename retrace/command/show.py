"""`retrace show`: shows one miss."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from retrace.command import completing, console
from retrace.command.finding import found_in
from retrace.command.options import DONE, Force, Output
from retrace.command.selection import at_last, given, one_of


def show(
    miss: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="An id, its beginning, or a label: 'train_step #3'.",
            autocompletion=completing.misses,
        ),
    ],
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A recording (default: the newest).")
    ] = None,
    program: Annotated[
        bool,
        typer.Option(
            "--program", help="Also show the whole key, and what changed in the program."
        ),
    ] = False,
    format: Annotated[
        str, typer.Option("--format", metavar="text|json", help="Output format.")
    ] = "text",
    output: Output = None,
    force: Force = False,
) -> int:
    """Show one miss: where, why, what changed in its key, what to do.

    Example:  retrace show 'train_step #3'
    """
    from retrace.compare.deep import skip_heavy_imports

    skip_heavy_imports()
    one_of("--format", format, ("text", "json"))
    view, verdict = at_last(found_in(given([directory]), miss))
    if format == "json":
        from retrace.present import report_json

        text = report_json.encode(report_json.show(view, verdict))
    else:
        from retrace.present.miss import show as shown

        width, paint = console.terminal(sys.stdout, output)
        text = shown(view, verdict, width=width, paint=paint, program=program)
        if output is not None:
            text = f"retrace: miss {verdict.miss.id}\n\n{text}"
    console.write(text, output, force=force)
    return DONE

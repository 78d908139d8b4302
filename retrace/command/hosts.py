"""`retrace hosts`: finds where the processes of a job first diverge, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrace.command import console
from retrace.command.selection import given, one_of, total_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retrace.model import Listing

_FORMATS = ("text", "json")


def hosts(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Recordings of one job (default: the newest)."),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="|".join(_FORMATS), help="Output format.")
    ] = "text",
) -> int:
    """Show where the processes of a job diverge, and why; exit 1 if they do.

    Example:  retrace hosts runs/pod-17
    """
    from retrace.hosts.compare import alone, diverge
    from retrace.hosts.trail import Trails
    from retrace.present.hosts import DivergenceReport
    from retrace.store.reader import read_each

    one_of("--format", format, _FORMATS)
    paths = given(directories)
    trails = Trails()
    listings: Mapping[str, Listing] = {}
    with console.progress("reading", total_size(paths)) as progress:
        for part in read_each(paths, progress):
            trails.add(part.runs[0], part.misses)
            listings = part.listings
    found = diverge(trails, listings, any_processes=True) or alone(trails)
    report = DivergenceReport(found, listings, console.here())
    if format == "json":
        from retrace.present import report_json

        text = report_json.encode(report.json())
    else:
        width, paint = console.terminal(sys.stdout)
        text = report.report(width, paint)
    console.write(text, None)
    return 0 if found.equal else 1

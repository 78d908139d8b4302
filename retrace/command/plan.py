"""`retrace plan`: what to change first, and what remains then."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from retrace.command import console
from retrace.command.selection import one_of, read_at_last
from retrace.errors import UsageError

_FORMATS = ("text", "json", "markdown")
_DEFAULT_TOP = 10
"""How many steps are shown as text without `--top`."""


def plan(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Recordings, read as one (default: the newest)."),
    ] = None,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--sizes",
            metavar="[ARG=]FILE[:COLUMN]",
            help="Sizes in the data (one per line, CSV or .npy), to judge padding; repeatable.",
        ),
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="List the calls that compile everything the run used.")
    ] = False,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", help="Only the first N steps (text: 10)."),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="|".join(_FORMATS), help="Output format.")
    ] = "text",
) -> int:
    """Show what to change first, what it saves, and what remains.

    Example:  retrace plan --sizes "batch['ids']=lengths.npy"
    """
    from retrace.plan import data, order
    from retrace.plan.warm import warmth

    one_of("--format", format, _FORMATS)
    if top is not None and top < 1:
        raise UsageError("--top must be at least 1")
    known = data.read(sizes or [])
    view = read_at_last(directories or [])
    found = order.plan(view.recording, view.verdicts, known)
    if unused := known.unused():
        raise UsageError(
            f"--sizes: no size of {unused[0]!r} varies in this recording; "
            "name an argument from the plan, or leave out the name"
        )
    calls = warmth(view.verdicts) if warm else None
    if format == "json":
        from retrace.present import plan_json, report_json
        from retrace.runs.ended import cut_short

        cut = cut_short(view.recording)
        console.write(report_json.encode(plan_json.to_json(found, calls, top, cut)), None)
        return 0
    top = top or _DEFAULT_TOP
    if format == "markdown":
        from retrace.present import plan_markdown

        console.write(plan_markdown.whole(view, found, calls, top), None)
        return 0
    from retrace.present import plan_text

    width, paint = console.terminal(sys.stdout)
    console.write(plan_text.whole(view, found, calls, top, width, paint), None)
    return 0

"""`retrace slow`: where a slow trace and compile spent its time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from retrace.command import compiling, console
from retrace.command.selection import found_miss, one_of, read_at_last
from retrace.errors import UnreadableError

_MAX_OTHERS = 5


def slow(
    miss: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="An id or a label: 'train_step #1' (default: the slowest)."
        ),
    ] = None,
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A recording (default: the newest).")
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Compile it again on its own, to see passes the run did not record."
        ),
    ] = False,
    bisect: Annotated[
        bool,
        typer.Option("--bisect", help="Find its smallest part that is slow on its own."),
    ] = False,
    reproducer: Annotated[
        Path | None,
        typer.Option(
            "--reproducer",
            metavar="FILE",
            help="Write a script that compiles only it; with --bisect, only that part.",
        ),
    ] = None,
    tries: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="FLAGS",
            help="Compile it with and without XLA flags: 'xla_NAME=VALUE'; repeatable.",
        ),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="text|json", help="Output format.")
    ] = "text",
) -> int:
    """Show where a slow trace and compile spent its time.

    Example:  retrace slow 'train_step #1'
    """
    from retrace.costs.account import account, slowest, with_profile
    from retrace.present import report_json, slow_json
    from retrace.present.layout import wrapped
    from retrace.present.slow import whole
    from retrace.present.words import listed, seconds

    one_of("--format", format, ("text", "json"))
    if miss is not None and directory is None and Path(miss).is_dir():
        miss, directory = None, Path(miss)
    view = read_at_last([] if directory is None else [directory])
    found = slowest(view.recording.misses, 0.0)
    if not found:
        raise UnreadableError("no misses were recorded, so none was slow")
    chosen = found[0] if miss is None else found_miss(view, miss).miss
    anew = None
    if again or bisect or reproducer is not None or tries:
        anew = compiling.anew(
            view, chosen, again=again, bisect=bisect, reproducer=reproducer, tries=tries or ()
        )
        chosen = with_profile(chosen, anew)
    costs = account(chosen, view.recording)
    if format == "json":
        console.write(report_json.encode(slow_json.data(view, costs, anew)), None)
        return 0
    width, paint = console.terminal(sys.stdout)
    lines = list(whole(view, costs, width, paint, anew))
    others = [one for one in found if one.id != chosen.id and one.seconds >= chosen.seconds / 5]
    if miss is None and others:
        labels = [f"{view.label(one)} ({seconds(one.seconds)})" for one in others[:_MAX_OTHERS]]
        lines += ["", *wrapped(f"also slow: {listed(labels, _MAX_OTHERS)}", width, 2)]
    console.write("\n".join(lines) + "\n", None)
    return 0

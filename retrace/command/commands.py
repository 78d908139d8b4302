"""Commands about programs and about several recordings, for the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrace.command import console
from retrace.command.selection import found_miss, read_at_last, selected
from retrace.errors import UnreadableError, UsageError

if TYPE_CHECKING:
    from retrace.model import Verdict
    from retrace.present.view import View

DONE = 0

Force = Annotated[
    bool,
    typer.Option("--force", help="Write over FILE even if it is no report of retrace."),
]


def programs(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A recording; the newest otherwise.")
    ] = None,
    function: Annotated[
        str | None, typer.Option("--function", metavar="NAME", help="Only this function.")
    ] = None,
    pprof: Annotated[
        Path | None,
        typer.Option("--pprof", metavar="FILE", help="Write a profile that `pprof` opens."),
    ] = None,
    force: Force = False,
) -> int:
    """Equations per source line of the recorded programs, so that unrolled loops show.

    Example:  retrace programs --function train_step --pprof equations.pb.gz
    """
    from retrace.compare.size import samples, unrolled
    from retrace.present import lines

    view = read_at_last([] if directory is None else [directory])
    listings = view.recording.listings
    found = _texts(view, selected(view, function), nested=function is not None)
    # One at a time: each may have a million equations.
    told = samples(map(listings.__getitem__, found), listings)
    width, _ = console.terminal(sys.stdout)
    if pprof is not None:
        from retrace.command import output
        from retrace.present.pprof import encode

        output.write(pprof, [encode(told, output.PROFILE)], force=force)
    blocks = unrolled(map(listings.__getitem__, found), listings)
    text = lines.table(view, len(found), told, blocks, width)
    console.write(text, None)
    return DONE


def _texts(view: View, verdicts: list[Verdict], *, nested: bool) -> list[str]:
    """The id of each program once; what is part of another one is counted there."""
    listings = view.recording.listings
    found: dict[str, str] = {}
    for verdict in verdicts:
        program, parent = verdict.miss.program, view.enclosing(verdict.miss)
        if program is None or program.listing is None or (parent is not None and not nested):
            continue
        if program.hash not in found and listings.get(program.listing) is not None:
            found[program.hash] = program.listing
    if not verdicts:
        raise UnreadableError("there was no miss, and so no program to count")
    if not found:
        raise UnreadableError("no text of a program was recorded: record again with this retrace")
    return list(found.values())


def diff(
    old: Annotated[
        str | None, typer.Argument(metavar="A", help="A miss (its id), or a recording (DIR).")
    ] = None,
    new: Annotated[str | None, typer.Argument(metavar="B", help="Another of the same.")] = None,
    recording: Annotated[
        Path | None,
        typer.Option("--recording", metavar="DIR", help="Where the ids are; else the newest."),
    ] = None,
) -> int:
    """Hold two misses, or two recordings, against each other; else the last two recordings.

    Examples:  retrace diff;  retrace diff before/ after/;  retrace diff 'step #1' 'step #2'
    """
    width, paint = console.terminal(sys.stdout)
    if old is None:
        from retrace.store.place import recordings

        last = [path for _, path in zip(range(2), recordings(), strict=False)]
        if len(last) < 2:
            raise UsageError("no two recordings under .retrace/: name two directories or two ids")
        old, new = str(last[1]), str(last[0])
    if new is None:
        raise UsageError("name two misses or two recordings, or neither for the last two")
    if os.path.exists(old) and os.path.exists(new):
        from retrace.present.recordings import difference

        text = difference(read_at_last([Path(old)]), read_at_last([Path(new)]), width)
    else:
        from retrace.present.difference import between

        view = read_at_last([] if recording is None else [recording])
        text = between(view, found_miss(view, old), found_miss(view, new), width, paint)
    console.write(text, None)
    return DONE

"""`retrace programs`: counts the equations of recorded programs by source line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrace.command import console
from retrace.command.options import DONE, Force
from retrace.command.selection import read_at_last, selected
from retrace.errors import UnreadableError

if TYPE_CHECKING:
    from retrace.model import Verdict
    from retrace.present.view import View


def programs(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A recording (default: the newest).")
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
    """Count the equations of recorded programs by source line.

    Unrolled loops stand out.

    Example:  retrace programs --function train_step --pprof equations.pb.gz
    """
    from retrace.compare.size import samples, unrolled
    from retrace.present import equations_by_line

    view = read_at_last([] if directory is None else [directory])
    listings = view.recording.listings
    found = _texts(view, selected(view, function), nested=function is not None)
    # Lazily: each program may have a million equations.
    counted = samples(map(listings.__getitem__, found), listings)
    width, _ = console.terminal(sys.stdout)
    if pprof is not None:
        from retrace.command import output
        from retrace.present.pprof import encode

        output.write(pprof, [encode(counted, output.PROFILE)], force=force)
    blocks = unrolled(map(listings.__getitem__, found), listings)
    text = equations_by_line.table(view, len(found), counted, blocks, width)
    console.write(text, None)
    return DONE


def _texts(view: View, verdicts: list[Verdict], *, nested: bool) -> list[str]:
    """The id of each program, once; nested programs are counted as part of the outer one."""
    listings = view.recording.listings
    found: dict[str, str] = {}
    is_written = False
    for verdict in verdicts:
        program, parent = verdict.miss.program, view.enclosing(verdict.miss)
        if program is None or program.listing is None or (parent is not None and not nested):
            continue
        is_written = True
        if program.hash not in found and listings.get(program.listing) is not None:
            found[program.hash] = program.listing
    if not verdicts:
        raise UnreadableError("no misses were recorded, so there is no program to count")
    if not found and is_written:
        raise UnreadableError(
            "the texts of the programs are missing: each recording needs the file that ends in "
            "`.programs` beside it"
        )
    if not found:
        raise UnreadableError(
            "no program was recorded: record again with this release of retrace"
        )
    return list(found.values())

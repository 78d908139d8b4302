"""`retrace export`: writes recordings to Parquet tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrace.command import console, workers
from retrace.command.options import Dask
from retrace.command.selection import given
from retrace.errors import UsageError

if TYPE_CHECKING:
    from retrace.tables.exporting import Made, Work

_MIN_PARALLEL_BYTES = 1 << 24
"""From this size on, several processes pay off."""


def export(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Recordings (default: the newest)."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Directory of the tables.")
    ] = None,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact", help="Leave out values, source lines and paths outside the project."
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", min=1, help="Export N processes in parallel."),
    ] = None,
    dask: Dask = None,
) -> int:
    """Add recordings to Parquet tables, for DuckDB, pandas and polars.

    Adds every attempt in each DIR; a process that was exported before is replaced.

    Example:  retrace export runs/* --to tables && duckdb -c "from 'tables/misses/*.parquet'"
    """
    from retrace.tables import exporting, writing

    if to is None:
        raise UsageError("nowhere to write the tables: pass --to DIR")
    workers.check(jobs, dask)
    writing.require()
    todo = exporting.work(given(directories), to, console.here(), redact=redact)
    writing.check(to)
    runs = misses = 0
    complaints: list[str] = []
    with console.progress("exporting", _size(todo)) as progress:
        for made in _made(todo, jobs, dask):
            if progress is not None:
                progress(_bytes(made.file))
            runs, misses = runs + (made.complaint is None), misses + made.misses
            if made.complaint is not None:
                complaints.append(made.complaint)
    console.say(
        f"{misses:,} misses of {runs:,} {'process' if runs == 1 else 'processes'} in {to}"
    )
    if complaints:
        more = f" (and {len(complaints) - 1:,} more)" if len(complaints) > 1 else ""
        raise UsageError(f"not exported: {complaints[0]}{more}")
    return 0


def _made(todo: list[Work], jobs: int | None, dask: str | None) -> Iterator[Made]:
    from retrace.tables import exporting

    if dask is None:
        if jobs is None:
            jobs = exporting.processors() if _size(todo) > _MIN_PARALLEL_BYTES else 1
        jobs = min(jobs, len(todo))
        if jobs <= 1:
            yield from exporting.here_alone(todo)
            return
    else:  # absolute paths: the workers run in other folders
        todo = [
            one._replace(file=one.file.absolute(), target=one.target.absolute()) for one in todo
        ]
    with workers.workers(jobs, dask) as found:
        yield from exporting.side_by_side(todo, found.executor)


def _size(todo: list[Work]) -> int:
    return sum(_bytes(one.file) for one in todo)


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it has gone, which the reader will report
        return 0

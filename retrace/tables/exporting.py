"""Exports recordings to tables, one process at a time or several in parallel."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import NamedTuple

from retrace.errors import RetraceError, UnreadableError
from retrace.model import Run
from retrace.tables import rows, writing


class Work(NamedTuple):
    """One file of a recording to export."""

    file: Path
    target: Path
    here: str
    """The directory relative to which places are shown."""
    roots: tuple[str, ...] | None
    """If it is to be redacted, the folders whose paths are kept."""
    key: bytes | None = None
    """The key for redaction: the same for all, so that equal programs stay equal."""
    origin: str | None = None
    """The address it was copied from."""


class Made(NamedTuple):
    """The result for one file."""

    file: Path
    misses: int = 0
    complaint: str | None = None


def work(paths: Sequence[Path], target: Path, here: str, *, redact: bool) -> list[Work]:
    """The files to export: every attempt of each recording, each process once.

    Raises:
        UnreadableError: a path contains no recording.
    """
    from retrace.store.processes import files_of, header_of
    from retrace.store.reader import not_found
    from retrace.store.remote import origin_of
    from retrace.store.roots import project_folders

    roots, key = (tuple(project_folders(here)), os.urandom(32)) if redact else (None, None)
    found: dict[Path, Work] = {}
    runs: set[str] = set()
    for path in paths:
        files = list(files_of(path))
        if not files:
            raise UnreadableError(not_found(path))
        for file in files:
            run: Run | None = header_of(file)
            if file.resolve() in found or (run is not None and run.id in runs):
                continue
            if run is not None:
                runs.add(run.id)
            found[file.resolve()] = Work(file, target, here, roots, key, origin_of(file))
    return list(found.values())


def export(one: Work) -> Made:
    """Export one process. Also runs in worker processes."""
    from retrace.present.view import View
    from retrace.reason.verdict import judge
    from retrace.store.reader import read_each
    from retrace.store.remote import local_copy

    misses = 0
    try:
        with local_copy(one.file, one.origin) as file:
            for part in read_each([file]):
                if one.roots is not None:
                    from retrace.store.redaction import Redaction

                    part = Redaction(one.roots, one.key).recording(part)
                verdicts = judge(part)
                view = View(part, verdicts, one.here)
                (run,) = part.runs
                misses += len(verdicts)
                tables = {
                    "runs": [rows.run_row(run, len(verdicts))],
                    "misses": rows.miss_rows(view, verdicts),
                    "changes": rows.change_rows(verdicts),
                    "programs": rows.program_rows(verdicts),
                    "cache": rows.cache_rows(verdicts),
                }
                writing.write(one.target, run.id, tables)
    except RetraceError as error:
        return Made(one.file, misses, str(error))
    return Made(one.file, misses)


def here_alone(todo: Sequence[Work]) -> Iterator[Made]:
    """Export one after the other, in this process."""
    return map(export, todo)


def side_by_side(todo: Sequence[Work], workers: Executor) -> Iterator[Made]:
    """Export in parallel; yields results as they are ready."""
    for future in as_completed([workers.submit(export, one) for one in todo]):
        yield future.result()


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not available on every system
        return os.cpu_count() or 1

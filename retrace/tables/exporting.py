"""Recordings into tables: one process after the other, or several side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import NamedTuple

from retrace.errors import RetraceError
from retrace.model import Run
from retrace.tables import rows, writing


class Work(NamedTuple):
    """One file of a recording to put into tables."""

    file: Path
    target: Path
    here: str
    """The directory beneath which places are written relative to it."""
    roots: tuple[str, ...] | None
    """The folders whose paths may be told, where it is to be redacted."""
    key: bytes | None = None
    """Under which it is: one for all, so that equal programs stay equal."""
    origin: str | None = None
    """The address from which it was copied."""


class Made(NamedTuple):
    """What became of a file."""

    file: Path
    misses: int = 0
    complaint: str | None = None


def work(paths: Sequence[Path], target: Path, here: str, *, redact: bool) -> list[Work]:
    """What there is to do: every attempt of each recording, and each process once.

    Raises:
        UnreadableError: a path holds no recording.
    """
    from retrace.store.processes import files_of, header_of
    from retrace.store.remote import origin_of
    from retrace.store.roots import project_folders

    roots, key = (tuple(project_folders(here)), os.urandom(32)) if redact else (None, None)
    found: dict[Path, Work] = {}
    runs: set[str] = set()
    for path in paths:
        for file in files_of(path):
            run: Run | None = header_of(file)
            if file.resolve() in found or (run is not None and run.id in runs):
                continue
            if run is not None:
                runs.add(run.id)
            found[file.resolve()] = Work(file, target, here, roots, key, origin_of(file))
    return list(found.values())


def export(one: Work) -> Made:
    """Put one process into the tables. Runs in other processes, too."""
    from retrace.present.view import View
    from retrace.reason.verdict import judge
    from retrace.store.reader import read_each
    from retrace.store.remote import at_hand

    misses = 0
    try:
        with at_hand(one.file, one.origin) as file:
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
    """One after the other, in this process."""
    return map(export, todo)


def side_by_side(todo: Sequence[Work], workers: Executor) -> Iterator[Made]:
    """Several at a time, by whoever works; in the order in which they end."""
    for future in as_completed([workers.submit(export, one) for one in todo]):
        yield future.result()


def processors() -> int:
    """How many this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1

"""Recordings into tables: one process at a time, or several side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from retrace.errors import RetraceError, UsageError
from retrace.model import Run
from retrace.tables import rows, writing

_PATIENCE = 10
"""Seconds to wait for a cluster."""


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
            found[file.resolve()] = Work(file, target, here, roots, key)
    return list(found.values())


def export(one: Work) -> Made:
    """Put one process into the tables. Runs in a process of its own, too."""
    from retrace.present.view import View
    from retrace.reason.verdict import judge
    from retrace.store.reader import read_each

    misses = 0
    try:
        for part in read_each([one.file]):
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


def by_processes(todo: Sequence[Work], jobs: int) -> Iterator[Made]:
    """So many at a time, each in a process of its own; in the order in which they end.

    Raises:
        UsageError: one of them was killed.
    """
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Spawned: pyarrow has threads, which a fork would not survive.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(export, one) for one in todo]):
            try:
                yield future.result()
            except BrokenProcessPool:
                raise UsageError(
                    "a process of the export was killed, perhaps since memory ran out: "
                    f"pass fewer than --jobs {jobs}"
                ) from None


def by_dask(todo: Sequence[Work], address: str) -> Iterator[Made]:
    """On a cluster of Dask's, whose workers see the same files.

    Raises:
        UsageError: Dask is not installed, or there is no cluster at the address.
    """
    try:
        dask: Any = import_module("dask.distributed")
    except ImportError as error:
        raise UsageError(
            f"--dask needs Dask, which is not here ({error}): "
            "install it with `pip install 'retrace-jax[dask]'`"
        ) from None
    try:
        client = dask.Client(address, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"no Dask cluster at {address}: {reason}") from None
    with client:
        absolute = [
            one._replace(file=one.file.absolute(), target=one.target.absolute()) for one in todo
        ]
        for future in dask.as_completed(client.map(export, absolute, pure=False)):
            yield future.result()


def processors() -> int:
    """How many this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1

"""Explains the processes of a recording in parallel, here or on a cluster.

Judging misses takes most of the time, and each process can be judged by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from retrace.command.workers import Workers
from retrace.errors import UnreadableError
from retrace.model import Audit, Miss, Recording, Run, Verdict
from retrace.store.redaction import Redaction

_FILES_PER_WORKER = 2
"""How many files per worker are submitted ahead; few, so that finished results take little
memory."""


class _Explained(NamedTuple):
    """The result for one file; it can be sent between processes."""

    run: Run
    misses: list[Miss]
    audits: list[Audit]
    verdicts: list[Verdict]


def explained(
    paths: Sequence[Path],
    attempt: int | None,
    workers: Workers,
    progress: Callable[[int], object] | None,
    redaction: Redaction | None = None,
) -> Iterator[tuple[Recording, list[Verdict]]]:
    """The recording and the verdicts of each process, in the order of `read_each`.

    Args:
        paths: as for `store.reader.read`.
        attempt: as for `store.reader.read`.
        workers: run the tasks.
        progress: called with the number of bytes read since the last call.
        redaction: removes confidential parts, if given.

    Raises:
        UnreadableError: a path contains no recording.
    """
    from retrace.store.programs import SUFFIX, Library
    from retrace.store.reader import leave_out, read_each, read_one
    from retrace.store.remote import origin_of

    library = Library()
    listings = library if redaction is None else redaction.listings(library)
    runs: dict[str, Run] = {}
    todo = deque(_files(paths, attempt))
    waiting: deque[tuple[Path, Path, Future[_Explained | None]]] = deque()
    read: set[Path] = set()
    """Paths with at least one readable process."""
    try:
        while todo or waiting:
            while todo and len(waiting) < _FILES_PER_WORKER * workers.number:
                path, file = todo.popleft()
                # Absolute: a worker of a cluster runs in another folder.
                future = workers.executor.submit(
                    _explain, file.absolute(), origin_of(file), redaction
                )
                waiting.append((path, file, future))
            path, file, future = waiting.popleft()
            try:
                found = future.result()
            except UnreadableError as error:
                if workers.address is None:
                    raise
                read_one(file)  # raises if it cannot be read here either
                raise UnreadableError(
                    f"{error} (for a worker of the cluster at {workers.address}): "
                    "name recordings that all workers can read"
                ) from None
            if progress is not None:
                progress(_size(file))
            if found is None:
                continue
            read.add(path)
            if (other := runs.get(found.run.id)) is not None:
                leave_out(other)
                continue
            runs[found.run.id] = found.run
            library.add_file(file.with_suffix(SUFFIX), found.run)
            yield Recording([found.run], found.misses, listings, found.audits), found.verdicts
    finally:
        for _, _, future in waiting:
            future.cancel()
    for path in paths:
        if path not in read:
            next(read_each([path], attempt=attempt))  # raises: there is nothing to read


def _files(paths: Sequence[Path], attempt: int | None) -> Iterator[tuple[Path, Path]]:
    from retrace.store.processes import files_of

    seen: set[Path] = set()
    for path in paths:
        for file in files_of(path, attempt):
            if (known := file.resolve()) not in seen:
                seen.add(known)
                yield path, file


def _size(file: Path) -> int:
    from retrace.store.segments import size

    try:
        return size(file)
    except OSError:  # it has gone, which the reader will report
        return 0


def _explain(file: Path, origin: str | None, redaction: Redaction | None) -> _Explained | None:
    """Explain one file, in a worker; None if it is not a recording."""
    from retrace.reason.verdict import judge
    from retrace.store.reader import read_one
    from retrace.store.remote import local_copy

    with local_copy(file, origin) as found:
        if (part := read_one(found)) is None:
            return None
        if redaction is not None:
            part = redaction.recording(part)
        return _Explained(part.runs[0], part.misses, list(part.audits), judge(part))

"""The processes of a recording explained side by side, here or on a cluster.

What takes the time is to judge: a process is judged by itself, so that several can be at once.
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

_AHEAD = 2
"""So many files for each worker are given out before the first of them is taken in, so that
what is ready and waits takes little memory."""


class _Explained(NamedTuple):
    """One file; nothing in it belongs to the process that read it."""

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
    """The recording of each process, with its verdicts, in the order of `read_each`.

    Args:
        paths: as for `store.reader.read`.
        attempt: as there.
        workers: who explains.
        progress: told how many more bytes were read.
        redaction: what takes out of it what shall not be given away.

    Raises:
        UnreadableError: a path holds no recording.
    """
    from retrace.store.programs import SUFFIX, Library
    from retrace.store.reader import leave_out, read_each, read_one
    from retrace.store.remote import origin_of

    library = Library()
    listings = library if redaction is None else redaction.listings(library)
    runs: dict[str, Run] = {}
    todo = deque(_files(paths, attempt))
    waiting: deque[tuple[Path, Path, Future[_Explained | None]]] = deque()
    told: set[Path] = set()
    """Paths of which something was read."""
    try:
        while todo or waiting:
            while todo and len(waiting) < _AHEAD * workers.number:
                path, file = todo.popleft()
                # A worker of a cluster is in another folder.
                asked = workers.executor.submit(
                    _explain, file.absolute(), origin_of(file), redaction
                )
                waiting.append((path, file, asked))
            path, file, future = waiting.popleft()
            try:
                found = future.result()
            except UnreadableError as error:
                if workers.address is None:
                    raise
                read_one(file)  # complains of what cannot be read here either
                raise UnreadableError(
                    f"{error} (for a worker of the cluster at {workers.address}): "
                    "name recordings where all workers see them"
                ) from None
            if progress is not None:
                progress(_size(file))
            if found is None:
                continue
            told.add(path)
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
        if path not in told:
            next(read_each([path], attempt=attempt))  # complains where there is nothing to read


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
    except OSError:  # gone meanwhile, which the reading tells
        return 0


def _explain(file: Path, origin: str | None, redaction: Redaction | None) -> _Explained | None:
    """Runs in another process; None where the file is no recording."""
    from retrace.reason.verdict import judge
    from retrace.store.reader import read_one
    from retrace.store.remote import at_hand

    with at_hand(file, origin) as found:
        if (part := read_one(found)) is None:
            return None
        if redaction is not None:
            part = redaction.recording(part)
        return _Explained(part.runs[0], part.misses, list(part.audits), judge(part))

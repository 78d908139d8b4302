"""The processes of a recording explained side by side, each in a process of its own.

What takes the time is to judge: a process is judged by itself, so that several can be at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from retrace.errors import UnreadableError, UsageError
from retrace.model import Audit, Miss, Recording, Run, Verdict

_AHEAD = 2
"""So many files for each process are given out before the first of them is taken in, so that
what is ready and waits takes little memory."""


class _Explained(NamedTuple):
    """One file; nothing in it belongs to the process that read it."""

    run: Run
    misses: list[Miss]
    audits: list[Audit]
    verdicts: list[Verdict]
    file: Path


def explained(
    paths: Sequence[Path],
    attempt: int | None,
    jobs: int,
    progress: Callable[[int], object] | None,
) -> Iterator[tuple[Recording, list[Verdict]]]:
    """The recording of each process, with its verdicts, in the order of `read_each`.

    Args:
        paths: as for `store.reader.read`.
        attempt: as there.
        jobs: so many processes at a time.
        progress: told how many more bytes were read.

    Raises:
        UnreadableError: a path holds no recording.
        UsageError: one of the processes was killed.
    """
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    from retrace.store.programs import SUFFIX, Library
    from retrace.store.reader import leave_out, read_each

    library = Library()
    runs: dict[str, Run] = {}
    todo = deque(_files(paths, attempt))
    waiting: deque[tuple[Path, int, Future[_Explained | None]]] = deque()
    told: set[Path] = set()
    """Paths of which something was read."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            while todo or waiting:
                while todo and len(waiting) < _AHEAD * jobs:
                    path, file = todo.popleft()
                    waiting.append((path, _size(file), pool.submit(_explain, file)))
                path, size, future = waiting.popleft()
                found = future.result()
                if progress is not None:
                    progress(size)
                if found is None:
                    continue
                told.add(path)
                if (other := runs.get(found.run.id)) is not None:
                    leave_out(other)
                    continue
                runs[found.run.id] = found.run
                library.add_file(found.file.with_suffix(SUFFIX), found.run)
                yield (
                    Recording([found.run], found.misses, library, found.audits),
                    found.verdicts,
                )
        except BrokenProcessPool:
            raise UsageError(
                "a process that explained was killed, perhaps since memory ran out: "
                f"pass fewer than --jobs {jobs}"
            ) from None
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


def _explain(file: Path) -> _Explained | None:
    """Runs in a process of its own; None where the file is no recording."""
    from retrace.reason.verdict import judge
    from retrace.store.reader import read_each

    try:
        (part,) = read_each([file])
    except UnreadableError:
        return None
    verdicts = judge(part)
    return _Explained(part.runs[0], part.misses, list(part.audits), verdicts, file)

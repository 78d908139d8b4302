"""The lines of a file, none longer than a recording's may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from retrace.store.files import opened
from retrace.store.schema import LONGEST_LINE
from retrace.store.segments import all_of

_STEP = 1 << 20
_TOLD = 1 << 18
"""Maximum number of bytes handed over at once."""
_ENDLESS = 1 << 28
"""Reading stops at a line of this many bytes: a sparse file may hold nothing else."""


def lines(file: IO[bytes]) -> Iterator[tuple[bytes | None, int]]:
    """Each line with its end, None for one that is too long, and how many bytes it has."""
    while data := file.readline(LONGEST_LINE + 1):
        size = len(data)
        if size <= LONGEST_LINE or data.endswith(b"\n"):
            yield data, size
            continue
        while data and not data.endswith(b"\n") and size < _ENDLESS:
            data = file.readline(_STEP)
            size += len(data)
        yield None, size
        if size >= _ENDLESS:
            return


def texts(
    path: Path, progress: Callable[[int], object] | None = None
) -> Iterator[tuple[str | None, int, bool]]:
    """The lines of a file and of the segments that it goes on in.

    Args:
        path: of the first segment.
        progress: told how many more bytes were read.

    Yields:
        Each line, None for one that is no text or too long; its size in bytes; whether its
        end is torn.

    Raises:
        OSError: one of the files cannot be read.
    """
    read = 0
    for segment in all_of(path):
        with opened(segment) as file:
            for data, size in lines(file):
                read += size
                if progress is not None and read >= _TOLD:
                    progress(read)
                    read = 0
                torn = data is not None and not data.endswith(b"\n")
                try:
                    yield None if data is None else data.decode(), size, torn
                except UnicodeDecodeError:
                    yield None, size, torn
    if progress is not None:
        progress(read)

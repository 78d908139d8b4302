"""Read the lines of a file, up to the maximum length of a recording's line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from retrace.store.files import opened
from retrace.store.schema import MAX_LINE_BYTES
from retrace.store.segments import all_of

_CHUNK = 1 << 20
_REPORT_BYTES = 1 << 18
"""Progress is reported each time this many bytes were read."""
_ENDLESS = 1 << 28
"""Reading stops at a line of this many bytes: a sparse file may contain nothing else."""


def lines(file: IO[bytes]) -> Iterator[tuple[bytes | None, int]]:
    """Yield each line with its line end (None if it is too long) and its size in bytes."""
    while data := file.readline(MAX_LINE_BYTES + 1):
        size = len(data)
        if size <= MAX_LINE_BYTES or data.endswith(b"\n"):
            yield data, size
            continue
        while data and not data.endswith(b"\n") and size < _ENDLESS:
            data = file.readline(_CHUNK)
            size += len(data)
        yield None, size
        if size >= _ENDLESS:
            return


def texts(
    path: Path, progress: Callable[[int], object] | None = None
) -> Iterator[tuple[str | None, int, bool]]:
    """Yield the lines of a file and of its later segments.

    Args:
        path: the first segment.
        progress: called with the number of bytes read since the last call.

    Yields:
        Each line (None if it is not text or too long), its size in bytes, and whether its line
        end is missing.

    Raises:
        OSError: one of the files cannot be read.
    """
    read = 0
    for segment in all_of(path):
        with opened(segment) as file:
            for data, size in lines(file):
                read += size
                if progress is not None and read >= _REPORT_BYTES:
                    progress(read)
                    read = 0
                torn = data is not None and not data.endswith(b"\n")
                try:
                    yield None if data is None else data.decode(), size, torn
                except UnicodeDecodeError:
                    yield None, size, torn
    if progress is not None:
        progress(read)

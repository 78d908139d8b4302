"""The lines of a file, none longer than a recording's may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from retrace.store.schema import LONGEST_LINE

_STEP = 1 << 20
_ENDLESS = 1 << 28
"""Bytes; a line of so many ends the reading: a sparse file may have no other."""


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

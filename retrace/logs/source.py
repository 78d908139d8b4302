"""Reads the lines of a log from a file, a gzipped file, or standard input."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from retrace.errors import UnreadableError
from retrace.store import files

MAX_LINE = 1 << 22
"""Longer lines, in bytes, are skipped. A program with 10,000 arguments takes 400,000."""

HEAD = 1 << 16
_STEP = 1 << 20


@contextmanager
def opened(path: Path) -> Generator[IO[bytes]]:
    """Open a log, unpacking it if needed; raises UnreadableError if it cannot be read."""
    try:
        with _raw(path) as raw:
            if raw.peek(2)[:2] == b"\x1f\x8b":  # type: ignore[attr-defined]
                with gzip.open(raw) as unpacked:
                    yield cast(IO[bytes], unpacked)
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnreadableError(f"cannot unpack {named(path)}: {error}") from error
    except OSError as error:
        raise UnreadableError(f"cannot read {named(path)}: {files.reason(error)}") from error


def _raw(path: Path) -> IO[bytes]:
    if str(path) == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=_STEP)
    if (number := files.descriptor_of(path)) is not None:
        return os.fdopen(os.dup(number), "rb", buffering=_STEP)
    return files.opened(path)


def named(path: Path) -> str:
    """The name of a log in messages."""
    return "standard input" if str(path) == "-" else str(path)


def size_of(path: Path) -> int:
    """The size of the file in bytes; 0 if unknown."""
    try:
        return path.stat().st_size if str(path) != "-" else 0
    except OSError:
        return 0


def lines(
    file: IO[bytes], progress: Callable[[int], object] | None = None
) -> Iterator[str | None]:
    """Each line without its end; None for one that is too long."""
    # Decode and split whole blocks: reading line by line takes twice as long.
    rest, skipping = b"", False
    # `read1` returns the data before the damage in a damaged file.
    some = getattr(file, "read1", file.read)
    while block := some(_STEP):
        if progress is not None:
            progress(len(block))
        whole, end, begun = block.rpartition(b"\n")
        if end:
            first, *others = (rest + whole).decode(errors="replace").split("\n")
            yield None if skipping or len(first) > MAX_LINE else first
            yield from others
            rest, skipping = begun, False
        else:
            rest += block
        if len(rest) > MAX_LINE:
            rest, skipping = b"", True
    if skipping:
        yield None
    elif rest:
        yield rest.decode(errors="replace")

"""The lines of a log: a file, a compressed one, or standard input."""

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

LONGEST = 1 << 22
"""Bytes; of a longer line nothing is read. A program of 10,000 arguments takes 400,000."""

HEAD = 1 << 16
_STEP = 1 << 20


@contextmanager
def opened(path: Path) -> Generator[IO[bytes]]:
    """The content of a log, unpacked; raises UnreadableError where it cannot be read."""
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
    """How a message names a log."""
    return "standard input" if str(path) == "-" else str(path)


def size_of(path: Path) -> int:
    """Bytes of a file as it lies there; 0 where that is not known."""
    try:
        return path.stat().st_size if str(path) != "-" else 0
    except OSError:
        return 0


def lines(
    file: IO[bytes], progress: Callable[[int], object] | None = None
) -> Iterator[str | None]:
    """Each line without its end; None for one that is too long."""
    # Whole blocks are decoded and split: to ask for each line takes twice as long.
    rest, skipping = b"", False
    # What a damaged file has before the damage comes in a read of its own.
    some = getattr(file, "read1", file.read)
    while block := some(_STEP):
        if progress is not None:
            progress(len(block))
        whole, end, begun = block.rpartition(b"\n")
        if end:
            first, *others = (rest + whole).decode(errors="replace").split("\n")
            yield None if skipping or len(first) > LONGEST else first
            yield from others
            rest, skipping = begun, False
        else:
            rest += block
        if len(rest) > LONGEST:
            rest, skipping = b"", True
    if skipping:
        yield None
    elif rest:
        yield rest.decode(errors="replace")

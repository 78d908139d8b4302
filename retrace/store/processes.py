"""The files of a recording, one for each process: which ones a path names, and their headers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from retrace.errors import UnreadableError
from retrace.model import Run
from retrace.store import files
from retrace.store.decoded import NONSENSE
from retrace.store.header import decode_run
from retrace.store.place import inside, recording_files
from retrace.store.remote import local
from retrace.store.schema import MAX_LINE_BYTES, check_items
from retrace.store.segments import first_of, firsts

_MAX_HEADER_BYTES = 1 << 20


def headers(directory: Path) -> Iterator[tuple[Path, Run]]:
    """Yield the files in a directory, each with its process as described by the first line."""
    for path in firsts(recording_files(directory)):
        try:
            with files.opened(path) as file:
                yield path, decode_run(json.loads(file.readline(MAX_LINE_BYTES))["run"])
        except (OSError, RecursionError, *NONSENSE):
            continue


def files_of(path: Path, attempt: int | None = 0) -> list[Path]:
    """Return the files of a recording that a path names, one for each process.

    Of a file in several segments, it is the first one. Raises UnreadableError if the path is
    neither a directory nor a file.

    Args:
        path: a directory, or a single file.
        attempt: the attempt in the directory; 0 for all, None for the newest.
    """
    path = local(path)
    try:
        if path.is_dir():
            found = firsts(file for file in path.glob("*.jsonl") if file.is_file())
            if not found:
                return [file for inner in inside(path) for file in files_of(inner, attempt)]
            if attempt == 0:
                return found
            numbers = {file: _attempt(file) for file in found}
            last = attempt or max(filter(None, numbers.values()), default=None)
            # A file without an attempt is damaged; leaving it out would hide that.
            return [file for file in found if numbers[file] in (last, None)]
        what = files.kind(path.stat().st_mode)
    except OSError as error:
        raise UnreadableError(
            f"cannot read {path}: {files.reason(error)}; name the directory of a recording"
        ) from error
    if what is not None:
        raise UnreadableError(f"{path} is {what}: name the directory of a recording")
    return [first_of(path)]


def attempts_in(path: Path) -> int:
    """How many attempts the files of a directory name, at least one."""
    return max(1, len(attempts_of(path)))


def attempts_of(path: Path) -> list[int]:
    """The numbers of the attempts that the files of a directory name, in order."""
    path = local(path)
    found = [_attempt(file) for file in files_of(path)] if path.is_dir() else []
    return sorted({number for number in found if number is not None})


def _attempt(file: Path) -> int | None:
    """The attempt named in the header of a file; None if it cannot be read."""
    run = header_of(file)
    return None if run is None else run.attempt


def header_of(file: Path) -> Run | None:
    """The process as described by the first line of a file; None if it cannot be read."""
    try:
        with file.open("rb") as opened:
            text = opened.readline(_MAX_HEADER_BYTES).decode()
        check_items(text)
        return decode_run(json.loads(text)["run"])
    except (OSError, RecursionError, *NONSENSE):
        return None

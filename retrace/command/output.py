"""Files that somebody asks us to write: nothing of theirs is lost by it."""

from __future__ import annotations

import re
import stat
import zlib
from collections.abc import Iterable
from pathlib import Path

from retrace.errors import UsageError
from retrace.store import files
from retrace.store.place import HEADER, holds_recording
from retrace.store.programs import BEGINNING, SUFFIX

PROFILE = "equations of recorded programs, by retrace"
"""The comment in a profile."""

_HEAD = 4096
_MOST_UNPACKED = 1 << 24
_OURS = re.compile(
    rb"""\s*(?:
    retrace:\ (?:[\d,]+\ (?:of\ [\d,]+\ )?(?:miss|program)|no\ (?:such\ )?miss|miss\ )
    | \#\ retrace
    | \{\s*"schema":\s*"retrace-
    | \{\s*"\$schema":[^\0]{0,300}?\{"name":\s*"retrace"
    | ::(?:warning|notice|error)\ [^\n]{0,4000}?title=retrace
    | <!doctype\ html>[^\0]{0,2000}<meta\ name="generator"\ content="retrace">
    )""",
    re.VERBOSE,
)
_RECORDING = (HEADER.encode(), BEGINNING.encode())


def write(path: Path, pieces: Iterable[str | bytes], *, force: bool = False) -> None:
    """Write a file, whole or not at all.

    Args:
        path: of the file; a pipe or a terminal is written to as it is.
        pieces: what to write.
        force: also over what is no report of ours; never over a recording.

    Raises:
        UsageError: the file is not to be overwritten, or cannot be written.
    """
    try:
        if files.descriptor_of(path) is None:
            _check(path, force)
        files.write(path, pieces)
    except BrokenPipeError:
        return  # its reader has seen enough
    except OSError as error:
        said = files.reason(error)
        raise UsageError(f"cannot write to {path}: {said}; name another file") from None


def _check(path: Path, force: bool) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        return
    head = b""
    try:
        with files.opened(path) as file:
            head = file.read(_HEAD)
    except PermissionError:
        pass
    if head.lstrip().startswith(_RECORDING) or (
        path.suffix in (".jsonl", SUFFIX) and holds_recording(path.absolute().parent)
    ):
        raise UsageError(f"{path} is a file of a recording: name another file")
    if not force and not _OURS.match(head) and not _is_profile(path, head):
        raise UsageError(
            f"{path} exists and is not a retrace report: name another file, or pass --force"
        )


def _is_profile(path: Path, head: bytes) -> bool:
    if not head.startswith(b"\x1f\x8b"):
        return False
    unpacking = zlib.decompressobj(31)
    try:
        found = unpacking.decompress(files.content(path, _MOST_UNPACKED), _MOST_UNPACKED)
    except (zlib.error, files.NotRegularError):
        return False
    return PROFILE.encode() in found

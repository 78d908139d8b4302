"""Writes output files without destroying anything of the user's."""

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
"""The comment in a pprof profile, by which we recognise our own."""

_HEAD_BYTES = 4096
_MAX_UNPACKED = 1 << 24
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
    """Write a file, completely or not at all.

    Args:
        path: the file; pipes and terminals are written to directly.
        pieces: what to write.
        force: overwrite a file even if it is not a retrace report; never a recording.

    Raises:
        UsageError: the file must not be overwritten, or cannot be written.
    """
    try:
        if files.descriptor_of(path) is None:
            _check(path, force)
        files.write(path, pieces)
    except BrokenPipeError:
        return  # the reader has closed the pipe
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
            head = file.read(_HEAD_BYTES)
    except PermissionError:
        pass
    if head.lstrip().startswith(_RECORDING) or (
        path.suffix in (".jsonl", SUFFIX) and holds_recording(path.absolute().parent)
    ):
        raise UsageError(f"{path} belongs to a recording: name another file")
    if not force and not _OURS.match(head) and not _is_profile(path, head):
        raise UsageError(
            f"{path} exists and is not a retrace report: name another file, or pass --force"
        )


def _is_profile(path: Path, head: bytes) -> bool:
    if not head.startswith(b"\x1f\x8b"):
        return False
    unpacking = zlib.decompressobj(31)
    try:
        found = unpacking.decompress(files.content(path, _MAX_UNPACKED), _MAX_UNPACKED)
    except (zlib.error, files.NotRegularError):
        return False
    return PROFILE.encode() in found

"""Opens and replaces files at paths given by users: one rule for all of them.

Such a path may lead anywhere: to a pipe that waits for its writer, to an endless device, to a
link in a world-writable folder. Only regular files are opened for reading.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

from retrace.regex import regex

MAX_SETTINGS_BYTES = 1 << 22
"""Maximum size of a hand-written file, such as pyproject.toml or a baseline."""

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _FLAGS
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK | _FLAGS
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_DESCRIPTOR = regex(r"/(?:dev|proc/self)/fd/(\d{1,6})")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}


class NotRegularError(OSError):
    """The path is not a regular file, or the file is too large to be the right one."""


def reason(error: OSError) -> str:
    """Why a file could not be used, in lower case, to follow a colon."""
    text = error.strerror or type(error).__name__
    return text if isinstance(error, NotRegularError) else text.lower()


def kind(mode: int) -> str | None:
    """What something is if it is not a regular file: `a pipe`."""
    if stat.S_ISREG(mode):
        return None
    return next((name for is_, name in _KINDS if is_(mode)), "something else")


def opened(path: Path) -> IO[bytes]:
    """Open a regular file for reading; raises OSError, and never waits."""
    # Check before opening: opening a pipe wakes its writer, and a device may react.
    _check(path, os.stat(path).st_mode)
    descriptor = os.open(path, _READ_FLAGS)
    try:
        _check(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def content(path: Path, most: int = MAX_SETTINGS_BYTES) -> bytes:
    """Read a regular file.

    Raises:
        OSError: it cannot be opened, or has more than `most` bytes. It is a FileNotFoundError
            only if nothing has this name, not even a link.
    """
    try:
        with opened(path) as file:
            # The size of files in /proc is unknown before they are read.
            data = file.read(most + 1)
    except FileNotFoundError:
        if os.path.islink(path):
            message = "it is a link to a file that does not exist"
            raise NotRegularError(errno.EINVAL, message, str(path)) from None
        raise
    if len(data) > most:
        message = f"it has more than {most >> 20:,} MiB"
        raise NotRegularError(errno.EFBIG, message, str(path))
    return data


def _check(path: Path, mode: int) -> None:
    if (what := kind(mode)) is not None:
        raise NotRegularError(errno.EINVAL, f"it is {what}, not a file", str(path))


def descriptor_of(path: Path) -> int | None:
    """The open descriptor that a path such as /dev/stdout names; None for any other path."""
    text = str(path)
    if os.name != "posix":
        return None
    if (named := _DESCRIPTOR.fullmatch(text)) is not None:
        return int(named[1])
    return _STANDARD.get(text)


def write(path: Path, pieces: Iterable[str | bytes]) -> None:
    """Write a file atomically: it holds either all of the text or its previous contents.

    Links are followed and permissions kept. If the path is not a regular file (a pipe, a
    terminal), the pieces are written directly. Raises OSError.
    """
    encoded = (_bytes(piece) for piece in pieces)
    if (number := descriptor_of(path)) is not None:
        # Opening it by name would overwrite it from the beginning.
        with os.fdopen(os.dup(number), "wb") as file:
            file.writelines(encoded)
        return
    target = Path(os.path.realpath(path))
    try:
        status = os.stat(target)
    except FileNotFoundError:
        status = None
    if status is None:
        _replace(target, encoded, None)
        return
    if stat.S_ISBLK(status.st_mode):
        raise NotRegularError(errno.EINVAL, "it is a device, not a file", str(path))
    # Replacing it would break its other hard links, or change its owner.
    own = status.st_nlink == 1 and getattr(os, "geteuid", lambda: 0)() == status.st_uid
    if stat.S_ISREG(status.st_mode) and own and os.access(target.parent, os.W_OK | os.X_OK):
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        _replace(target, encoded, stat.S_IMODE(status.st_mode))
    else:
        with target.open("wb") as file:
            file.writelines(encoded)


def _replace(target: Path, pieces: Iterable[bytes], mode: int | None) -> None:
    beside = target.with_name(f".retrace-{os.urandom(6).hex()}")
    # `O_EXCL`: in a world-writable folder, nobody can have placed a link there.
    descriptor = os.open(beside, _CREATE_FLAGS, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            file.writelines(pieces)
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _bytes(piece: str | bytes) -> bytes:
    return piece if isinstance(piece, bytes) else piece.encode(errors="backslashreplace")


def is_shared(folder: Path) -> bool:
    """Whether a folder is world-writable, like /tmp."""
    if os.name != "posix":  # elsewhere the mode means nothing
        return False
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:
        return False


def is_foreign(status: os.stat_result) -> bool:
    """Whether something belongs to another user (root excepted)."""
    get_user = getattr(os, "geteuid", None)
    return get_user is not None and status.st_uid not in (0, get_user())

"""Where the lines of a recording go: a file or memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

from retrace.store import segments
from retrace.store.files import NO_LINK, is_shared

_BINARY = getattr(os, "O_BINARY", 0)  # otherwise Windows changes line ends
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_LINK | getattr(os, "O_CLOEXEC", 0) | _BINARY
_CLOSED = -1
_NONE = (0, 0)
_FULL = segments.MAX_BYTES - (1 << 20)
"""Size at which a file continues in another one; few lines exceed the remaining space."""


class Memory:
    """Keeps the lines in a list."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def open(self) -> bool:
        """Return True before the first line."""
        return not self.lines

    def write(self, line: str) -> None:
        """Keep a line, or several."""
        self.lines += line.split("\n")

    def close(self) -> None:
        """Do nothing: the lines stay."""


class Nothing:
    """Discards all lines."""

    def open(self) -> bool:
        """Return False: no header is needed."""
        return False

    def write(self, line: str) -> None:
        """Discard a line."""

    def close(self) -> None:
        """Do nothing."""


class File:
    """Appends to a file with one system call each time, so a kill tears at most one line."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._descriptor = _CLOSED
        self._identity = _NONE
        self._torn = False
        self._size = 0

    def open(self) -> bool:
        """Open the file; return True if it is new or empty. Raises OSError."""
        self.close()
        # In a world-writable folder, only the user may read the program's values.
        mode = 0o600 if is_shared(self.path.parent) else 0o666
        descriptor = _above_standard(os.open(self.path, _FLAGS, mode))
        status = os.fstat(descriptor)
        self._identity = (status.st_dev, status.st_ino)
        # The file may end with an incomplete line.
        self._torn = status.st_size > 0
        self._size = status.st_size
        self._descriptor = descriptor
        return status.st_size == 0

    def write(self, line: str) -> None:
        """Append one line. Raises OSError, also if the file was removed."""
        # After a program closes all descriptors (as daemons do), this number may belong to one
        # of its own files or sockets.
        if not self._is_open():
            self._open_again()
        descriptor = self._descriptor
        data = f"\n{line}\n".encode() if self._torn else f"{line}\n".encode()
        if _is_beyond_limit(self._size + len(data)):
            # The signal that goes with it would end a program that has its default action.
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self.path))
        self._torn = True
        written = os.write(descriptor, data)
        while written < len(data):  # full disk: the next call raises the reason
            written += os.write(descriptor, data[written:])
        self._torn = False
        self._size += written

    def turn(self, finish: Callable[[], None] | None = None) -> bool:
        """Close a full segment, so that `open` starts the next one; return whether it did.

        Args:
            finish: called before, to write what still belongs to the full segment.
        """
        if self._size < _FULL:
            return False
        if finish is not None:
            finish()
        self.close()
        self.path, self._size = segments.after(self.path), 0
        return True

    def close(self) -> None:
        """Close the descriptor if it is still this file's."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        try:
            if self._is_ours(descriptor, removed=True):
                os.close(descriptor)
        except OSError:
            pass
        self._identity = _NONE

    def _is_ours(self, descriptor: int, removed: bool = False) -> bool:
        status = os.fstat(descriptor)
        return (status.st_dev, status.st_ino) == self._identity and (
            removed or status.st_nlink > 0
        )

    def _is_open(self) -> bool:
        try:
            return self._is_ours(self._descriptor)
        except OSError:
            return False

    def _open_again(self) -> None:
        """Go on under another descriptor, if the file is still there. Raises OSError."""
        identity = self._identity
        self._descriptor = _CLOSED
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != identity:
            raise FileNotFoundError(errno.ENOENT, "the recording was removed", str(self.path))
        self.open()


def _is_beyond_limit(size: int) -> bool:
    """Whether the process may not write files of this many bytes (`ulimit -f`)."""
    if resource is None:
        return False
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return most != resource.RLIM_INFINITY and size > most


def _above_standard(descriptor: int) -> int:
    """The file under a number that no standard stream has.

    A daemon closes those and opens others, which must get the numbers.
    """
    if descriptor > 2:
        return descriptor
    try:
        import fcntl
    except ImportError:  # Windows
        return descriptor
    above = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return above


class Pages(File):
    """A file of independent lines, which continues in the next segment automatically."""

    def write(self, line: str) -> None:
        """Append one line, to the next segment if this one is full. Raises OSError."""
        if self.turn():
            self.open()
        super().write(line)

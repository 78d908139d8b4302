"""Where the lines of a recording go: a file, or memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from retrace.store import segments
from retrace.store.files import NO_LINK, is_shared

_BINARY = getattr(os, "O_BINARY", 0)  # Windows would write other ends of lines
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_LINK | getattr(os, "O_CLOEXEC", 0) | _BINARY
_CLOSED = -1
_FULL = segments.LONGEST - (1 << 20)
"""Bytes after which a file goes on in another one: few lines are longer than what is left."""


class Memory:
    """Keeps the lines in a list."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def open(self) -> bool:
        """True before the first line."""
        return not self.lines

    def write(self, line: str) -> None:
        """Keep a line, or several."""
        self.lines += line.split("\n")

    def close(self) -> None:
        """Nothing: the lines stay."""


class Nothing:
    """Keeps no line."""

    def open(self) -> bool:
        """False: there is no need of a header."""
        return False

    def write(self, line: str) -> None:
        """Let go of a line."""

    def close(self) -> None:
        """Nothing was taken."""


class File:
    """Appends each line to a file with one system call, so that a kill loses one at most."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._descriptor = _CLOSED
        self._identity = (0, 0)
        self._torn = False
        self._size = 0

    def open(self) -> bool:
        """True where the file is new or empty. Raises OSError."""
        self.close()
        # Where everybody may make files, what the program's values are is its user's alone.
        mode = 0o600 if is_shared(self.path.parent) else 0o666
        descriptor = os.open(self.path, _FLAGS, mode)
        status = os.fstat(descriptor)
        self._identity = (status.st_dev, status.st_ino)
        # What is there may end in half a line of an earlier attempt.
        self._torn = status.st_size > 0
        self._size = status.st_size
        self._descriptor = descriptor
        return status.st_size == 0

    def write(self, line: str) -> None:
        """Append one line. Raises OSError, also where the file was removed."""
        descriptor = self._descriptor
        # A program that closes all descriptors (a daemon does) may have been given
        # this number again, for a file or a socket of its own.
        if not self._is_ours(descriptor):
            raise FileNotFoundError(errno.ENOENT, "the recording was removed", str(self.path))
        data = f"\n{line}\n".encode() if self._torn else f"{line}\n".encode()
        self._torn = True
        written = os.write(descriptor, data)
        while written < len(data):  # a full disk: the next attempt tells why
            written += os.write(descriptor, data[written:])
        self._torn = False
        self._size += written

    def turn(self) -> bool:
        """Close a segment that is full, so that `open` begins the next one; whether it did."""
        if self._size < _FULL:
            return False
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

    def _is_ours(self, descriptor: int, removed: bool = False) -> bool:
        status = os.fstat(descriptor)
        return (status.st_dev, status.st_ino) == self._identity and (
            removed or status.st_nlink > 0
        )


class Pages(File):
    """A file of lines that can be read alone, which goes on in the next segment by itself."""

    def write(self, line: str) -> None:
        """Append one line, to the next segment where this one is full. Raises OSError."""
        if self.turn():
            self.open()
        super().write(line)

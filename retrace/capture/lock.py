"""Locks around tables that the program's threads share, with a GIL or without.

They are held for a few steps that run no code of the user's, so that no thread waits for one
longer than that. The thread that holds one may enter again: the end of an object, or a signal,
comes at any step. A forked child finds them free.
"""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType


class Lock:
    """A lock for `with`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Be free, whoever held it: a thread that this process does not have."""
        self._lock = threading.RLock()


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in _locks:
        lock.renew()


if hasattr(os, "register_at_fork"):  # not where nothing forks
    os.register_at_fork(after_in_child=_renew_all)


class Count:
    """Numbers from a first one on, each given once."""

    def __init__(self, first: int = 0) -> None:
        self._lock = Lock()
        self._next = first

    def __call__(self) -> int:
        with self._lock:
            number = self._next
            self._next = number + 1
        return number

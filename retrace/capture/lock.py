"""Locks around tables that the program's threads share, with a GIL or without.

They are held for a few steps that run no code of the user's, so that no thread waits for one
longer than that. The thread that holds one may enter again: the end of an object, or a signal,
comes at any step. A forked child finds them free.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def make() -> threading.RLock:  # pyright: ignore[reportInvalidTypeForm, reportUnknownParameterType]
    """A lock for `with`."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _renew() -> None:
    # Whoever held one may be a thread that this process does not have. The standard library's
    # own locks are renewed in this way.
    for lock in _locks:
        lock._at_fork_reinit()  # noqa: SLF001


if hasattr(os, "register_at_fork"):  # not where nothing forks
    os.register_at_fork(after_in_child=_renew)


class Count:
    """Numbers from a first one on, each given once."""

    def __init__(self, first: int = 0) -> None:
        self._lock = make()
        self._next = first

    @property
    def given(self) -> int:
        """The next number, which has not been given yet."""
        return self._next

    def __call__(self) -> int:
        with self._lock:
            number = self._next
            self._next = number + 1
        return number

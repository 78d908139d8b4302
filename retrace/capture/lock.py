"""Locks around tables that the program's threads share, with a GIL or without.

They are held only for a few steps that run no user code, so no thread waits for one for long.
They are reentrant, because an object's finalizer or a signal handler can run at any step. In a
forked child all of them are free.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def make() -> threading.RLock:  # pyright: ignore[reportInvalidTypeForm, reportUnknownParameterType]
    """Return a new lock, to be used in a `with` statement."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _renew() -> None:
    # The holder may be a thread that does not exist in the child. The standard library renews
    # its own locks in the same way.
    for lock in _locks:
        lock._at_fork_reinit()  # noqa: SLF001


if hasattr(os, "register_at_fork"):  # absent on platforms without fork
    os.register_at_fork(after_in_child=_renew)


class Count:
    """Hands out consecutive numbers, each of them once."""

    def __init__(self, first: int = 0) -> None:
        self._lock = make()
        self._next = first

    @property
    def given(self) -> int:
        """The next number to be handed out."""
        return self._next

    def __call__(self) -> int:
        with self._lock:
            number = self._next
            self._next = number + 1
        return number

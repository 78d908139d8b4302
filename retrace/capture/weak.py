"""A table of facts about objects, which does not keep the objects alive.

An entry is removed after its object has died, but not in a Python callback: an exception raised
there by a signal handler, such as Ctrl-C, is printed and lost, and the program would continue as
if it had not been pressed. Instead, C code alone puts dead entries into a queue, and they are
removed at a later call.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from retrace.capture import lock

_Known = TypeVar("_Known")

_MAX_DEAD = 16
"""Dead entries are removed in batches: this code is cold, and faster from the second entry on."""


class _Reference(weakref.ref[Any]):
    # A closure per entry would be four times as large.
    __slots__ = ("key", "value")

    key: int
    value: Any


class ByObject(Generic[_Known]):
    """A table keyed by object identity."""

    def __init__(self, forgotten: Callable[[_Known], object] | None = None) -> None:
        """`forgotten` is called later with the value of each object that died."""
        self._forgotten = forgotten
        self._entries: dict[int, _Reference] = {}
        self._dead: deque[Any] = deque()
        self._lock = lock.make()

    def __len__(self) -> int:
        """Number of live objects in the table."""
        self.forget_dead()
        return len(self._entries)

    def get(self, thing: Any) -> _Known | None:
        """Return the value of an object, or None."""
        entry = self._entries.get(id(thing))
        return entry.value if entry is not None and entry() is thing else None

    def of(self, thing: Any, make: Callable[[], _Known]) -> _Known:
        """Return the value of an object; for a new object, the value is made first.

        Raises:
            TypeError: the object does not support weak references.
        """
        key = id(thing)
        entry = self._entries.get(key)
        if entry is not None and entry() is thing:
            return entry.value
        if len(self._dead) >= _MAX_DEAD:
            self.forget_dead()
        with self._lock:
            # Another thread may have added it in the meantime.
            entry = self._entries.get(key)
            if entry is not None and entry() is thing:
                return entry.value
            value = make()
            reference = _Reference(thing, self._dead.append)
            reference.key, reference.value = key, value
            self._entries[key] = reference
        return value

    def put(self, thing: Any, value: _Known) -> bool:
        """Set the value of an object.

        Returns:
            True if the object was new; only one of several threads gets True.

        Raises:
            TypeError: the object does not support weak references.
        """
        reference = _Reference(thing, self._dead.append)
        reference.key, reference.value = id(thing), value
        if len(self._dead) >= _MAX_DEAD:
            self.forget_dead()
        with self._lock:
            entry = self._entries.get(reference.key)
            is_first = entry is None or entry() is not thing
            self._entries[reference.key] = reference
        return is_first

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._dead.clear()

    def forget_dead(self) -> None:
        """Remove the entries of dead objects."""
        while self._dead:
            with self._lock:
                try:
                    reference = self._dead.popleft()
                except IndexError:  # another thread was first
                    break
                # The address may belong to another object by now.
                if self._entries.get(reference.key) is reference:
                    del self._entries[reference.key]
            if self._forgotten is not None:
                self._forgotten(reference.value)

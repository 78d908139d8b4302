"""Which miss an object of JAX's belongs to: a jaxpr, a lowering."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from retrace.capture import lock


class _Reference(weakref.ref[Any]):
    # A closure for each would be four times as large.
    __slots__ = ("key", "number")

    key: int
    number: int


class Numbers:
    """Numbers of misses by objects, which it does not keep alive."""

    def __init__(self) -> None:
        self._entries: dict[int, _Reference] = {}
        self._dead: deque[Any] = deque()
        """What died is put there by C alone: a signal's handler that ran in a callback of ours
        would raise into nothing, and the program would not be interrupted."""
        self._lock = lock.make()

    def __len__(self) -> int:
        """How many objects it knows; the dead are none of them."""
        with self._lock:
            self._forget_dead()
            return len(self._entries)

    def put(self, thing: Any, number: int) -> bool:
        """The object belongs to this miss; of what takes no weak reference nothing is kept.

        Returns:
            Whether it belonged to none before: of several threads one is told so.
        """
        try:
            reference = _Reference(thing, self._dead.append)
        except TypeError:
            return True
        reference.key, reference.number = id(thing), number
        with self._lock:
            self._forget_dead()
            is_first = self.get(thing) is None
            self._entries[reference.key] = reference
        return is_first

    def get(self, thing: Any) -> int | None:
        """The number of its miss."""
        entry = self._entries.get(id(thing))
        return entry.number if entry is not None and entry() is thing else None

    def _forget_dead(self) -> None:
        while self._dead:
            reference = self._dead.popleft()
            # The address may belong to another object by now.
            if self._entries.get(reference.key) is reference:
                del self._entries[reference.key]

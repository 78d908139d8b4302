"""What is known of an object as long as it lives, without keeping it alive.

An entry goes when its object has died, but not in a callback of Python's: what a signal handler
raises in one, such as Ctrl-C, is printed and lost, so that the program would go on as if nobody
had pressed it. What has died is put into a queue by C alone, and taken out of the table when
something is asked of it next.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from retrace.capture import lock

_Known = TypeVar("_Known")

_MAX_DEAD = 16
"""So many are taken out at once: cold code, which is quick at the second one."""


class _Reference(weakref.ref[Any]):
    # A closure for each would be four times as large.
    __slots__ = ("key", "value")

    key: int
    value: Any


class ByObject(Generic[_Known]):
    """A table by object, told apart by identity."""

    def __init__(self, forgotten: Callable[[_Known], object] | None = None) -> None:
        """`forgotten` is told later what was known of each object that died."""
        self._forgotten = forgotten
        self._entries: dict[int, _Reference] = {}
        self._dead: deque[Any] = deque()
        self._lock = lock.make()

    def __len__(self) -> int:
        """How many objects it knows; the dead are none of them."""
        self.forget_dead()
        return len(self._entries)

    def get(self, thing: Any) -> _Known | None:
        """What is known of an object."""
        entry = self._entries.get(id(thing))
        return entry.value if entry is not None and entry() is thing else None

    def of(self, thing: Any, make: Callable[[], _Known]) -> _Known:
        """What is known of an object; of a new one, what is made for it.

        Raises:
            TypeError: it takes no weak reference.
        """
        entry = self._entries.get(id(thing))
        if entry is not None and entry() is thing:
            return entry.value
        if len(self._dead) >= _MAX_DEAD:
            self.forget_dead()
        with self._lock:
            # Another thread may have met it meanwhile.
            entry = self._entries.get(id(thing))
            if entry is not None and entry() is thing:
                return entry.value
            value = make()
            reference = _Reference(thing, self._dead.append)
            reference.key, reference.value = id(thing), value
            self._entries[reference.key] = reference
        return value

    def put(self, thing: Any, value: _Known) -> bool:
        """This is known of an object from here on.

        Returns:
            Whether nothing was known of it before: of several threads one is told so.

        Raises:
            TypeError: it takes no weak reference.
        """
        reference = _Reference(thing, self._dead.append)
        reference.key, reference.value = id(thing), value
        if len(self._dead) >= _MAX_DEAD:
            self.forget_dead()
        with self._lock:
            is_first = self.get(thing) is None
            self._entries[reference.key] = reference
        return is_first

    def clear(self) -> None:
        """Know nothing any more."""
        with self._lock:
            self._entries.clear()
            self._dead.clear()

    def forget_dead(self) -> None:
        """Take out what has died."""
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

"""Which miss an object of JAX's belongs to: a jaxpr, a lowering."""

from __future__ import annotations

import weakref
from typing import Any


class _Reference(weakref.ref[Any]):
    # A closure for each would be four times as large.
    __slots__ = ("key", "number")

    key: int
    number: int


class Numbers:
    """Numbers of misses by objects, which it does not keep alive."""

    def __init__(self) -> None:
        self._entries: dict[int, _Reference] = {}

    def put(self, thing: Any, number: int) -> None:
        """The object belongs to this miss; of what takes no weak reference nothing is kept."""
        try:
            reference = _Reference(thing, self._forget)
        except TypeError:
            return
        reference.key, reference.number = id(thing), number
        self._entries[reference.key] = reference

    def get(self, thing: Any) -> int | None:
        """The number of its miss."""
        entry = self._entries.get(id(thing))
        return entry.number if entry is not None and entry() is thing else None

    def _forget(self, reference: Any) -> None:
        # The address may belong to another object by now.
        if self._entries.get(reference.key) is reference:
            del self._entries[reference.key]

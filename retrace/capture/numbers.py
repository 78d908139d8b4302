"""Which miss an object of JAX's belongs to: a jaxpr, a lowering."""

from __future__ import annotations

import weakref
from typing import Any


class Numbers:
    """Numbers of misses by objects, which it does not keep alive."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], int]] = {}

    def put(self, thing: Any, number: int) -> None:
        """The object belongs to this miss; of what takes no weak reference nothing is kept."""
        key = id(thing)
        entries = self._entries
        try:
            entries[key] = (weakref.ref(thing, lambda _: entries.pop(key, None)), number)
        except TypeError:
            return

    def get(self, thing: Any) -> int | None:
        """The number of its miss."""
        entry = self._entries.get(id(thing))
        return entry[1] if entry is not None and entry[0]() is thing else None

"""Which miss a JAX object, a jaxpr or a lowering, belongs to."""

from __future__ import annotations

from typing import Any

from retrace.capture.weak import ByObject


class Numbers:
    """Numbers of misses by object. It does not keep the objects alive."""

    def __init__(self) -> None:
        self._known: ByObject[int] = ByObject()

    def __len__(self) -> int:
        """Number of live objects in the table."""
        return len(self._known)

    def put(self, thing: Any, number: int) -> bool:
        """Record that an object belongs to a miss.

        Objects that do not support weak references are not stored.

        Returns:
            True if it belonged to no miss before; only one of several threads gets True.
        """
        try:
            return self._known.put(thing, number)
        except TypeError:
            return True

    def get(self, thing: Any) -> int | None:
        """Return the number of the object's miss."""
        return self._known.get(thing)

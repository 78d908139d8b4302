"""Which miss an object of JAX's belongs to: a jaxpr, a lowering."""

from __future__ import annotations

from typing import Any

from retrace.capture.weak import ByObject


class Numbers:
    """Numbers of misses by objects, which it does not keep alive."""

    def __init__(self) -> None:
        self._known: ByObject[int] = ByObject()

    def __len__(self) -> int:
        """How many objects it knows; the dead are none of them."""
        return len(self._known)

    def put(self, thing: Any, number: int) -> bool:
        """The object belongs to this miss; of what takes no weak reference nothing is kept.

        Returns:
            Whether it belonged to none before: of several threads one is told so.
        """
        try:
            return self._known.put(thing, number)
        except TypeError:
            return True

    def get(self, thing: Any) -> int | None:
        """The number of its miss."""
        return self._known.get(thing)

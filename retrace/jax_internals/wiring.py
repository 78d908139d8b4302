"""Check whether JAX still calls retrace's hooks.

`jax.monitoring.clear_event_listeners` is public, and JAX's own test helpers restore the
slot and the trace function that they found: after that, recording stops silently.
A check takes microseconds and runs no stage of JAX.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from retrace.jax_internals import names_hooks as at
from retrace.jax_internals.row import Row, resolve

PROBE = "retrace_probe"
"""Not one of JAX's test events, so other listeners ignore it."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.heard: object = None


class Wiring:
    """The hooks of one installation."""

    def __init__(self) -> None:
        self._thread = _Thread()
        self._listeners: list[tuple[Row, Callable[..., None]]] = []
        self._places: list[tuple[Any, str, Any]] = []
        self._slot: Callable[..., None] | None = None
        self._installation: object = None

    def listens(self, row: Row, listener: Callable[..., None]) -> None:
        """Note that a listener was registered; the row names the list it is in."""
        self._listeners.append((row, listener))

    def stands(self, row: Row) -> None:
        """Note that the current value of this name was installed."""
        owner = resolve(row.where)
        self._places.append((owner, row.name, getattr(owner, row.name)))

    def hears(self, slot: Callable[..., None], installation: object) -> None:
        """Note that `slot` was installed in JAX's slot for test events."""
        self._slot, self._installation = slot, installation

    def clear(self) -> None:
        """Note that all hooks were removed."""
        self._listeners.clear()
        self._places.clear()
        self._slot = self._installation = None

    def is_probe(self, name: str, installation: object) -> bool:
        """Whether a test event is the probe of this installation; if so, note that it arrived."""
        if name != PROBE or installation is not self._installation:
            return False
        self._thread.heard = installation
        return True

    def cut(self) -> list[str]:
        """What JAX no longer calls, each as the start of a sentence."""
        found: list[str] = []
        for row, listener in self._listeners:
            listeners = row.look()
            if listeners is not None and listener not in listeners:
                found.append("retrace's listeners were removed from jax.monitoring")
                break
        if any(_is_restored(*place) for place in self._places):
            found.append("JAX's trace function was put back over retrace's")
        if self._slot is not None and not self._is_heard():
            found.append("JAX's test event slot was taken from retrace")
        return found

    def _is_heard(self) -> bool:
        if at.TEST_SLOT.value() is self._slot:
            return True
        # Another listener may forward events, as retrace's does.
        self._thread.heard = None
        if (listener := at.TEST_SLOT.value()) is not None:
            listener(PROBE)
        return self._thread.heard is self._installation


def _is_restored(owner: Any, name: str, ours: Any) -> bool:
    """Whether JAX's own function was restored; what another wrapper calls is unknown."""
    value: Any = getattr(owner, name, None)
    return value is None or value is ours.__wrapped__

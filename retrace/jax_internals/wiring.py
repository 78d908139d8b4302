"""Whether what we put into JAX is still what JAX calls.

`jax.monitoring.clear_event_listeners` is public, and JAX's own test helpers put back the
slot and the trace function that they found: after that, nothing is recorded any more and
nothing fails. Asking costs microseconds and runs no stage of JAX.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jax._src import monitoring, util

_PROBE = "retrace_probe"
"""Not one of JAX's test events: whoever else listens does not know it."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.heard: object = None


class Wiring:
    """The places of one installation."""

    def __init__(self) -> None:
        self._thread = _Thread()
        self._listeners: list[tuple[str, Callable[..., None]]] = []
        self._places: list[tuple[Any, str, Any]] = []
        self._slot: Callable[..., None] | None = None
        self._installation: object = None

    def listens(self, kind: str, listener: Callable[..., None]) -> None:
        """A listener was registered."""
        self._listeners.append((kind, listener))

    def stands(self, owner: Any, name: str) -> None:
        """What has this name now was put there."""
        self._places.append((owner, name, getattr(owner, name)))

    def hears(self, slot: Callable[..., None], installation: object) -> None:
        """This was put into JAX's slot for test events."""
        self._slot, self._installation = slot, installation

    def clear(self) -> None:
        """All of it was taken out again."""
        self._listeners.clear()
        self._places.clear()
        self._slot = self._installation = None

    def is_probe(self, name: str, installation: object) -> bool:
        """Whether a test event is our own question, which is hereby answered."""
        if name != _PROBE or installation is not self._installation:
            return False
        self._thread.heard = installation
        return True

    def cut(self) -> list[str]:
        """What JAX no longer calls, each as the beginning of a sentence."""
        found: list[str] = []
        for kind, listener in self._listeners:
            listeners = listeners_of(monitoring, kind)
            if listeners is not None and listener not in listeners:
                found.append("retrace's listeners were removed from jax.monitoring")
                break
        if any(_is_restored(*place) for place in self._places):
            found.append("JAX's trace function was put back over retrace's")
        if self._slot is not None and not self._is_heard():
            found.append("JAX's test event slot was taken from retrace")
        return found

    def _is_heard(self) -> bool:
        if util.test_event_listener is self._slot:
            return True
        # Another listener may pass on what it is told, as ours does.
        self._thread.heard = None
        if (listener := util.test_event_listener) is not None:
            listener(_PROBE)
        return self._thread.heard is self._installation


def _is_restored(owner: Any, name: str, ours: Any) -> bool:
    """Whether JAX's own function stands there again; what a foreign wrapper calls is not seen."""
    value: Any = getattr(owner, name, None)
    return value is None or value is ours.__wrapped__


def listeners_of(monitoring: Any, kind: str) -> list[Any] | None:
    """The registered listeners of a kind; None where this JAX keeps them elsewhere."""
    for name in (f"_{kind}s", f"_{kind.replace('duration', 'duration_secs')}s"):
        if (listeners := getattr(monitoring, name, None)) is not None:
            return listeners
    return None

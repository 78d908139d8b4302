"""Profile a compilation with JAX's profiler, to get XLA's passes and kernels.

The session does not go through `jax.profiler`, so a program that profiles itself is not
affected: retrace's session ends before the program's begins. It writes no file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from retrace.failure import contain, ignore
from retrace.jax_internals import names_slow as at
from retrace.jax_internals.row import resolve

_TRACER_LEVEL = 3
"""Level of the host tracer that includes all passes."""

_lock = threading.RLock()


class Profile:
    """The profile of this process; at most one runs at a time."""

    def __init__(self) -> None:
        self._session: Any = None
        self._undo: list[Callable[[], None]] = []

    def begin(self) -> str | None:
        """Start the profile.

        Returns:
            None if it runs, else why not. `jax`: this JAX lacks what is needed; `server`: a
            profiler server is running, whose captures would fail meanwhile; `other`: another
            thread of the program is compiling under the profile.
        """
        if not at.SESSION.expected:
            return "jax"
        make, options = at.SESSION.look(), at.SESSION_OPTIONS.look()
        if make is None or options is None:
            return "jax"
        if at.SERVER.value() is not None:
            return "server"
        if not _lock.acquire(blocking=False):
            return "other"
        try:
            if self._session is not None:
                return "other"
            wanted = options()
            wanted.python_tracer_level = 0
            wanted.host_tracer_level = _TRACER_LEVEL
            wanted.enable_hlo_proto = False
            # If the program profiles itself, this session stays idle and says so at its end.
            self._session = contain(ignore, make, wanted)
            if self._session is None:
                return "jax"
            self._give_way()
            return None
        finally:
            _lock.release()

    def end(self) -> bytes | None:
        """End the profile and return its data; None if the program profiles itself."""
        with _lock:
            session, self._session = self._session, None
            for undo in self._undo:
                undo()
            self._undo.clear()
            if session is None:
                return None
            return contain(ignore, session.stop)

    def forked(self) -> None:
        """Reset in a forked child, where no profile runs."""
        global _lock
        _lock = threading.RLock()
        self._session = None
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _give_way(self) -> None:
        """End this session when the program starts a profile or a profiler server."""
        for row in (at.SESSION, at.START_SERVER):
            owner, name, original = resolve(row.where), row.name, row.look()
            if original is None:
                continue

            def begin(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
                contain(ignore, self.end)
                return _original(*args, **kwargs)

            setattr(owner, name, begin)

            def undo(owner: Any = owner, name: str = name, was: Any = original) -> None:
                setattr(owner, name, was)

            self._undo.append(undo)

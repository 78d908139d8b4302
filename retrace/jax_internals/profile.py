"""XLA's own account of a compilation: its passes and kernels, by JAX's profiler.

The session is made beside `jax.profiler`, so that a program which profiles itself finds the
profiler as it left it: ours is ended before one of its own begins. It writes no file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from retrace.failure import contain, ignore
from retrace.jax_internals import names_slow as at
from retrace.jax_internals.row import resolve

_LEVEL = 3
"""Of the host's tracer: all passes."""

_lock = threading.RLock()


class Profile:
    """At most one profile of ours at a time, of this process."""

    def __init__(self) -> None:
        self._session: Any = None
        self._undo: list[Callable[[], None]] = []

    def begin(self) -> str | None:
        """Begin to profile; why not, where that cannot be.

        Returns:
            None where it runs; `jax`: this JAX lacks what is needed; `server`: a server may be
            asked for a profile at any moment, and could then not give one; `other`: another
            thread of the program's compiles under profile.
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
            wanted.host_tracer_level = _LEVEL
            wanted.enable_hlo_proto = False
            # Where the program profiles itself this one stays idle, and says so at its end.
            self._session = contain(ignore, make, wanted)
            if self._session is None:
                return "jax"
            self._give_way()
            return None
        finally:
            _lock.release()

    def end(self) -> bytes | None:
        """What was seen; None where the program profiles itself."""
        with _lock:
            session, self._session = self._session, None
            for undo in self._undo:
                undo()
            self._undo.clear()
            if session is None:
                return None
            return contain(ignore, session.stop)

    def forked(self) -> None:
        """This is a child now, in which no profile runs."""
        global _lock
        _lock = threading.RLock()
        self._session = None
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _give_way(self) -> None:
        """End ours where the program begins a profile, or a server that may be asked for one."""
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

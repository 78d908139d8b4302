"""The wrapper of JAX's cached trace function."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from retrace.jax_internals.names_hooks import HIDE_IN_TRACEBACKS

if TYPE_CHECKING:
    from retrace.jax_internals.hooks import Hooks

if (_hide := HIDE_IN_TRACEBACKS.get()) is not None:
    _hide(__file__)


class Trace:
    """One look-up in JAX's tracing cache, and its result."""

    __slots__ = (
        "ahead",
        "body",
        "cached",
        "caller",
        "frame",
        "function",
        "given",
        "misses",
        "number",
        "raised",
        "result",
        "started",
    )

    def __init__(self, function: object, caller: FrameType, given: tuple[Any, ...]) -> None:
        self.function = function
        self.given: tuple[Any, ...] | None = given
        self.caller: FrameType | None = caller
        self.started: float | None = None
        self.frame = 0
        """The id of the JAX frame that traces, while it is alive."""
        self.cached: Any = None
        self.misses = 0
        """Misses of the cache before this look-up, if JAX has not yet reported any trace."""
        self.number: int | None = None
        """The number of its miss, set by the observer; None if it is not a separate miss."""
        self.ahead = False
        """Whether a lowering may never follow."""
        self.body = False
        """Whether this is an eager operation's body: lowered as another program, if at all."""
        self.result: Any = None
        self.raised: BaseException | None = None


class TraceProxy:
    """Wraps JAX's cached trace function, and forwards all other attributes to it."""

    def __init__(self, cached: Any, hooks: Hooks, installation: object) -> None:
        self.__wrapped__ = cached
        self._hooks = hooks
        self._installation = installation

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._hooks.is_current(self._installation):
            return self.__wrapped__(*args, **kwargs)
        trace = self._hooks.enter_trace(
            (*args, *kwargs.values()), sys._getframe(1), self.__wrapped__
        )
        if trace is None:
            return self.__wrapped__(*args, **kwargs)
        try:
            trace.result = result = self.__wrapped__(*args, **kwargs)
            return result
        except BaseException as error:
            trace.raised = error
            leave(error)
            raise
        finally:
            self._hooks.exit_trace(trace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def evict_weakref(self, function: object) -> Any:
        self._evicted(function)
        return self.__wrapped__.evict_weakref(function)

    def evict_function(self, function: object) -> Any:
        self._evicted(function)
        return self.__wrapped__.evict_function(function)

    def _evicted(self, function: object) -> None:
        if self._hooks.is_current(self._installation):
            self._hooks.evicted(function)


AROUND_TRACES = TraceProxy.__call__.__code__
"""The frame of ours that is on the stack below each trace."""


def leave(error: BaseException) -> None:
    """Remove the frame that caught an error from its traceback.

    A bare `raise` there does not add it again: a full traceback shows only frames of the
    program and of JAX.
    """
    if (here := error.__traceback__) is not None:
        error.__traceback__ = here.tb_next

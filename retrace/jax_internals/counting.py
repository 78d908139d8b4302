"""Count how often JAX traces, lowers and compiles, from JAX's own events.

Two hooks that only count and are never removed: a `jax.monitoring` listener, and the slot that
JAX calls for each real trace. Neither is called on a cache hit. Each event only appends to a
list, which is atomic across threads and signal handlers, with and without the GIL, and needs
no lock.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any, NamedTuple

import jax
from jax._src import dispatch, pjit, util
from jax._src import monitoring as private_monitoring
from jax._src.interpreters import partial_eval

from retrace.errors import RetraceError

_LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_COMPILE = "/jax/core/compile/backend_compile_duration"
_TRACE_BEFORE = "_create_pjit_jaxpr"
"""JAX's trace function before 0.9."""
_TRACES = ("trace_to_jaxpr", "create_pjit_jaxpr")


class Counts(NamedTuple):
    """How often JAX traced, lowered and compiled."""

    traces: int
    lowerings: int
    compiles: int
    since: float
    """When counting began, as returned by `time.time()`."""


class Counting:
    """The counts of this process."""

    def __init__(self) -> None:
        self._traces: list[None] = []
        self._lowerings: list[None] = []
        self._compiles: list[None] = []
        self._since = 0.0
        self._earlier: Callable[..., Any] | None = None
        self._is_on = False
        self._was_put = False
        self._heard: Callable[..., Any] = self._on_test_event
        self._listener: Callable[..., None] = self._on_duration

    def begin(self) -> None:
        """Start counting, unless already started.

        Raises:
            RetraceError: this JAX does not report what is counted.
        """
        if self._is_on:
            return
        if missing := _missing():
            raise RetraceError(
                f"this JAX ({jax.__version__}) does not tell how often it works: it has no "
                f"{' and no '.join(missing)}, so that nothing can be counted"
            )
        self._is_on = True
        for counted in (self._traces, self._lowerings, self._compiles):
            counted.clear()
        self._since = time.time()
        if self._listener not in private_monitoring.get_event_duration_listeners():
            jax.monitoring.register_event_duration_secs_listener(self._listener)
        if not self._is_heard():
            self._earlier = util.test_event_listener
            util.test_event_listener = self._heard
            self._was_put = True

    def read(self) -> Counts:
        """The counts so far.

        Raises:
            RetraceError: this JAX does not report what is counted, or the hooks were removed.
        """
        if not self._is_on:
            self.begin()
        elif not (
            self._is_heard()
            and self._listener in private_monitoring.get_event_duration_listeners()
        ):
            self._is_on = self._was_put = False
            raise RetraceError(
                "what counts was taken out of JAX by the program (by "
                "`jax.monitoring.clear_event_listeners` or its test slot), so that the counts "
                "up to here are not known: the next call counts anew"
            )
        return Counts(len(self._traces), len(self._lowerings), len(self._compiles), self._since)

    def forked(self) -> None:
        """Reset the counts in a forked child, which only counts its own work."""
        for counted in (self._traces, self._lowerings, self._compiles):
            counted.clear()
        self._since = time.time()

    def _is_heard(self) -> bool:
        """Whether the slot holds this hook, or that of a recording, which calls this one."""
        there = util.test_event_listener
        return there is self._heard or (
            self._was_put and getattr(there, "__module__", None) == _RECORDING_HOOKS
        )

    def _on_duration(self, event: str, duration_secs: float, **metadata: Any) -> None:
        if event == _LOWER:
            self._lowerings.append(None)
        elif event == _COMPILE:
            self._compiles.append(None)

    def _on_test_event(self, name: str, *args: Any) -> None:
        if name in _TRACES:
            self._traces.append(None)
        if self._earlier is not None:
            self._earlier(name, *args)


_RECORDING_HOOKS = "retrace.jax_internals.hooks"


def _missing() -> list[str]:
    missing: list[str] = []
    events = [
        ("event of lowering", "JAXPR_TO_MLIR_MODULE_EVENT", _LOWER),
        ("event of compilation", "BACKEND_COMPILE_EVENT", _COMPILE),
    ]
    missing += [said for said, name, event in events if getattr(dispatch, name, None) != event]
    if not hasattr(util, "test_event_listener") or not _tells_traces():
        missing.append("event of a trace")
    return missing


def _tells_traces() -> bool:
    """Whether JAX's trace function still calls the slot with a known name.

    The function is wrapped in a cache; only the garbage collector can find what it wraps.
    """
    cached = (getattr(partial_eval, "trace_to_jaxpr", None), getattr(pjit, _TRACE_BEFORE, None))
    seen: list[Any] = [getattr(one, "__wrapped__", one) for one in cached if one is not None]
    seen += [one for one in cached if one is not None]
    seen.append(getattr(partial_eval, "trace_to_jaxpr_nocache", None))
    for _ in range(4):
        for one in seen:
            code = getattr(one, "__code__", None)
            if code is not None and any(name in code.co_consts for name in _TRACES):
                return True
        inner = [held for one in seen for held in gc.get_referents(one)]
        seen = [held for held in inner if isinstance(held, FunctionType | CellType | tuple)]
    return False


counting = Counting()
os.register_at_fork(after_in_child=counting.forked)

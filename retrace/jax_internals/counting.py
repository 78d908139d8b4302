"""How often JAX traced, lowered and compiled, counted where JAX itself says so.

Two hooks that only count, and stay once they are there: a listener of `jax.monitoring`, and
the slot that JAX calls at each real trace. Neither is called where a cache hits. An append to
a list is all that happens, since it is whole among threads and signal handlers, with and
without a GIL, and needs no lock.
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
_OLD = "_create_pjit_jaxpr"
"""Where jax traced until 0.9."""
_TRACES = ("trace_to_jaxpr", "create_pjit_jaxpr")


class Counts(NamedTuple):
    """How often JAX worked, since a time."""

    traces: int
    lowerings: int
    compiles: int
    since: float
    """When counting began, in seconds since the epoch, as `time.time()` gives it."""


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
        """Begin to count, unless it has begun.

        Raises:
            RetraceError: this JAX does not tell what is to be counted.
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
        """The counts up to now.

        Raises:
            RetraceError: this JAX cannot tell, or someone else took out what counts.
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
        """A child counts what it does itself."""
        for counted in (self._traces, self._lowerings, self._compiles):
            counted.clear()
        self._since = time.time()

    def _is_heard(self) -> bool:
        """Whether the slot is ours, or that of a recording, which calls what was there."""
        there = util.test_event_listener
        return there is self._heard or (
            self._was_put and getattr(there, "__module__", None) == _RECORDS
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


_RECORDS = "retrace.jax_internals.hooks"


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
    """Whether the function in which JAX traces still calls the slot by a name known here.

    It stands behind a cache, of which only the garbage collector can tell what it wraps.
    """
    cached = (getattr(partial_eval, "trace_to_jaxpr", None), getattr(pjit, _OLD, None))
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

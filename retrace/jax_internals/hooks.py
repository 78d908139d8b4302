"""Retrace's hooks inside JAX: installed, removed, and with errors contained.

Everything here runs only when JAX misses a cache. `jax.monitoring` (public)
reports when lowering and compilation begin and end. Its trace event also fires
when the tracing cache hits, and since 0.9 never for nested traces. So real
traces are found in JAX's trace function instead: a proxy wraps its cache, and
JAX calls a test slot inside it once for each trace that really runs.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

import jax

from retrace.errors import RetraceError
from retrace.failure import contain, ignore, say, send
from retrace.jax_internals import losses, names, replacements
from retrace.jax_internals import names_hooks as at
from retrace.jax_internals.names_frames import PMAP_TRACE
from retrace.jax_internals.row import Row, resolve
from retrace.jax_internals.traces import Trace, TraceProxy, leave
from retrace.jax_internals.wiring import PROBE, Wiring
from retrace.jax_internals.witness import Witness
from retrace.model import Stage

if TYPE_CHECKING:
    from retrace.jax_internals.observer import Observer

_SENDS_TRACE_EVENTS = at.TRACE_BEFORE.expected
"""Whether JAX uses its trace function of before 0.9, which sends an event for every trace."""
_NEEDS_TRACE_ENDS = _SENDS_TRACE_EVENTS or PMAP_TRACE.expected
"""Whether the end of a trace gives information that its beginning does not."""
_TRACE, _COMPILE, _SAVED = Stage.TRACE, Stage.COMPILE, at.SAVED.name
_STAGES = {
    at.TRACE_EVENT.name: Stage.TRACE,
    at.LOWER_EVENT.name: Stage.LOWER,
    at.COMPILE_EVENT.name: Stage.COMPILE,
}
_MONITORING, _LISTENERS = resolve(at.DURATION_LISTENERS.where), at.DURATION_LISTENERS.name
_CACHE_EVENTS = (at.LOOKED_UP.name, at.FOUND.name, at.WRITTEN.name)
_REAL_TRACE = (at.REAL_TRACE.name, at.REAL_TRACE_BEFORE.name)

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


def _hidden_already(file: str) -> None:
    """Do nothing: this JAX cannot hide files."""


# Otherwise a frame of retrace would be taken for the user's line, and the frames around a program
# launched by `retrace run` would be part of programs, and of cache keys that include lines.
_hide: Callable[[str], None] = at.HIDE_IN_PROGRAMS.get() or _hidden_already
_hide(_FOLDER)
if (_hide_in_tracebacks := at.HIDE_IN_TRACEBACKS.get()) is not None:
    _hide_in_tracebacks(__file__)
_launcher: FrameType | None = sys._getframe()
while _launcher is not None and _launcher.f_code.co_filename != f"{_FOLDER}command/launch.py":
    _launcher = _launcher.f_back
while _launcher is not None:
    _hide(_launcher.f_code.co_filename)
    _launcher = _launcher.f_back


class _Thread(threading.local):
    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.calls = 0
        """Number of calls in progress that were traced, nested ones included."""


class Hooks:
    """One set of hooks; at most one is installed in a process."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.guarded: Callable[..., Any] = partial(contain, self._fail)
        """Calls retrace's own code; returns None if it fails, without affecting the program."""
        # A bug in retrace, a full disk or an unusual user object must not affect the program.
        self._thread = _Thread()
        self.wiring = Wiring()
        """What was installed in JAX, to check whether JAX still calls it."""
        self._witness = Witness()
        self._reported: set[str] = set()
        self._undo: list[Callable[[], None]] = []
        self._installation: object = None
        """Hooks of another installation that other code wrapped may remain; they do nothing."""
        self._stuck: set[Row] = set()
        """Lists with a listener that cannot be removed."""
        self._heard = False
        """Whether JAX has reported a real trace: then it reports all of them."""
        self._refusal: Callable[[], BaseException | None] | None = None
        self._undo_refusal: Callable[[], None] = _none
        self.stop: Callable[[], BaseException | None] | None = None
        """Called before each compilation; returns what to raise there, in any state of JAX."""

    @property
    def installed(self) -> bool:
        """Whether these hooks are installed."""
        return bool(self._undo)

    def install(self) -> None:
        """Install the hooks."""
        names.check()
        self._installation = object()
        self._listen()
        if names.shows(losses.TRACES):
            self._install_trace_proxy()
        self._replace(at.MAKE_JIT, replacements.of_jit)
        self._replace(at.LOWER, replacements.of_lower)
        self._replace(at.UPDATE, replacements.of_update)
        self._replace(at.LOG_CACHE_KEY, replacements.of_cache_key)
        self._witness.begin()

    def _listen(self) -> None:
        public = jax.monitoring
        self._register(public.register_event_listener, at.EVENT_LISTENERS, self._on_event)
        self._register(
            public.register_event_duration_secs_listener,
            at.DURATION_LISTENERS,
            self._on_duration,
        )
        self.wiring.listens(at.DURATION_LISTENERS, self._on_duration)
        # jax 0.6.0 has no scalar events: there, stages are only known when they end.
        if register := getattr(public, "register_scalar_listener", None):
            self._register(register, at.SCALAR_LISTENERS, self._on_scalar)
            self.wiring.listens(at.SCALAR_LISTENERS, self._on_scalar)

    def _register(
        self, register: Callable[[Any], object], row: Row, listener: Callable[..., None]
    ) -> None:
        # If the list of listeners is not accessible, a listener stays there but does nothing.
        if row in self._stuck:
            return
        register(listener)
        if row.look() is None:
            self._stuck.add(row)

        def undo() -> None:
            # Unregistering asserts if other code has cleared all listeners.
            listeners = row.look()
            if listeners is not None and listener in listeners:
                listeners.remove(listener)

        self._undo.append(undo)

    def cut(self) -> list[str]:
        """Why JAX no longer reports to these hooks, although retrace did not remove them."""
        return [*self.wiring.cut(), *self._witness.silent()] if self.installed else []

    def remove(self) -> None:
        """Restore JAX; listeners of other code stay."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        self.wiring.clear()
        self._installation = None

    def is_current(self, installation: object) -> bool:
        """Whether the hooks of this installation are still active."""
        return installation is not None and installation is self._installation

    def refuse(self, refusal: Callable[[], BaseException | None] | None) -> None:
        """Set what may raise at a call that misses: before its trace, or else at its end.

        Args:
            refusal: called in the thread and on the stack of the call; None to stop.
        """
        self._undo_refusal()
        self._undo_refusal = _none
        self._refusal = refusal
        if refusal is None:
            return
        module, name = resolve(at.CALL.where), at.CALL.name
        original = at.CALL.look()
        if original is None:
            return

        def serve(*args: Any, **params: Any) -> Any:
            thread = self._thread
            thread.calls += 1
            try:
                result = original(*args, **params)
            except BaseException as error:
                leave(error)
                raise
            finally:
                thread.calls -= 1
            if (refused := self._refused()) is not None:
                raise refused
            return result

        def undo() -> None:
            if getattr(module, name) is serve:
                setattr(module, name, original)

        setattr(module, name, serve)
        self._undo_refusal = undo

    def _refused(self) -> BaseException | None:
        # What a guard raises passes through JAX like an error of user code: not in `guarded`.
        return None if (refusal := self._refusal) is None else contain(self._fail, refusal)

    def _fail(self, error: Exception) -> None:
        ours = isinstance(error, OSError | RetraceError)
        kind = "unwritable" if ours else "failed"
        loss = f"{type(error).__name__} while recording"
        contain(ignore, self.observer.failed, loss)
        if kind in self._reported:
            return
        self._reported.add(kind)
        if ours:
            say(f"retrace: the recording cannot be written ({error}); the program goes on")
        else:
            send("a failure while recording, reported once; the program goes on", error)

    # One call of `guarded` each: running code is slow here, since XLA has evicted the CPU caches.

    def _on_scalar(self, event: str, value: float, **metadata: Any) -> None:
        if (stage := _STAGES.get(event)) is None or not self._undo:
            return
        # The event of a trace proves nothing: JAX also sends it when the tracing cache hits.
        if stage is _TRACE and self._refusal is None:
            return
        name, frame = str(metadata.get("fun_name", "")), sys._getframe(1)
        if stage is not _TRACE:
            self._witness.reported(stage)
            self.guarded(self.observer.stage_started, stage, name, frame)
            if stage is _COMPILE and (stop := self.stop) is not None:
                self._give_up(contain(self._fail, stop), stage, name, frame)
        # An error raised inside JAX's caches of lowerings and executables would stay there:
        # JAX would lower and compile again at every later call.
        if self._refusal is not None and not self._thread.calls:
            self._give_up(self._refused(), stage, name, frame)

    def _on_duration(self, event: str, duration_secs: float, **metadata: Any) -> None:
        if (stage := _STAGES.get(event)) is not None and self._undo:
            if stage is not _TRACE or _NEEDS_TRACE_ENDS:
                name = str(metadata.get("fun_name", ""))
                ended = self.observer.stage_ended
                if stage is not _TRACE:
                    self._witness.reported(stage)
                elif _SENDS_TRACE_EVENTS:
                    self.guarded(self._trace_reported)
                self.guarded(ended, stage, name, duration_secs, sys._getframe(1))
            if stage is _COMPILE and (stop := self.stop) is not None:
                _raise(contain(self._fail, stop))
            # jax 0.6.0 does not report beginnings.
            if self._refusal is not None and not self._thread.calls:
                _raise(self._refused())
        elif event == _SAVED and self._undo:
            self.guarded(self.observer.cache_saved, duration_secs)

    def _give_up(self, why: BaseException | None, stage: Stage, name: str, at: FrameType) -> None:
        if why is not None:
            try:
                _raise(why)
            finally:
                # JAX does not report the end of a stage that did not begin.
                self.guarded(self.observer.stage_ended, stage, name, 0.0, at)

    def _on_event(self, event: str, **metadata: Any) -> None:
        if event in _CACHE_EVENTS and self._undo:
            self.guarded(self.observer.cache_event, event, sys._getframe(1))

    def _install_trace_proxy(self) -> None:
        # In 0.6 to 0.8 `trace_to_jaxpr` is a different function, without a cache.
        for row in (at.TRACE, at.TRACE_BEFORE):
            if row.expected and row.look() is not None:
                self._replace(row, TraceProxy)
                self.wiring.stands(row)
        slots, slot = resolve(at.TEST_SLOT.where), at.TEST_SLOT.name
        earlier, installation = getattr(slots, slot), self._installation

        def on_test_event(name: str, *args: Any) -> None:
            if name in _REAL_TRACE and self.is_current(installation):
                self.guarded(self._on_real_trace, id(sys._getframe(2)))
                if self._refusal is not None and (refused := self._refused()) is not None:
                    raise refused
            elif name == PROBE and contain(self._fail, self.wiring.is_probe, name, installation):
                return
            if earlier is not None:
                earlier(name, *args)

        setattr(slots, slot, on_test_event)
        self.wiring.hears(on_test_event, installation)

        def undo() -> None:
            if getattr(slots, slot) is on_test_event:
                setattr(slots, slot, earlier)

        self._undo.append(undo)

    def _replace(self, row: Row, wrap: Callable[[Any, Hooks, object], Any]) -> None:
        owner, name = resolve(row.where), row.name
        if (original := row.look()) is None:
            return
        ours = wrap(original, self, self._installation)
        # Names in the original's code are still found through this.
        ours.__wrapped__ = original
        setattr(owner, name, ours)

        def undo() -> None:
            if getattr(owner, name) is ours:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _on_real_trace(self, frame: int) -> None:
        self._witness.reported(_TRACE)
        traces = self._thread.traces
        if traces and traces[-1].frame == frame:
            return  # reported twice
        if not traces or traces[-1].started is not None:
            # A trace that did not go through the cache: part of the enclosing trace.
            self.observer.inner_trace(sys._getframe(1))
            return
        trace = traces[-1]
        trace.frame, trace.started = frame, perf_counter()
        self._heard = True
        listeners = getattr(_MONITORING, _LISTENERS, None)
        if listeners is not None and self._on_duration not in listeners:
            # The program cleared all listeners, including ours.
            self.observer.failed("the program cleared jax.monitoring's listeners")
            self._listen()
        self.observer.trace_started(trace)
        trace.caller = None
        trace.started = perf_counter()

    def _trace_reported(self) -> None:
        # Until 0.8 the event is sent from inside a real trace.
        if not self._heard and (traces := self._thread.traces) and not traces[-1].frame:
            self.observer.lost(losses.TRACES)

    def enter_trace(self, given: tuple[Any, ...], caller: FrameType, cached: Any) -> Trace | None:
        return self.guarded(self._enter, given, caller, cached)

    def exit_trace(self, trace: Trace) -> None:
        self.guarded(self._exit, trace)

    def _enter(self, given: tuple[Any, ...], caller: FrameType, cached: Any) -> Trace:
        self._witness.reported(_TRACE)
        trace = Trace(_unwrapped(given[0] if given else None), caller, given)
        if not self._heard:
            trace.cached, trace.misses = cached, _misses(cached)
        self._thread.traces.append(trace)
        return trace

    def _exit(self, trace: Trace) -> None:
        traces = self._thread.traces
        while traces and traces.pop() is not trace:
            pass
        try:
            if trace.started is not None:
                self.observer.trace_ended(trace, perf_counter() - trace.started)
            elif (
                not self._heard and trace.raised is None and trace.misses < _misses(trace.cached)
            ):
                self.observer.lost(losses.TRACES)
        finally:
            trace.cached = trace.result = trace.raised = None
            trace.caller = trace.function = trace.given = None

    def evicted(self, function: object) -> None:
        self.guarded(self.observer.evicted, function)


def _none() -> None:
    return None


def _misses(cached: Any) -> int:
    """Number of misses of JAX's tracing cache, if it counts them."""
    reported = getattr(cached, "cache_info", None)
    return getattr(reported(), "misses", 0) if reported is not None else 0


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error


def _unwrapped(function: Any) -> Any:
    name = type.__getattribute__(type(function), "__name__")
    return function.f if name == "WrappedFun" else function

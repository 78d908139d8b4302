"""Our listeners inside JAX: set, taken out again, and guarded.

Everything here runs only where JAX missed a cache. `jax.monitoring` (public)
tells when lowering and compilation begin and end. Its trace event also fires
when the tracing cache hits, and from 0.9 on not at all for nested traces, so
real traces are told by JAX's own trace function: a proxy stands in front of its
cache, and a test slot inside it is called once for each trace that really runs.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from types import FrameType
from typing import Any, Protocol

import jax
from jax._src import cache_key, config, pjit, source_info_util, stages, traceback_util, util
from jax._src import monitoring as private_monitoring

from retrace.errors import RetraceError
from retrace.failure import contain, send, unheard
from retrace.jax_internals.traces import Trace, TraceProxy
from retrace.jax_internals.wiring import Wiring, listeners_of
from retrace.model import Stage

_STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": Stage.TRACE,
    "/jax/core/compile/jaxpr_to_mlir_module_duration": Stage.LOWER,
    "/jax/core/compile/backend_compile_duration": Stage.COMPILE,
}
_CACHE_EVENTS = "/jax/compilation_cache/"
_REAL_TRACE = ("trace_to_jaxpr", "create_pjit_jaxpr")

_OURS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")

# A frame of ours between JAX's would otherwise be taken for the user's line; those
# around a program that `retrace run` launched would stand in the places that JAX
# writes into programs, and in cache keys where these count.
source_info_util.register_exclusion(_OURS)
traceback_util.register_exclusion(__file__)
_launcher: FrameType | None = sys._getframe()
while _launcher is not None and _launcher.f_code.co_filename != f"{_OURS}command/launch.py":
    _launcher = _launcher.f_back
while _launcher is not None:
    source_info_util.register_exclusion(_launcher.f_code.co_filename)
    _launcher = _launcher.f_back


class Observer(Protocol):
    """Who is told. Its failures are kept away from the program."""

    def trace_started(self, trace: Trace) -> None: ...
    def trace_ended(self, trace: Trace, seconds: float) -> None: ...
    def inner_trace(self, frame: FrameType | None) -> None: ...
    def stage_started(self, stage: Stage, name: str, frame: FrameType) -> None: ...
    def stage_ended(self, stage: Stage, name: str, seconds: float, frame: FrameType) -> None: ...
    def cache_event(self, event: str, frame: FrameType) -> None: ...
    def cache_key_part(self, name: str, digest: str) -> None: ...
    def jitted(self, function: object, frame: FrameType) -> None: ...
    def configured(self, option: str, frame: FrameType) -> None: ...
    def evicted(self, function: object) -> None: ...
    def lowered(self, lowered: object) -> None: ...
    def failed(self, reason: str) -> None: ...


class _Thread(threading.local):
    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.calls = 0
        """How many calls that were traced are being served, one inside the other."""


class Hooks:
    """One set of listeners; at most one is installed in a process."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._thread = _Thread()
        self.wiring = Wiring()
        """What was put into JAX, to see whether JAX still calls it."""
        self._reported: set[str] = set()
        self._undo: list[Callable[[], None]] = []
        self._installation: object = None
        """What was put into JAX with another one than this is left there by those who wrapped
        it meanwhile, and silent."""
        self._refusal: Callable[[], BaseException | None] = _none
        self._undo_refusal: Callable[[], None] = _none

    @property
    def installed(self) -> bool:
        """Whether these hooks listen."""
        return bool(self._undo)

    def install(self) -> None:
        """Begin to listen."""
        self._installation = object()
        self._listen()
        self._install_trace_proxy()
        self._replace(pjit, "_cpp_pjit", self._observe_jit)
        self._replace(stages.Traced, "lower", self._observe_lower)
        self._replace(config.Config, "update", self._observe_update)
        if hasattr(cache_key, "_log_cache_key_hash"):
            self._replace(cache_key, "_log_cache_key_hash", self._observe_cache_key)

    def _listen(self) -> None:
        jax.monitoring.register_event_listener(self._on_event)
        jax.monitoring.register_event_duration_secs_listener(self._on_duration)
        self.wiring.listens("event_duration_listener", self._on_duration)
        self._undo += [
            lambda: _discard(private_monitoring, "event_listener", self._on_event),
            lambda: _discard(private_monitoring, "event_duration_listener", self._on_duration),
        ]
        # jax 0.6.0 has no scalar events: stages are then known when they end.
        if register := getattr(jax.monitoring, "register_scalar_listener", None):
            register(self._on_scalar)
            self.wiring.listens("scalar_listener", self._on_scalar)
            self._undo.append(
                lambda: _discard(private_monitoring, "scalar_listener", self._on_scalar)
            )

    def cut(self) -> list[str]:
        """Why JAX no longer calls these hooks, although nobody here removed them."""
        return self.wiring.cut() if self.installed else []

    def remove(self) -> None:
        """Leave JAX as it was; others' listeners stay."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        self.wiring.clear()
        self._installation = None

    def is_current(self, installation: object) -> bool:
        """Whether what was put into JAX with this one is still to be heard."""
        return installation is not None and installation is self._installation

    def refuse(self, refusal: Callable[[], BaseException | None] | None) -> None:
        """Ask what to raise at a call that misses: before its trace, or else at its end.

        Args:
            refusal: asked in the thread and on the stack of the call; None for no more.
        """
        self._undo_refusal()
        self._undo_refusal = _none
        self._refusal = refusal or _none
        if refusal is None:
            return
        module: Any = pjit
        original = getattr(module, "_pjit_call_impl_python", None)
        if original is None:
            return

        def serve(*args: Any, **params: Any) -> Any:
            thread = self._thread
            thread.calls += 1
            try:
                result = original(*args, **params)
            finally:
                thread.calls -= 1
            if (refused := self._refused()) is not None:
                raise refused
            return result

        def undo() -> None:
            if module._pjit_call_impl_python is serve:
                module._pjit_call_impl_python = original

        module._pjit_call_impl_python = serve
        self._undo_refusal = undo

    def guarded(self, call: Callable[..., None], *args: Any) -> None:
        """Run something of ours, and keep its failures away from the program."""
        # Around everything that runs inside JAX: a bug of ours, a full disk or a
        # strange object of the user's must not reach the program.
        contain(self._fail, call, *args)

    def _refused(self) -> BaseException | None:
        # A guard of the user's may refuse a miss. What it raises passes through JAX as an
        # error of the traced function would, and so must not be raised inside `guarded`.
        return contain(self._fail, self._refusal)

    def _fail(self, error: Exception) -> None:
        ours = isinstance(error, OSError | RetraceError)
        kind = "unwritable" if ours else "failed"
        loss = f"{type(error).__name__} while recording"
        contain(unheard, self._observer.failed, loss)
        if kind in self._reported:
            return
        self._reported.add(kind)
        if ours:
            sys.stderr.write(
                f"retrace: the recording cannot be written ({error}); the program goes on\n"
            )
        else:
            send("a failure while recording, reported once; the program goes on", error)

    def _on_scalar(self, event: str, value: float, **metadata: Any) -> None:
        if (stage := _STAGES.get(event)) is not None:
            name = str(metadata.get("fun_name", ""))
            frame = sys._getframe(1)
            self.guarded(self._observer.stage_started, stage, name, frame)
            # Raised inside JAX's caches of lowerings and executables, it would stay in them:
            # JAX would lower and compile anew at every later call.
            if not self._thread.calls and (refused := self._refused()) is not None:
                try:
                    _raise(refused)
                finally:
                    # JAX does not tell the end of a stage that did not get to begin.
                    self.guarded(self._observer.stage_ended, stage, name, 0.0, frame)

    def _on_duration(self, event: str, duration_secs: float, **metadata: Any) -> None:
        if (stage := _STAGES.get(event)) is not None:
            name = str(metadata.get("fun_name", ""))
            self.guarded(self._observer.stage_ended, stage, name, duration_secs, sys._getframe(1))
            # jax 0.6.0 tells no beginnings.
            if not self._thread.calls and (refused := self._refused()) is not None:
                raise refused

    def _on_event(self, event: str, **metadata: Any) -> None:
        if event.startswith(_CACHE_EVENTS):
            self.guarded(self._observer.cache_event, event, sys._getframe(1))

    def _install_trace_proxy(self) -> None:
        from jax._src.interpreters import partial_eval

        for module, name in ((partial_eval, "trace_to_jaxpr"), (pjit, "_create_pjit_jaxpr")):
            cached = getattr(module, name, None)
            # In 0.6 to 0.8 `trace_to_jaxpr` is another function, and not cached.
            if cached is not None and (
                hasattr(cached, "evict_weakref") or hasattr(cached, "evict_function")
            ):
                self._replace(module, name, self._observe_traces)
                self.wiring.stands(module, name)
        earlier, installation = util.test_event_listener, self._installation

        def on_test_event(name: str, *args: Any) -> None:
            if name in _REAL_TRACE and self.is_current(installation):
                self.guarded(self._on_real_trace)
                if (refused := self._refused()) is not None:
                    raise refused
            if contain(self._fail, self.wiring.is_probe, name, installation):
                return
            if earlier is not None:
                earlier(name, *args)

        util.test_event_listener = on_test_event
        self.wiring.hears(on_test_event, installation)

        def undo() -> None:
            if util.test_event_listener is on_test_event:
                util.test_event_listener = earlier

        self._undo.append(undo)

    def _replace(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        ours = wrap(original)
        setattr(owner, name, ours)

        def undo() -> None:
            if getattr(owner, name) is ours:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _on_real_trace(self) -> None:
        traces = self._thread.traces
        if not traces or traces[-1].started is not None:
            # A trace that did not come through the cache: part of what runs around it.
            self._observer.inner_trace(sys._getframe(1))
            return
        trace = traces[-1]
        trace.started = perf_counter()
        if self._on_duration not in private_monitoring.get_event_duration_listeners():
            # The program cleared all listeners, ours among them.
            self._observer.failed("the program cleared jax.monitoring's listeners")
            self._listen()
        self._observer.trace_started(trace)
        trace.caller = None
        trace.started = perf_counter()

    def _observe_traces(self, cached: Any) -> TraceProxy:
        return TraceProxy(cached, self, self._installation)

    def enter_trace(self, given: tuple[Any, ...], caller: FrameType) -> Trace | None:
        return contain(self._fail, self._enter, given, caller)

    def exit_trace(self, trace: Trace) -> None:
        self.guarded(self._exit, trace)

    def _enter(self, given: tuple[Any, ...], caller: FrameType) -> Trace:
        trace = Trace(_unwrapped(given[0] if given else None), caller, given)
        self._thread.traces.append(trace)
        return trace

    def _exit(self, trace: Trace) -> None:
        traces = self._thread.traces
        while traces and traces.pop() is not trace:
            pass
        if trace.started is not None:
            self.guarded(self._observer.trace_ended, trace, perf_counter() - trace.started)
        trace.result = trace.raised = trace.caller = trace.function = trace.given = None

    def evicted(self, function: object) -> None:
        self.guarded(self._observer.evicted, function)

    def _observe_jit(self, make: Any) -> Any:
        installation = self._installation

        def _cpp_pjit(fun: Any, *args: Any, **kwargs: Any) -> Any:
            if self.is_current(installation):
                self.guarded(self._observer.jitted, fun, sys._getframe(1))
            return make(fun, *args, **kwargs)

        return _cpp_pjit

    def _observe_update(self, original: Any) -> Any:
        installation = self._installation

        def update(self_: Any, name: str, val: Any) -> None:
            original(self_, name, val)
            if self.is_current(installation):
                self.guarded(self._observer.configured, name, sys._getframe(1))

        update.__doc__ = original.__doc__
        return update

    def _observe_cache_key(self, original: Any) -> Any:
        installation = self._installation

        def _log_cache_key_hash(hash_obj: Any, last_serialized: str, hashfn: Any) -> None:
            original(hash_obj, last_serialized, hashfn)
            if not self.is_current(installation):
                return
            digest = hash_obj.copy().hexdigest()
            self.guarded(self._observer.cache_key_part, last_serialized, digest)

        return _log_cache_key_hash

    def _observe_lower(self, original: Any) -> Any:
        installation = self._installation

        def lower(traced: Any, *args: Any, **kwargs: Any) -> Any:
            lowered = original(traced, *args, **kwargs)
            if self.is_current(installation):
                self.guarded(self._observer.lowered, lowered)
            return lowered

        lower.__doc__ = original.__doc__
        return lower


def _none() -> None:
    return None


def _raise(error: BaseException) -> None:
    raise error


def _unwrapped(function: Any) -> Any:
    return function.f if type(function).__name__ == "WrappedFun" else function


def _discard(monitoring: Any, kind: str, callback: object) -> None:
    # Others may have cleared all listeners meanwhile; unregistering then asserts.
    if (listeners := listeners_of(monitoring, kind)) is not None and callback in listeners:
        listeners.remove(callback)

"""Retrace a function without using or changing JAX's caches.

When a function is traced again, the jitted functions that it calls still come from JAX's
caches and are as old as its own program. So a wrapper temporarily replaces each cache that is
keyed by a Python function. In one thread the wrapper retraces, and remembers the results until
the end; other threads still use the caches. Nothing is added to JAX's caches or removed from
them, and JAX sends no events and logs nothing about these traces.

The inputs of a trace are found again through weak references only. JAX itself keeps them alive
for as long as it keeps the program: the function, the shapes and types of the arguments,
their tree, and the static values.
"""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import FunctionType
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from retrace.jax_internals import losses, names
from retrace.jax_internals import names_audit as at
from retrace.jax_internals.calls import is_staging, stages
from retrace.jax_internals.names_frames import BINDING
from retrace.jax_internals.names_hooks import TEST_SLOT, TRACE, TRACE_BEFORE
from retrace.jax_internals.names_values import CONTEXT, DEBUG_INFO, STATES, TRACE_CONTEXT, WRAPPED
from retrace.jax_internals.returned_trees import of_answer, of_stores
from retrace.jax_internals.row import resolve
from retrace.jax_internals.traces import Trace

_KEEPS_ARGUMENTS = TRACE.expected
"""Whether JAX keeps the object that describes the arguments with a trace (else in a table)."""
_MIN_CONVERTED_SIZE = 8
"""Item size in bytes from which JAX may convert a host array to a smaller type."""
_TRACED = ("fun", "computation")
"""How JAX names the first parameter of a cached function if it is traced."""
_CLEAR = "cache_clear"
_COMPUTES = "eager_constant_folding"
_PLAIN = frozenset((int, bool, str, type(None)))


class GoneError(Exception):
    """Something that a program was traced from no longer exists."""


class BusyError(Exception):
    """Another thread is already retracing."""


class Retraced(NamedTuple):
    """What tracing a function again gave."""

    jaxpr: Any
    returned: tuple[Any, ...]
    """The treedefs of what it returned."""
    before: tuple[Any, ...]
    """Those of the trace that JAX keeps; empty if unknown."""


class Recipe:
    """What a program was traced from, as weak references; keeps nothing alive."""

    __slots__ = ("_extra", "_function", "_given", "_returned", "jaxpr")

    def __init__(
        self, trace: Trace, jaxpr: Any, died: Callable[[weakref.ref[Any]], object] | None
    ) -> None:
        """Remember a trace that has just ended; raises TypeError if that is impossible.

        Args:
            trace: the trace.
            jaxpr: its result.
            died: called when JAX drops the program.
        """
        given: tuple[Any, ...] = trace.given or ()
        if len(given) < 2:
            raise TypeError("a trace of nothing")
        function = given[0]
        self._extra: tuple[Any, ...] = ()
        self._given: weakref.ref[Any] | None = None
        self._returned: weakref.ref[Any] | None = None
        if _KEEPS_ARGUMENTS:
            result = trace.result
            if len(result) > 1 and type(result[1]).__weakrefoffset__:
                self._returned = weakref.ref(result[1])
            self._given = weakref.ref(given[1])
            if extra := given[3:]:
                if not _PLAIN.issuperset(map(type, extra)):
                    raise TypeError("an argument that cannot be remembered")
                self._extra = extra
        else:
            function = WRAPPED.of(function, function)
        self._function = weakref.ref(function)
        self.jaxpr: weakref.ref[Any] = weakref.ref(jaxpr, died)

    def function(self) -> Any:
        """The function that JAX traced; raises GoneError."""
        return _alive(self._function)

    def trace(self, *, computes: bool = True) -> Retraced:
        """Trace the function as it is now; only valid inside `past_caches`.

        Args:
            computes: whether what it computes meanwhile uses JAX's caches, and adds to them.

        Raises:
            GoneError: something that it was traced from no longer exists.
            Exception: whatever the function raises.
        """
        _thread.memory, _thread.computes = {}, computes
        try:
            return self._trace()
        finally:
            _thread.memory = None

    def _trace(self) -> Retraced:
        function, jaxpr = self.function(), _alive(self.jaxpr)
        info = DEBUG_INFO.of(getattr(jaxpr, "jaxpr", jaxpr))
        if self._given is not None:
            given = _alive(self._given)
            info = info._replace(**{at.RESULT_PATHS.name: None})
            trace: Any = getattr(resolve(TRACE.where), TRACE.name)
            answer = trace(function, given, info, *self._extra)
            before = None if self._returned is None else self._returned()
            return Retraced(answer[0], of_answer(answer[1]), of_answer(before))
        return _trace_before(function, jaxpr, info)


def _alive(reference: weakref.ref[Any]) -> Any:
    found = reference()
    if found is None:
        raise GoneError
    return found


def _trace_before(function: Any, jaxpr: Any, info: Any) -> Retraced:
    """Same for jax before 0.9, which keeps the inputs of traces in a table."""
    cached = _inside(TRACE_BEFORE.look())
    entries = _cell(cached, at.ENTRIES_BEFORE.name)
    for key, (answer, found) in list(entries.get(function, {}).items()):
        if answer[0] is jaxpr:
            (transforms, params, in_type, args, _), stores = key, found
            break
    else:
        raise GoneError
    made = [None if store is None else type(store)() for store in stores]
    transformed = function
    for (transform, given), store in zip(reversed(transforms), reversed(made), strict=True):
        held = () if store is None else (store,)
        transformed = _bound(transform, transformed, *held, *given)
    info = info._replace(**{at.RESULT_PATHS.name: _no_paths})
    wrapped = at.WRAPPED_FUN.get()(
        function, transformed, transforms, tuple(made), params, in_type, info
    )
    trace: Any = getattr(resolve(TRACE_BEFORE.where), TRACE_BEFORE.name)
    answer = trace(wrapped, *args)
    return Retraced(answer[0], of_stores(made), of_stores(stores))


def _bound(transform: Any, *given: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return transform(*given, *args, **kwargs)

    return call


def _no_paths() -> tuple[str, ...]:
    return ()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.memory: dict[Any, Any] | None = None
        """What was retraced so far; None if this thread should use JAX's caches."""
        self.computes = True


_thread = _Thread()
_one_at_a_time = threading.Lock()


def lowering() -> tuple[Any, str] | None:
    """Where the function is that lowers each program, and its name; None if it is unknown."""
    return (resolve(at.LOWERING.where), at.LOWERING.name) if at.LOWERING.there() else None


def computes_at_trace() -> bool:
    """Whether this thread computes what it can while it traces (`ensure_compile_time_eval`)."""
    return bool(jax.config.values.get(_COMPUTES))  # pyright: ignore[reportUnknownMemberType]


def without_dead(jaxpr: Any) -> Any:
    """A program without the equations that no result and no effect needs, as JAX compiles it."""
    if (dead := at.WITHOUT_DEAD.get()) is None:
        return jaxpr
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    live, _ = dead(inner, [True] * len(inner.outvars), True)
    return live if inner is jaxpr else jaxpr.replace(jaxpr=live)


def possible() -> bool:
    """Whether this JAX allows functions to be retraced."""
    return names.shows(losses.AUDITS) and names.shows(losses.TRACES)


@contextmanager
def past_caches() -> Generator[None]:
    """Let this thread trace recipes; raises BusyError if another thread is doing so."""
    if not _one_at_a_time.acquire(blocking=False):
        raise BusyError
    undo: list[tuple[Any, str, Any, Any]] = []
    try:
        for owner, name, found, ours in list(_replacements()):
            setattr(owner, name, ours)
            undo.append((owner, name, found, ours))
        yield
    finally:
        for owner, name, found, ours in reversed(undo):
            if getattr(owner, name) is ours:
                setattr(owner, name, found)
        _one_at_a_time.release()


def _replacements() -> Iterator[tuple[Any, str, Any, Any]]:
    slots, slot = resolve(TEST_SLOT.where), TEST_SLOT.name
    earlier = getattr(slots, slot)
    if earlier is not None:
        yield slots, slot, earlier, _unheard(earlier)
    silence, name = resolve(at.SILENCE.where), at.SILENCE.name
    yield silence, name, getattr(silence, name), _silent(getattr(silence, name))
    for row in (TRACE, TRACE_BEFORE):
        if row.expected:
            owner, found = resolve(row.where), row.look()
            yield owner, row.name, found, _anew(found, _uncached(_inside(found)))
    kinds = {type(at.INFER.get()), type(at.REDUCTION.get())}
    canonical = at.CANONICAL.look()
    known = {id(_inside(row.look())) for row in (TRACE, TRACE_BEFORE) if row.expected}
    made: dict[int, Any] = {}
    for module in list(sys.modules.values()):
        names_in = getattr(module, "__dict__", {})
        if not str(names_in.get("__name__")).startswith("jax._src"):
            continue
        for name, value in list(names_in.items()):
            if value is canonical and value is not None:
                yield module, name, value, _converted_anew(value)
            # Several modules may import the same cache, under any name.
            if type(value) not in kinds or id(value) in known:
                continue
            if type(value) is FunctionType and _CLEAR not in value.__dict__:
                continue  # before jax 0.9 some caches are functions
            if id(value) not in made:
                uncached = getattr(value, "__wrapped__", None) or _uncached(value)
                made[id(value)] = (
                    _anew(value, uncached) if uncached and _takes_function(uncached) else None
                )
            if (ours := made[id(value)]) is not None:
                yield module, name, value, ours


def _anew(original: Any, uncached: Any) -> Any:
    """Wrap a cache: retraces in the thread that is retracing, else uses the cache."""

    def call(*args: Any, **kwargs: Any) -> Any:
        memory = _thread.memory
        # Code that executes during the trace, without being staged, uses the cache as usual.
        if memory is None or (memory and _thread.computes and not _is_staging()):
            return original(*args, **kwargs)
        key = (id(original), args, tuple(kwargs.items()), TRACE_CONTEXT.get()())
        if (found := memory.get(key)) is not None:
            answer, stores = found
            if stores:
                args[0].populate_stores(stores)
            return answer
        memory.setdefault(None, True)  # a trace is now under way, and JAX is about to tell it
        answer = uncached(*args, **kwargs)
        memory[key] = (answer, at.STORES.of(args[0]))
        return answer

    call.__wrapped__ = original  # pyright: ignore[reportFunctionMemberAccess]
    for name in (_CLEAR, "cache_info", "evict_weakref", "evict_function"):
        if (method := getattr(original, name, None)) is not None:
            setattr(call, name, method)
    return call


def _is_staging() -> bool:
    """Whether operations are traced, also where JAX can neither trace nor execute one."""
    if is_staging() or getattr(CONTEXT.get(), "trace", CONTEXT) is None:
        return True
    # Before jax 0.11, an operation is put into a program while its own body is not traced yet.
    code = BINDING.get() if at.BINDING_TRACE.there() else None
    frame = sys._getframe(1) if code is not None else None
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None and stages(at.BINDING_TRACE.among(frame.f_locals))


def converts_anew() -> bool:
    """Whether host arrays are converted with their current content, not their earlier content."""
    return at.CANONICAL.there() or not at.CANONICAL.expected


def _converted_anew(original: Any) -> Any:
    """Wrap the function that caches the first conversion of an array."""

    def canonicalize_value(x: Any) -> Any:
        memory = _thread.memory
        if not memory or type(x) is not np.ndarray or x.itemsize < _MIN_CONVERTED_SIZE:
            return original(x)
        found = memory.get((id(original), id(x)))
        if found is None:
            # Convert a copy, which JAX has not cached; keep it alive so that its id stays unique.
            # Arrays that a function returns are converted when nothing is staged any more.
            copied: Any = x.copy()
            found = memory[id(original), id(x)] = (x, copied, original(copied))
        return found[2]

    canonicalize_value.__wrapped__ = original  # pyright: ignore[reportFunctionMemberAccess]
    return canonicalize_value


def _unheard(earlier: Any) -> Any:
    def on_test_event(name: str, *args: Any) -> None:
        memory = _thread.memory
        if memory is None or (_thread.computes and not (_is_staging() or memory.get(None))):
            earlier(name, *args)
        elif memory.get(None):
            memory[None] = False

    return on_test_event


def _silent(original: Any) -> Any:
    def log_elapsed_time(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) if _thread.memory is None else nullcontext()

    return log_elapsed_time


def _inside(cached: Any) -> Any:
    """The cache itself, without any wrappers around it."""
    while (inner := getattr(cached, "__wrapped__", None)) is not None:
        cached = inner
    return cached


def _uncached(cache: Any) -> Any:
    """The function whose results a cache stores; None if it cannot be found."""
    if type(cache) is FunctionType:
        return _cell(cache, at.UNCACHED_BEFORE.name)
    held = [one for one in gc.get_referents(cache) if type(one) is FunctionType]
    named = [one for one in held if one.__name__ not in ("<lambda>", "trace_context", "_ignore")]
    return named[0] if len(named) == 1 else None


def _cell(function: Any, name: str) -> Any:
    return inspect.getclosurevars(function).nonlocals.get(name)


def _takes_function(uncached: FunctionType) -> bool:
    code = uncached.__code__
    return code.co_argcount > 0 and code.co_varnames[0] in _TRACED


def shows_all() -> bool:
    """Whether the trace caches of this JAX can be bypassed."""
    rows = (TRACE, TRACE_BEFORE)
    return all(_uncached(_inside(row.look())) is not None for row in rows if row.expected)


@contextmanager
def configured(values: dict[str, Any]) -> Generator[None]:
    """Set JAX configuration options in this thread, by their public names.

    Raises KeyError if an option cannot be set.
    """
    states = cast(dict[str, Any], STATES.get())
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(states[name](value))
        yield

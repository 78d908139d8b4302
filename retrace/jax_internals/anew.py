"""Tracing a function anew, past JAX's caches, and leaving these as they are.

A function that is traced again finds the programs of the jitted functions that it calls in
JAX's caches, as old as its own. So for one thread, and while it lasts, a function of ours
stands in front of each cache that is keyed by a Python function: it traces anew, and remembers
what it traced until the end. Nothing is put into JAX's caches, and nothing is taken out.
Other threads go on to the caches. Nothing of what JAX tells of a trace is sent meanwhile: no
event, no line of a log.

What a program was traced from is found again through weak references alone. JAX itself keeps
it for as long as it keeps the program: the function, the shapes and types of the arguments,
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
from typing import Any, cast

import numpy as np

from retrace.jax_internals import losses, names
from retrace.jax_internals import names_audit as at
from retrace.jax_internals.calls import is_staging
from retrace.jax_internals.names_hooks import TEST_SLOT, TRACE, TRACE_BEFORE
from retrace.jax_internals.names_values import DEBUG_INFO, STATES, TRACE_CONTEXT, WRAPPED
from retrace.jax_internals.row import resolve
from retrace.jax_internals.traces import Trace

_KEEPS_GIVEN = TRACE.expected
"""Whether JAX keeps, with a trace, the object that tells its arguments; else a table does."""
_CONVERTED = 8
"""Bytes of a number from which on JAX may convert an array on the host to fewer."""
_PLAIN = frozenset((int, bool, str, type(None)))


class GoneError(Exception):
    """What a program was traced from does not live any more."""


class BusyError(Exception):
    """Another thread traces anew."""


class Recipe:
    """What a program was traced from, by weak references; it holds nothing."""

    __slots__ = ("_extra", "_function", "_given", "jaxpr")

    def __init__(
        self, trace: Trace, jaxpr: Any, died: Callable[[weakref.ref[Any]], object] | None
    ) -> None:
        """Remember a trace that has just ended; raises TypeError where it cannot be.

        Args:
            trace: the trace.
            jaxpr: what came of it.
            died: called when JAX has let go of the program.
        """
        given: tuple[Any, ...] = trace.given or ()
        if len(given) < 2:
            raise TypeError("a trace of nothing")
        function = given[0]
        self._extra: tuple[Any, ...] = ()
        self._given: weakref.ref[Any] | None = None
        if _KEEPS_GIVEN:
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

    def trace(self) -> Any:
        """The jaxpr of the function as it is now; within `past_caches` alone.

        Raises:
            GoneError: something that it was traced from does not live any more.
            Exception: whatever the function raises.
        """
        _thread.memory = {}
        try:
            return self._trace()
        finally:
            _thread.memory = None

    def _trace(self) -> Any:
        function, jaxpr = self.function(), _alive(self.jaxpr)
        info = DEBUG_INFO.of(getattr(jaxpr, "jaxpr", jaxpr))
        if self._given is not None:
            given = _alive(self._given)
            info = info._replace(**{at.RESULT_PATHS.name: None})
            trace: Any = getattr(resolve(TRACE.where), TRACE.name)
            return trace(function, given, info, *self._extra)[0]
        return _trace_before(function, jaxpr, info)


def _alive(reference: weakref.ref[Any]) -> Any:
    found = reference()
    if found is None:
        raise GoneError
    return found


def _trace_before(function: Any, jaxpr: Any, info: Any) -> Any:
    """The same before jax 0.9, which keeps what it was given in a table of its own."""
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
    return trace(wrapped, *args)[0]


def _bound(transform: Any, *given: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return transform(*given, *args, **kwargs)

    return call


def _no_paths() -> tuple[str, ...]:
    return ()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.memory: dict[Any, Any] | None = None
        """What was traced anew so far; None where the caches are to be asked."""


_thread = _Thread()
_one_at_a_time = threading.Lock()


def possible() -> bool:
    """Whether this JAX lets functions be traced anew."""
    return names.shows(losses.AUDITS) and names.shows(losses.TRACES)


@contextmanager
def past_caches() -> Generator[None]:
    """Let this thread trace recipes; raises BusyError where another one is at it."""
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
    kind, canonical = type(at.INFER.get()), at.CANONICAL.look()
    known = {id(_inside(row.look())) for row in (TRACE, TRACE_BEFORE) if row.expected}
    made: dict[int, Any] = {}
    for module in list(sys.modules.values()):
        names_in = getattr(module, "__dict__", {})
        if not str(names_in.get("__name__")).startswith("jax._src"):
            continue
        for name, value in list(names_in.items()):
            if value is canonical and value is not None:
                yield module, name, value, _converted_anew(value)
            # A cache may stand in several modules, by whichever name these import it.
            if type(value) is not kind or id(value) in known:
                continue
            if id(value) not in made:
                uncached = _uncached(value)
                made[id(value)] = (
                    _anew(value, uncached) if uncached and _takes_function(uncached) else None
                )
            if (ours := made[id(value)]) is not None:
                yield module, name, value, ours


def _anew(original: Any, uncached: Any) -> Any:
    """In front of a cache: traces anew in the thread that does so."""

    def call(*args: Any, **kwargs: Any) -> Any:
        memory = _thread.memory
        # What runs while it is traced, rather than becoming part of the program, is as before.
        if memory is None or (memory and not is_staging()):
            return original(*args, **kwargs)
        key = (id(original), args, tuple(kwargs.items()), TRACE_CONTEXT.get()())
        if (found := memory.get(key)) is not None:
            answer, stores = found
            if stores:
                args[0].populate_stores(stores)
            return answer
        memory[None] = None  # from here on something is being traced
        answer = uncached(*args, **kwargs)
        memory[key] = (answer, at.STORES.of(args[0]))
        return answer

    call.__wrapped__ = original  # pyright: ignore[reportFunctionMemberAccess]
    for name in ("cache_clear", "cache_info", "evict_weakref", "evict_function"):
        if (method := getattr(original, name, None)) is not None:
            setattr(call, name, method)
    return call


def converts_anew() -> bool:
    """Whether arrays on the host are converted as they are now, rather than as they were."""
    return at.CANONICAL.there() or not at.CANONICAL.expected


def _converted_anew(original: Any) -> Any:
    """In front of what remembers how an array was when it first converted its type."""

    def canonicalize_value(x: Any) -> Any:
        memory = _thread.memory
        if not memory or type(x) is not np.ndarray or x.itemsize < _CONVERTED or not is_staging():
            return original(x)
        found = memory.get((id(original), id(x)))
        if found is None:
            # By a copy of ours, which nothing is remembered of. It lives as long as its number.
            copied: Any = x.copy()
            found = memory[id(original), id(x)] = (x, copied, original(copied))
        return found[2]

    canonicalize_value.__wrapped__ = original  # pyright: ignore[reportFunctionMemberAccess]
    return canonicalize_value


def _unheard(earlier: Any) -> Any:
    def on_test_event(name: str, *args: Any) -> None:
        if _thread.memory is None or not is_staging():
            earlier(name, *args)

    return on_test_event


def _silent(original: Any) -> Any:
    def log_elapsed_time(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) if _thread.memory is None else nullcontext()

    return log_elapsed_time


def _inside(cached: Any) -> Any:
    """The cache behind what was put in front of it, by us or by others."""
    while (inner := getattr(cached, "__wrapped__", None)) is not None:
        cached = inner
    return cached


def _uncached(cache: Any) -> Any:
    """The function that a cache remembers the answers of; None where it does not show it."""
    if type(cache) is FunctionType:
        return _cell(cache, at.UNCACHED_BEFORE.name)
    held = [one for one in gc.get_referents(cache) if type(one) is FunctionType]
    named = [one for one in held if one.__name__ not in ("<lambda>", "trace_context", "_ignore")]
    return named[0] if len(named) == 1 else None


def _cell(function: Any, name: str) -> Any:
    return inspect.getclosurevars(function).nonlocals.get(name)


def _takes_function(uncached: FunctionType) -> bool:
    code = uncached.__code__
    return code.co_argcount > 0 and code.co_varnames[0] == "fun"


def shows_all() -> bool:
    """Whether JAX's caches of traces can be gone past on this JAX."""
    rows = (TRACE, TRACE_BEFORE)
    return all(_uncached(_inside(row.look())) is not None for row in rows if row.expected)


@contextmanager
def configured(values: dict[str, Any]) -> Generator[None]:
    """Set options of JAX's configuration in this thread, by their public names.

    Raises KeyError where one cannot be set.
    """
    states = cast(dict[str, Any], STATES.get())
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(states[name](value))
        yield

"""Restores the global state that user functions change while they run for an audit.

That is the state of `random` and `numpy.random`, the filters of warnings, the tables by which
Python shows one only once, and the traces that chex and equinox count. Output, log records and
warnings of this thread are suppressed: the function already produced them at its first trace.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import warnings
from collections.abc import Generator, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from retrace.auditing.effects import outside_values

_REGISTRY = "__warningregistry__"
_COUNTED = (
    ("chex._src.asserts_internal", "TRACE_COUNTER"),
    ("equinox.debug._max_traces", "_traces"),
)
"""Where libraries count traces, for their `assert_max_traces`."""
_FAR_BELOW = -1_000_000
"""A count that reaches no limit."""


@contextmanager
def undisturbed() -> Generator[None]:
    """Run something without a lasting effect on the program."""
    registries = _registries()
    known = cast(dict[Any, Any], getattr(warnings, "onceregistry", {}))
    once = dict(known)
    filters, shown = list(warnings.filters), warnings.showwarning
    counted = [(counts, dict(counts)) for counts in _counts()]
    out, err = sys.stdout, sys.stderr
    for counts, before in counted:
        counts.update(dict.fromkeys(before, _FAR_BELOW))
    muted_out, muted_err = _Muted(out), _Muted(err)
    here = threading.get_ident()
    logged = logging.Logger.callHandlers

    def unshown(*args: Any, **kwargs: Any) -> None:
        if threading.get_ident() != here:
            shown(*args, **kwargs)

    def unlogged(self: logging.Logger, record: logging.LogRecord) -> None:
        if threading.get_ident() != here:
            logged(self, record)

    warnings.showwarning = unshown
    logging.Logger.callHandlers = unlogged
    sys.stdout, sys.stderr = muted_out, muted_err
    try:
        yield
    finally:
        if sys.stdout is muted_out:
            sys.stdout = out
        if sys.stderr is muted_err:
            sys.stderr = err
        if warnings.showwarning is unshown:
            warnings.showwarning = shown
        if logging.Logger.callHandlers is unlogged:
            logging.Logger.callHandlers = logged
        if list(warnings.filters) != filters:
            cast(Any, warnings.filters)[:] = filters
            with warnings.catch_warnings():
                pass  # which tells `warnings` that they have changed
        for counts, before in counted:
            for key in [*counts]:
                counts[key] = before.get(key, 0)
        _restore_registries(registries)
        _restore(known, once)


_GLOBAL: tuple[Any, ...] = (
    getattr(random.random, "__self__", None),
    getattr(np.random.random_sample, "__self__", None),
)
"""The generators behind the functions of `random` and of `numpy.random`."""


def drawn_from(functions: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The global generators that functions may draw from: all if no other thread does meanwhile.

    To put one back takes from other threads what they drew, and gives them the same once more.
    """
    known = [one for one in _GLOBAL if one is not None]
    if threading.active_count() == 1:
        return known
    used = {
        id(one)
        for function, receiver in functions
        for _, value in outside_values(function, receiver)
        for one in (value, getattr(value, "__self__", None))
    }
    modules = (random, np.random)
    return [
        one
        for one, module in zip(known, modules, strict=False)
        if not used.isdisjoint((id(one), id(module)))
    ]


@contextmanager
def put_back(generators: list[Any]) -> Generator[None]:
    """Restore the state of random number generators afterwards."""
    states = [_state(one) for one in generators]
    try:
        yield
    finally:
        for one, state in zip(generators, states, strict=True):
            if _is_as(state, _state(one)):
                continue  # another thread may draw from it
            if isinstance(one, np.random.Generator):
                one.bit_generator.state = state
            elif isinstance(one, np.random.RandomState):
                one.set_state(state)
            else:
                one.setstate(state)


def _is_as(old: Any, new: Any) -> bool:
    """Whether two states of one generator are the same."""
    if hasattr(old, "dtype") and hasattr(new, "dtype"):
        return old.shape == new.shape and bool((old == new).all())
    if type(old) in (tuple, list) and type(new) is type(old):
        return len(old) == len(new) and all(map(_is_as, old, new))
    if type(old) is dict and type(new) is dict:
        before, after = cast(dict[Any, Any], old), cast(dict[Any, Any], new)
        return [*before] == [*after] and all(map(_is_as, before.values(), after.values()))
    return old is new or bool(old == new)


def _state(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state()
    return generator.getstate()


class _Muted:
    """A stream that ignores the writes of one thread."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._thread = threading.get_ident()

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cast(Any, type(self._stream))  # for `isinstance`

    def write(self, text: str) -> int:
        if threading.get_ident() == self._thread:
            return len(text)
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _counts() -> Iterator[Any]:
    for name, attribute in _COUNTED:
        counts: object = getattr(sys.modules.get(name), attribute, None)
        if isinstance(counts, MutableMapping):
            yield counts


def _registries() -> dict[str, dict[Any, Any]]:
    """The warnings already shown, by module."""
    return {
        name: dict(known)
        for name, module in list(sys.modules.items())
        if (known := _registry(module)) is not None
    }


def _registry(module: Any) -> dict[Any, Any] | None:
    names: Any = getattr(module, "__dict__", None)
    if names is None or _REGISTRY not in names:
        return None
    known: object = names[_REGISTRY]
    return cast(dict[Any, Any], known) if type(known) is dict else None


def _restore_registries(before: dict[str, dict[Any, Any]]) -> None:
    for name, module in list(sys.modules.items()):
        known = _registry(module)
        if known is not None:
            _restore(known, before.get(name, {}))


def _restore(known: dict[Any, Any], before: dict[Any, Any]) -> None:
    if known != before:
        known.clear()
        known.update(before)

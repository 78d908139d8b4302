"""Finds the jitted functions that a guard names among all live objects."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrace.guards.budget import Selector


def find(selectors: Iterable[Selector]) -> dict[Selector, list[Any]]:
    """The jitted objects that match each selector; selectors without a match are left out."""
    from retrace.capture.of_jax import is_own
    from retrace.capture.session import describe
    from retrace.jax_internals.jitted import function_of, jitted_objects

    wanted = list(selectors)
    found: dict[Selector, list[Any]] = {}
    for jitted in jitted_objects() if wanted else ():
        given = function_of(jitted)
        name = str(getattr(jitted, "__name__", ""))
        if given is None or (_is_of_jax(given) and is_own(given)):
            continue
        function = describe(given)
        for one in wanted:
            # A library's own `jit` jits a function of the library under the user's name.
            of_library = function.in_library and fnmatchcase(name, one.pattern)
            if of_library or one.matches(function):
                found.setdefault(one, []).append(jitted)
    return found


def make_cold(selectors: Iterable[Selector]) -> set[Selector]:
    """Clear JAX's caches of the selected functions only; returns the selectors that matched."""
    from retrace.capture.session import session
    from retrace.jax_internals import jitted

    wanted = list(selectors)
    found = find(wanted)
    misses = getattr(session().recorder, "misses", None)
    if misses is not None:
        misses.making_cold = True
    try:
        for objects in found.values():
            for one in objects:
                jitted.make_cold(one)
        # If the jitted object is dead but its function is alive, JAX still has its programs.
        for function in _functions(wanted):
            jitted.make_function_cold(function)
    finally:
        if misses is not None:
            misses.making_cold = False
    return set(found)


def _is_of_jax(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("jax.")


def _functions(selectors: list[Selector]) -> Iterator[FunctionType]:
    from retrace.capture.session import describe

    last = [one.pattern.rpartition(".")[2] for one in selectors]
    for function in gc.get_objects() if selectors else ():
        if type(function) is not FunctionType or _is_of_jax(function):
            continue
        if any(fnmatchcase(function.__name__, name) for name in last):
            described = describe(function)
            if any(one.matches(described) for one in selectors):
                yield function

"""The functions that a guard names, found among all that are alive and jitted."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrace.guards.budget import Selector


def find(selectors: Iterable[Selector]) -> dict[Selector, list[Any]]:
    """The jitted objects that each selector means; one for which there is none is not in it."""
    from retrace.capture.session import describe
    from retrace.jax_internals.jitted import function_of, jitted_objects

    asked = list(selectors)
    found: dict[Selector, list[Any]] = {}
    for jitted in jitted_objects() if asked else ():
        given = function_of(jitted)
        name = str(getattr(jitted, "__name__", ""))
        if given is None or str(getattr(given, "__module__", "")).startswith("jax."):
            continue
        function = describe(given)
        for one in asked:
            # What a library's own `jit` jits is a function of the library's, under the
            # user's name.
            of_library = function.in_library and fnmatchcase(name, one.said)
            if of_library or one.matches(function):
                found.setdefault(one, []).append(jitted)
    return found


def make_cold(selectors: Iterable[Selector]) -> set[Selector]:
    """Make the functions that are named cold, and no others; those that were found."""
    from retrace.capture.session import session
    from retrace.jax_internals import jitted

    asked = list(selectors)
    found = find(asked)
    misses = getattr(session().recorder, "misses", None)
    if misses is not None:
        misses.making_cold = True
    try:
        for objects in found.values():
            for one in objects:
                jitted.make_cold(one)
        # Where the jitted object has died and the function lives, JAX still has its programs.
        for function in _functions(asked):
            jitted.make_function_cold(function)
    finally:
        if misses is not None:
            misses.making_cold = False
    return set(found)


def _functions(selectors: list[Selector]) -> Iterator[FunctionType]:
    from retrace.capture.session import describe

    last = [one.said.rpartition(".")[2] for one in selectors]
    for function in gc.get_objects() if selectors else ():
        if type(function) is not FunctionType or str(function.__module__).startswith("jax."):
            continue
        if any(fnmatchcase(function.__name__, name) for name in last):
            described = describe(function)
            if any(one.matches(described) for one in selectors):
                yield function

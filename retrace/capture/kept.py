"""The programs that JAX keeps, and what each was traced from, without keeping any of it.

For `retrace.audit`, which asks whether they are still what the code would give. A few weak
references for each outermost trace: they go when JAX lets go of the program.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, NamedTuple

from retrace.jax_internals.anew import Recipe
from retrace.jax_internals.traces import Trace
from retrace.model import Function, Key, Value

_MOST = 20_000
"""Programs; of more the oldest are not audited."""
_MOST_BEGUN = 64
"""Traces that are under way at once, in all threads."""


class _Begun(NamedTuple):
    subject: weakref.ref[Any] | None
    function: Function
    config: tuple[tuple[str, Value], ...]


class Program(NamedTuple):
    """A program that JAX keeps."""

    subject: weakref.ref[Any] | None
    """What the user had jitted; None where it takes no weak reference."""
    function: Function
    """As it was when it was traced."""
    config: tuple[tuple[str, Value], ...]
    recipe: Recipe


class Kept:
    """The programs that JAX keeps, by the numbers of the misses that traced them."""

    def __init__(self) -> None:
        self._begun: dict[int, _Begun] = {}
        self._programs: dict[int, Program] = {}
        self._arrays: dict[int, tuple[str, ...]] = {}

    def begin(self, number: int, subject: Any, function: Function, key: Key) -> None:
        """A call is about to be traced."""
        if len(self._begun) >= _MOST_BEGUN:
            self._begun.clear()
        try:
            reference = weakref.ref(subject)
        except TypeError:
            reference = None
        self._begun[number] = _Begun(reference, function, key.config)

    def end(self, number: int, trace: Trace, jaxpr: Any) -> None:
        """It was traced, and JAX keeps what came of it; None where nothing did."""
        begun = self._begun.pop(number, None)
        if begun is None or jaxpr is None:
            return
        programs = self._programs
        try:
            recipe = Recipe(trace, jaxpr, partial(_forget, programs, self._arrays, number))
        except TypeError:
            return
        if len(programs) >= _MOST:
            _forget(programs, self._arrays, next(iter(programs)), None)
        programs[number] = Program(*begun, recipe)

    def known(self, number: int, arrays: tuple[str, ...]) -> None:
        """What arrays on the host a program captured, by their content, when it was traced."""
        if arrays and number in self._programs:
            self._arrays[number] = arrays

    def arrays(self, number: int) -> tuple[str, ...] | None:
        """The same; None where that is not known, or where it captured none."""
        return self._arrays.get(number)

    def programs(self) -> list[tuple[int, Program]]:
        """Those that live, the earliest first."""
        return list(self._programs.items())


def _forget(
    programs: dict[int, Program], arrays: dict[int, tuple[str, ...]], number: int, _: object
) -> None:
    programs.pop(number, None)
    arrays.pop(number, None)

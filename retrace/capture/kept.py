"""The programs that JAX keeps, and what each was traced from, without keeping any of it.

For `retrace.audit`, which asks whether they are still what the code would give. A few weak
references for each outermost trace: they go when JAX lets go of the program.
"""

from __future__ import annotations

import weakref
from _thread import get_ident
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from retrace.jax_internals.anew import Recipe
from retrace.jax_internals.traces import Trace
from retrace.model import Function, Key, Value

_MOST = 20_000
"""Programs; of more the oldest are not audited."""
_MOST_DEAD = 16
"""Programs that have died; so many are forgotten at once."""
_MOST_BEGUN = 64
"""Traces that are under way at once, in all threads."""


class Static(NamedTuple):
    """A static argument that may change while JAX takes it for the same."""

    name: str
    value: Value
    """As it was when the function was traced."""
    object: weakref.ref[Any]


class _Begun(NamedTuple):
    subject: weakref.ref[Any] | None
    function: Function
    config: tuple[tuple[str, Value], ...]
    static: tuple[Static, ...]
    thread: int


class Program(NamedTuple):
    """A program that JAX keeps."""

    subject: weakref.ref[Any] | None
    """What the user had jitted; None where it takes no weak reference."""
    function: Function
    """As it was when it was traced."""
    config: tuple[tuple[str, Value], ...]
    static: tuple[Static, ...]
    thread: int
    """That traced it."""
    recipe: Recipe


def changeable(key: Key, given: Iterable[tuple[str, Any]]) -> tuple[Static, ...]:
    """The static arguments that JAX would not see change: objects with attributes.

    Args:
        key: of the call.
        given: what the call was given, by the names of the parameters.
    """
    values = dict(key.static)
    found: list[Static] = []
    for name, given_ in given:
        if name in values and type(values[name].data) is dict:
            try:
                found.append(Static(name, values[name], weakref.ref(given_)))
            except TypeError:
                continue
    return tuple(found)


class Kept:
    """The programs that JAX keeps, by the numbers of the misses that traced them."""

    def __init__(self) -> None:
        self._begun: dict[int, _Begun] = {}
        self._programs: dict[int, Program] = {}
        self._arrays: dict[int, tuple[str, ...]] = {}
        # By C alone, as in `capture.weak`: what is raised in a callback of Python's is lost.
        self._dead: deque[Any] = deque()
        self._numbers: dict[int, int] = {}
        self.traced = 0
        """How many programs there have been."""

    def begin(
        self,
        number: int,
        subject: Any,
        function: Function,
        key: Key,
        static: tuple[Static, ...] = (),
    ) -> None:
        """A call is about to be traced."""
        if len(self._begun) >= _MOST_BEGUN:
            self._begun.clear()
        try:
            reference = weakref.ref(subject)
        except TypeError:
            reference = None
        self._begun[number] = _Begun(reference, function, key.config, static, get_ident())

    def end(self, number: int, trace: Trace, jaxpr: Any) -> None:
        """It was traced, and JAX keeps what came of it; None where nothing did."""
        begun = self._begun.pop(number, None)
        if begun is None or jaxpr is None:
            return
        programs = self._programs
        try:
            recipe = Recipe(trace, jaxpr, self._dead.append)
        except TypeError:
            return
        self.traced += 1
        if len(self._dead) >= _MOST_DEAD:
            self._forget_dead()
        if len(programs) >= _MOST:
            earliest = next(iter(programs))
            self._numbers.pop(id(programs[earliest].recipe.jaxpr), None)
            self._forget(earliest)
        programs[number] = Program(*begun, recipe)
        self._numbers[id(recipe.jaxpr)] = number

    def known(self, number: int, arrays: tuple[str, ...]) -> None:
        """What arrays on the host a program captured, by their content, when it was traced."""
        if arrays and number in self._programs:
            self._arrays[number] = arrays

    def arrays(self, number: int) -> tuple[str, ...] | None:
        """The same; None where that is not known, or where it captured none."""
        return self._arrays.get(number)

    def programs(self) -> list[tuple[int, Program]]:
        """Those that live, the earliest first."""
        self._forget_dead()
        return list(self._programs.items())

    def _forget_dead(self) -> None:
        while self._dead:
            try:
                reference = self._dead.popleft()
            except IndexError:  # another thread was first
                return
            number = self._numbers.pop(id(reference), None)
            if number is not None:
                self._forget(number)

    def _forget(self, number: int) -> None:
        self._programs.pop(number, None)
        self._arrays.pop(number, None)

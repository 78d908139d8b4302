"""The programs that JAX keeps, and what each was traced from, without keeping them alive.

For `retrace.audit`, which checks whether tracing the code again would give the same programs.
Costs a few weak references per outermost trace, which go away when JAX drops the program.
"""

from __future__ import annotations

import weakref
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from retrace.capture.contexts import Contexts, contexts
from retrace.capture.place import Owner, owner
from retrace.capture.unwrapped import unwrap
from retrace.jax_internals.retracing import Recipe
from retrace.jax_internals.traces import Trace
from retrace.model import Function, Key, Value
from retrace.model.miss_fields import MissFields

_MAX_PROGRAMS = 20_000
"""Maximum number of programs; beyond that, the oldest are not audited."""
_MAX_NESTED = 2_000
"""The same for what was only traced inside other functions."""
_DEAD_BATCH = 16
"""Number of dead programs that are removed together."""
_MAX_BEGUN = 64
"""Maximum number of traces in progress at once, across all threads."""


class Static(NamedTuple):
    """A static argument that may change while JAX considers it the same."""

    name: str
    value: Value
    """Its value when the function was traced."""
    object: weakref.ref[Any]


class KeptProgram(NamedTuple):
    """A program that JAX keeps."""

    subject: weakref.ref[Any] | None
    """The function that the user jitted; None if it cannot be weakly referenced."""
    function: Function
    """The state of the function when it was traced."""
    config: tuple[tuple[str, Value], ...]
    contexts: Contexts
    static: tuple[Static, ...]
    thread: int
    """The thread that traced it."""
    recipe: Recipe


def changeable(key: Key, given: Iterable[tuple[str, Any]]) -> tuple[Static, ...]:
    """The static arguments that can change unnoticed by JAX: objects with attributes.

    Args:
        key: the key of the call.
        given: the arguments of the call, with the names of their parameters.
    """
    values = dict(key.static)
    found: list[Static] = []
    for name, given_ in given:
        # An object of which all attributes are private shows none.
        if name in values and (values[name].data is None or type(values[name].data) is dict):
            try:
                found.append(Static(name, values[name], weakref.ref(given_)))
            except TypeError:
                continue
    return tuple(found)


class Kept:
    """The programs that JAX keeps, by the numbers of the misses that traced them."""

    def __init__(self) -> None:
        self._begun: dict[int, Callable[[Recipe], KeptProgram]] = {}
        """What traces in progress make of their recipe once they have one."""
        self._inside: set[int] = set()
        """Those that run inside another one."""
        self._nested: dict[int, KeptProgram] = {}
        """What was only traced inside another function so far, and is part of its program."""
        self._programs: dict[int, KeptProgram] = {}
        self._bodies: dict[int, tuple[int, KeptProgram]] = {}
        """Those of bodies of eager operations, with their misses, by the `id` of what refers to
        the program: an operation has several."""
        self._of_body: set[int] = set()
        """Traces in progress of such bodies."""
        self._arrays: dict[int, tuple[str, ...]] = {}
        # Filled by a C function, as in `capture.weak`: an exception in a Python callback
        # would be lost.
        self._dead: deque[Any] = deque()
        self._numbers: dict[int, int] = {}
        self.written: dict[int, str] = {}
        """What an audit saw a function write when it traced it again."""
        self.traced = 0
        """Total number of programs so far."""

    def begin(
        self,
        number: int,
        subject: Any,
        function: Function,
        key: Key,
        static: tuple[Static, ...],
        fields: MissFields,
    ) -> None:
        """Note that a call is about to be traced."""
        if len(self._begun) >= _MAX_BEGUN:
            self._begun.clear()
            self._inside.clear()
            self._of_body.clear()
        if "parent" in fields or "nested" in fields:
            self._inside.add(number)
        try:
            reference = weakref.ref(subject)
        except TypeError:
            reference = None
        self._begun[number] = partial(
            KeptProgram, reference, function, key.config, contexts(), static, get_ident()
        )

    def begin_body(
        self,
        number: int,
        subject: Any,
        function: Function,
        config: tuple[tuple[str, Value], ...],
        fields: MissFields,
    ) -> None:
        """Note that a body of an eager operation is about to be traced."""
        code = getattr(subject, "__code__", None)
        if code is not None and owner(code.co_filename) is Owner.JAX:
            # JAX drops its own function around the user's, as that of `lax.reduce`, at once.
            found = unwrap(subject)
            subject = subject if found.base is None or found.has_receiver else found.base
        self.begin(number, subject, function, Key(config=config), (), fields)
        self._of_body.add(number)

    def end(self, number: int, trace: Trace, jaxpr: Any) -> None:
        """A trace ended with `jaxpr`, which JAX keeps; None if it keeps nothing."""
        begun = self._begun.pop(number, None)
        is_inside, is_body = number in self._inside, number in self._of_body
        self._inside.discard(number)
        self._of_body.discard(number)
        if begun is None or jaxpr is None:
            return
        try:
            recipe = Recipe(trace, jaxpr, self._dead.append)
        except TypeError:
            return
        if len(self._dead) >= _DEAD_BATCH:
            self._forget_dead()
        if is_body:
            if not is_inside and len(self._bodies) < _MAX_NESTED:
                self._bodies[id(recipe.jaxpr)] = number, begun(recipe)
            return
        programs = self._nested if is_inside else self._programs
        if len(programs) >= (_MAX_NESTED if is_inside else _MAX_PROGRAMS):
            earliest = next(iter(programs))
            self._numbers.pop(id(programs[earliest].recipe.jaxpr), None)
            self._forget(earliest)
        programs[number] = begun(recipe)
        self._numbers[id(recipe.jaxpr)] = number
        self.traced += not is_inside

    def called(self, number: int | None) -> None:
        """A call runs the program that this trace made, perhaps inside another function."""
        if number is not None and (program := self._nested.pop(number, None)) is not None:
            self._programs[number] = program
            self.traced += 1

    def known(self, number: int, arrays: tuple[str, ...]) -> None:
        """Note the host arrays, by content, that a program captured when it was traced."""
        if arrays and (number in self._programs or number in self._nested):
            self._arrays[number] = arrays

    def arrays(self, number: int) -> tuple[str, ...] | None:
        """The captured host arrays; None if unknown or if it captured none."""
        return self._arrays.get(number)

    def programs(self) -> list[tuple[int, KeptProgram]]:
        """The programs that are still alive, earliest first."""
        self._forget_dead()
        return [*self._programs.items(), *self._bodies.values()]

    @property
    def bodies(self) -> int:
        """The number of them that are bodies of operations, not calls of the user's."""
        return len(self._bodies)

    def _forget_dead(self) -> None:
        while self._dead:
            try:
                reference = self._dead.popleft()
            except IndexError:  # another thread emptied it
                return
            self._bodies.pop(id(reference), None)
            number = self._numbers.pop(id(reference), None)
            if number is not None:
                self._forget(number)

    def _forget(self, number: int) -> None:
        self._programs.pop(number, None)
        self._nested.pop(number, None)
        self._arrays.pop(number, None)
        self.written.pop(number, None)

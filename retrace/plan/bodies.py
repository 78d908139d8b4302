"""The bodies of eager loops, and what is saved by jitting around them."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator

from retrace.model import Function, Value
from retrace.model.advice import DefineBodyOnce
from retrace.plan.history import Column, History
from retrace.plan.replay import Mapped
from retrace.reason.held import SELF, is_below


def is_jitted_around(history: History) -> bool:
    """Whether no one can define the bodies once: a library does, or they hold other values."""
    fixes = [row.fix for row in history.rows if isinstance(row.fix, DefineBodyOnce)]
    return any(fix.package is not None or fix.holds for fix in fixes)


def around_each(history: History, column: Column, mapped: Mapped) -> Mapped:
    """One value for all bodies that one function jitted around them runs.

    It is another function for each value of what cannot be its argument, like an optimizer.
    """
    fixes = [row.fix for row in history.rows]
    each = {name for fix in fixes if isinstance(fix, DefineBodyOnce) for name in fix.each}
    known: dict[Hashable, int] = {}
    found: list[int] = []
    for value in range(len(mapped)):
        row = column.values.index(value)
        fix = fixes[row]
        differs = not value or (isinstance(fix, DefineBodyOnce) and fix.each and not fix.inject)
        held = contents(history.rows[row].miss.bodies, each)
        found.append(known.setdefault((mapped[value], held), value) if differs else mapped[value])
    return tuple(found)


def with_own_call(around: Mapped) -> Iterator[int]:
    """The same with one call more for each, that of the function jitted around."""
    second: dict[int, int] = {}
    for value, first in enumerate(around):
        yield first if value == first else second.setdefault(first, value)


def contents(functions: Iterable[Function], names: Collection[str]) -> Hashable:
    """What functions hold or read under these names, as far as it can be told apart."""
    found: list[Hashable] = []
    for function in functions:
        read = [one for one in function.reads if one[0] in names or is_below(one[0], (*names,))]
        seen = {name for name, _ in read}
        # What is recorded only as part of an object is compared with the whole object: of what
        # the function reads, `self.rate` may be static and `self.state` traced.
        parts = (re.split(r"[.\[]", name, maxsplit=1)[0] for name in {*names} - seen)
        variables = {*parts}
        held = given_to(function)
        given = (*(one for one in held if one[0] in variables or one[0] in names), *read)
        found += [(name, *_content(one)) for name, one in given]
    return tuple(found)


def given_to(function: Function) -> tuple[tuple[str, Value], ...]:
    """What a function closes over, binds and has as defaults, and the object of a method."""
    receiver = function.receiver
    bound = () if receiver is None or receiver.value is None else ((SELF, receiver.value),)
    return (*function.closure, *function.bound, *function.defaults, *bound)


def _content(value: Value) -> tuple[Hashable, ...]:
    # A function is itself alone, whatever it holds: one that is made again is another argument.
    own = value.token if value.type == "function" else None
    return value.type, value.text, repr(value.data), own


def are_library_bodies(history: History) -> bool:
    """Whether a library defines the bodies of an eager loop, which it does at each call."""
    bodies = [body for row in history.rows for body in row.miss.bodies]
    return bool(bodies) and all(body.in_library for body in bodies)

"""Values that are set around calls and set back behind them, as modes are.

`with training(): step(x)` sets a global for as long as the call takes. An audit that comes later
finds it set back, and the function would be traced to another program now; but none of its calls
was out of date.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from inspect import CO_GENERATOR
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from retrace.auditing.changed_reads import changed_parts
from retrace.auditing.effects import outside_values, written
from retrace.auditing.places import values
from retrace.auditing.stack import ELEMENT, Place
from retrace.capture.objects import attributes_of, defined, derives, kind_of, own
from retrace.capture.place import Owner, owner
from retrace.model import Reading

_LEAVING = "__exit__"
_ATTRIBUTES = "__dict__"
_BY_ANY_NAME = (None, "update", "__setattr__", "__setitem__")
"""How an attribute is written whose name is no literal: by `setattr`, `vars(it).update`."""
_OF_A_PLACE = (threading.local, ContextVar)
"""What holds another value in each thread or context. What it held at a trace is not recorded."""
_STEPS = re.compile(r"[.\[\]]+")


class Mode(NamedTuple):
    """What a function reads that a context manager of the user's sets around calls."""

    name: str
    is_known: bool
    """Whether it is known to write that: some write any attribute of whatever they are given."""


class _Manager(NamedTuple):
    """What makes a context manager, or leaves one."""

    function: FunctionType
    receiver: Any = None
    """Of a method, an object that has it, or the class."""
    kind: type | None = None
    """Of a method, the class that defines it."""


class _Written(NamedTuple):
    """What all context managers write together."""

    names: set[str]
    """Globals, attributes, and containers that hold what is written."""
    whole: list[Any]
    """Objects of which any attribute may be written."""
    kinds: list[type]
    """Classes of such objects."""
    is_any: bool
    """Whether one writes any attribute of an object that is not known."""
    held: list[Any]
    """What holds another value in each thread or context."""


def set_around(
    functions: Sequence[tuple[Any, Any]],
    changed: Sequence[Reading],
    given: Sequence[tuple[str, Any]] = (),
) -> Mode | None:
    """The first of what has changed, if context managers of the user's write all of it.

    Args:
        functions: those that run in a trace, each with the object that it is bound to, or None.
        changed: what they read that has changed, such as `TRAIN`, `config.train` and `STACK[0]`.
        given: static arguments, by name.

    Returns:
        None if no context manager writes one of them. If nothing has changed, what differs in
        each thread or context, if there is such a thing and a context manager writes it.
    """
    names = [name for one in changed if not one.written for name in changed_parts(one)]
    read = [*_read(functions), *given]
    by_managers = _all_written(_managers(functions, [value for _, value in read]))
    if not names:
        held = (name for name, value in read if _is_one_of(value, by_managers.held))
        return next((Mode(name, True) for name in held), None)
    found = [_how(name, read, by_managers) for name in names]
    return None if None in found else Mode(names[0], all(found))


def _how(name: str, read: list[tuple[str, Any]], by_managers: _Written) -> bool | None:
    """Whether a context manager is known to write something; None if none does."""
    parts = _STEPS.split(name)
    if not by_managers.names.isdisjoint(parts):
        return True
    holders = [value for last, value in read if last.rpartition(".")[2] in parts[:-1]]
    for each in holders:
        kind = each if derives(kind_of(each), type) else kind_of(each)
        if _is_one_of(each, by_managers.whole) or derives(kind, *by_managers.kinds):
            return True
    return False if by_managers.is_any and len(parts) > 1 else None


def _read(functions: Sequence[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    for function, receiver in functions:
        for place, value in outside_values(function, receiver):
            yield str(place), value


def _all_written(managers: Iterator[_Manager]) -> _Written:
    found = _Written(set(), [], [], False, [])
    for one in managers:
        function, receiver, kind = one
        code = function.__code__
        given = {name: Place("argument", name) for name in code.co_varnames[: code.co_argcount]}
        for place, method in written(code, function, receiver, given, 0):
            found.held.extend(_held_on(place, one))
            steps = [step for step in place.steps if step not in (ELEMENT, _ATTRIBUTES)]
            is_whole = not steps or place.steps[-1] == _ATTRIBUTES
            if steps or place.source not in ("self", "argument"):
                found.names.add((steps or [place.name])[-1])
            if not is_whole or method not in _BY_ANY_NAME:
                continue
            if kind is not None and place.source == "self" and not steps:
                found.kinds.append(kind)
            elif objects := values(place._replace(steps=tuple(steps)), function, receiver):
                found.whole.extend(objects)
            else:
                found = found._replace(is_any=True)
    return found


def _held_on(place: Place, manager: _Manager) -> Iterator[Any]:
    """What is passed on the way to a place that is of a thread, or of a context."""
    for taken in range(len(place.steps) + 1):
        for value in values(place._replace(steps=place.steps[:taken]), *manager[:2]):
            if derives(kind_of(value), *_OF_A_PLACE):
                yield value


def _is_one_of(value: Any, several: list[Any]) -> bool:
    return any(value is one for one in several)


def _managers(functions: Sequence[tuple[Any, Any]], read: Sequence[Any]) -> Iterator[_Manager]:
    """Generator functions of the user's that make context managers, and each `__exit__`."""
    for value, *of in _defined(functions, read):
        if derives(kind_of(value), type):
            made, of = defined(value, _LEAVING), [value, value]
        else:
            is_bound = type(value) in (classmethod, staticmethod)
            made = value.__func__ if is_bound else value
            # By `contextlib.contextmanager`.
            made = attributes_of(made).get("__wrapped__") if type(made) is FunctionType else None
            if type(made) is FunctionType and not made.__code__.co_flags & CO_GENERATOR:
                continue
            of = [] if type(value) is staticmethod else of
        if type(made) is FunctionType and owner(made.__code__.co_filename) is Owner.USER:
            yield _Manager(made, *of)


def _defined(
    functions: Sequence[tuple[Any, Any]], read: Sequence[Any]
) -> Iterator[tuple[Any, ...]]:
    """What is defined beside functions, in modules that they use, and by classes.

    What a class defines comes with an object that has it, or the class, and with the class.
    """
    scopes: list[tuple[Any, ...]] = [(one.__globals__,) for one, _ in functions]
    for value in (*read, *(one for _, one in functions if one is not None)):
        if type(value) is ModuleType:
            file = attributes_of(value).get("__file__")
            if type(file) is str and owner(file) is Owner.USER:
                scopes.append((attributes_of(value),))
            continue
        kind = value if derives(kind_of(value), type) else kind_of(value)
        for base in own(kind, "__mro__"):
            if own(base, "__module__") != "builtins":
                scopes.append((own(base, "__dict__"), value, base))
                yield base, value, base
    seen: set[int] = set()
    for scope, *of in scopes:
        # The mapping that a class gives is another one each time.
        if (key := id(of[1] if of else scope)) not in seen:
            seen.add(key)
            yield from [(one, *of) for one in list(scope.values())]

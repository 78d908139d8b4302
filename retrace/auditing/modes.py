"""Values that are set around calls and set back behind them, as modes are.

`with training(): step(x)` sets a global for as long as the call takes. An audit that comes later
finds it set back, and the function would be traced to another program now; but none of its calls
was out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from inspect import CO_GENERATOR
from types import FunctionType, ModuleType
from typing import Any

from retrace.auditing.effects import outside_values, written
from retrace.auditing.stack import Place
from retrace.capture.objects import attributes_of, derives, kind_of, mro_attributes, own
from retrace.capture.place import Owner, owner

_LEAVING = "__exit__"


def set_around(functions: Sequence[tuple[Any, Any]], names: Sequence[str]) -> str | None:
    """The first name, if context managers of the user's write all of them.

    Args:
        functions: those that run in a trace, each with the object that it is bound to, or None.
        names: what they read, such as `TRAIN`, `config.train` and `STACK[0]`.

    Returns:
        None if there are no names, or if no context manager writes one of them.
    """
    if not names:
        return None
    by_managers = {name for one in _managers(functions) for name in _names_written(one)}
    found = [one for one in names if not by_managers.isdisjoint(_STEPS.split(one))]
    return names[0] if len(found) == len(names) else None


_STEPS = re.compile(r"[.\[\]]+")


def _names_written(manager: FunctionType) -> Iterator[str]:
    """The globals that a function writes, and the attributes of objects."""
    code = manager.__code__
    given = {name: Place("argument", name) for name in code.co_varnames[: code.co_argcount]}
    for place, _ in written(code, manager, None, given, 0):
        yield from place.steps[-1:] or (place.name,)


def _managers(functions: Sequence[tuple[Any, Any]]) -> Iterator[FunctionType]:
    """What makes a context manager: a generator function of the user's, or an `__exit__`."""
    for value in _defined(functions):
        made: Any = None
        if type(value) is FunctionType:
            made = attributes_of(value).get("__wrapped__")  # by `contextlib.contextmanager`
            if type(made) is FunctionType and not made.__code__.co_flags & CO_GENERATOR:
                made = None
        elif derives(kind_of(value), type):
            made = own(value, "__dict__").get(_LEAVING)
        if type(made) is FunctionType and owner(made.__code__.co_filename) is Owner.USER:
            yield made


def _defined(functions: Sequence[tuple[Any, Any]]) -> Iterator[Any]:
    """What is defined beside functions, in modules that they use, and by classes."""
    seen: set[int] = set()
    for function, receiver in functions:
        scopes = [function.__globals__]
        kinds = [] if receiver is None else [kind_of(receiver)]
        for _, value in outside_values(function, receiver):
            if type(value) is ModuleType:
                file = attributes_of(value).get("__file__")
                if type(file) is str and owner(file) is Owner.USER:
                    scopes.append(attributes_of(value))
            else:
                kinds.append(kind_of(value))
        for kind in kinds:
            scopes += [] if kind.__module__ == "builtins" else mro_attributes(kind)
        for scope in scopes:
            if id(scope) not in seen:
                seen.add(id(scope))
                yield from list(scope.values())

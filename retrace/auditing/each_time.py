"""Finds what gives a different value each time it is called: clocks, random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, MethodType
from typing import Any

from retrace.auditing.places import values
from retrace.auditing.reading import codes
from retrace.auditing.stack import Place, walk
from retrace.capture.notebook_cells import shown
from retrace.capture.objects import kind_of
from retrace.model import Source

_CHANGING = {
    "time": None,
    "random": None,
    "secrets": None,
    "uuid": frozenset(("uuid1", "uuid4")),
    "datetime": frozenset(("now", "utcnow", "today")),
    "os": frozenset(("urandom", "getrandom", "times")),
    "numpy.random": None,
}
"""Functions that return a different value each time, by module; None means all."""


def changing(functions: list[tuple[Any, Any]]) -> tuple[Source, ...]:
    """Where functions call something that returns a different value each time."""
    found: dict[Source, None] = {}
    for function, _ in functions:
        code: CodeType = function.__code__
        for place, line in _called(code):
            if any(map(_changes, values(place, function))):
                found[Source(f"{place}()", shown(code.co_filename), line)] = None
    return tuple(found)[:8]


def _called(code: CodeType) -> Iterator[tuple[Place, int]]:
    for inner in codes(code):
        for instruction, stack in walk(inner, has_receiver=False):
            at = instruction.positions and instruction.positions.lineno
            if instruction.opname.startswith("CALL") and at:
                for place in stack:
                    if place is not None and place.source in ("global", "cell"):
                        yield place, at


def _changes(value: Any) -> bool:
    """Whether it is a function that returns a different value each time."""
    name = getattr(value, "__name__", None)
    module = getattr(value, "__module__", None)
    if isinstance(value, MethodType | type(len)) and module is None:
        owner_ = getattr(value, "__self__", None)
        module = owner_.__module__ if isinstance(owner_, type) else kind_of(owner_).__module__
    if type(value) is MethodType:
        module = kind_of(value.__self__).__module__
    if (of := getattr(value, "__objclass__", None)) is not None:
        module = of.__module__.strip("_")  # a method of a class written in C
    if str(module).startswith("numpy.random"):
        module = "numpy.random"
    names = _CHANGING.get(str(module), ())
    return name is not None and (names is None or name in names)

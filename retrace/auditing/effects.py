"""What a function does besides computing, told from its bytecode; nothing of it is run.

A function that writes globals, cells, attributes or containers of others' at its trace would
write them again if it were traced anew. One that asks the clock makes another program each time.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from random import Random
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np

from retrace.auditing.stack import Place, walk
from retrace.capture.interpreter import BYTECODE, lacks
from retrace.capture.notebook_cells import shown
from retrace.capture.objects import attributes_of, defined, derives, kind_of
from retrace.model import Source

_MISSING = object()
_WRITING = frozenset(
    (
        *("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "pop"),
        *("popleft", "popitem", "setdefault", "remove", "discard", "clear", "sort", "reverse"),
        *("write", "writelines", "put", "put_nowait", "subtract", "fill", "itemset", "set"),
        *("__setitem__", "__setattr__", "move_to_end", "rotate", "send", "release", "acquire"),
    )
)
_INTO = {
    "STORE_ATTR": 1,
    "DELETE_ATTR": 1,
    "STORE_SUBSCR": 2,
    "DELETE_SUBSCR": 2,
    "STORE_SLICE": 3,
}
"""Instructions that write into an object, and how deep it lies on the stack."""
_NOT_WRITTEN = ("jax", "jaxlib", "optax", "flax", "equinox", "haiku", "chex")
"""Packages whose `update`, `set` and `add` give something new back."""
_CHANGING = {
    "time": None,
    "random": None,
    "secrets": None,
    "uuid": frozenset(("uuid1", "uuid4")),
    "datetime": frozenset(("now", "utcnow", "today")),
    "os": frozenset(("urandom", "getrandom", "times")),
    "numpy.random": None,
}
"""Modules whose functions give another value each time; None for all of them."""


def writes(functions: list[tuple[Any, Any]]) -> str | None:
    """The first thing that functions write that is not their own; None where they write none.

    Args:
        functions: each with the object that its first parameter is, or None.
    """
    for function, receiver in functions:
        for place, method in _written(function.__code__, has_receiver=receiver is not None):
            if method is None or _is_changed_by(_value(place, function, receiver)):
                return str(place)
        for place, value in _held(function, receiver):
            if defined(kind_of(value), "__next__") is not None:
                return str(place)  # an iterator, or a file: to read it moves it on
    return None


def generators(functions: list[tuple[Any, Any]]) -> list[Any]:
    """The generators of random numbers that functions have from outside."""
    found: dict[int, Any] = {}
    for function, receiver in functions:
        for _, value in _held(function, receiver):
            if isinstance(value, Random | np.random.Generator | np.random.RandomState):
                found[id(value)] = value
    return list(found.values())


def _held(function: FunctionType, receiver: Any) -> Iterator[tuple[Place, Any]]:
    """What a function takes from outside, as it is now."""
    if lacks(BYTECODE):
        return
    seen: set[Place] = set()
    code: CodeType = function.__code__
    for inner in _codes(code):
        has_receiver = receiver is not None and inner is code
        for _, stack in walk(inner, has_receiver=has_receiver):
            place = stack[-1] if stack else None
            if place is not None and place.source != "builtin" and place not in seen:
                seen.add(place)
                value = _value(place, function, receiver)
                if value is not _MISSING:
                    yield place, value


def changing(functions: list[tuple[Any, Any]]) -> tuple[Source, ...]:
    """Where functions ask for what is another value each time."""
    found: dict[Source, None] = {}
    for function, _ in functions:
        code: CodeType = function.__code__
        for place, line in _called(code):
            value = _value(place, function, None)
            if _changes(value):
                found[Source(f"{place}()", shown(code.co_filename), line)] = None
    return tuple(found)[:8]


def read_at(functions: list[tuple[Any, Any]], name: str) -> tuple[str, int] | tuple[None, None]:
    """The line at which functions read something from outside, by the name of the read."""
    parts = [part for part in name.replace("]", "").replace("[", ".").split(".") if part]
    last = parts[-1].strip("'\"")
    for wanted in (last, parts[0]):
        for function, _ in functions:
            code: CodeType = function.__code__
            for inner in _codes(code):
                for instruction in dis.get_instructions(inner):
                    at = instruction.positions and instruction.positions.lineno
                    if (
                        at
                        and instruction.opname.startswith("LOAD")
                        and _names(instruction, wanted)
                    ):
                        return shown(code.co_filename), at
    return None, None


def _names(instruction: dis.Instruction, wanted: str) -> bool:
    # Since Python 3.13 two variables may be loaded at once.
    loaded: Any = instruction.argval
    return (
        wanted in cast(tuple[Any, ...], loaded)
        if type(loaded) is tuple
        else type(loaded) is str and loaded == wanted
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _codes(constant)


def _written(code: CodeType, *, has_receiver: bool) -> Iterator[tuple[Place, str | None]]:
    """What is written, each with the method that does it, where a method may."""
    if lacks(BYTECODE):
        return
    for instruction, stack in walk(code, has_receiver=has_receiver):
        kind, value = instruction.opname, instruction.argval
        if kind in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            yield Place("global", value), None
        elif kind in ("STORE_DEREF", "DELETE_DEREF") and value in code.co_freevars:
            yield Place("cell", value), None
        elif (depth := _INTO.get(kind)) is not None:
            if (place := _top(stack, depth)) is not None:
                steps = (*place.steps, value) if kind.endswith("ATTR") else place.steps
                yield place._replace(steps=steps), None
        elif kind in ("LOAD_ATTR", "LOAD_METHOD") and value in _WRITING:
            if (place := _top(stack, 1)) is not None:
                yield place, value
        elif kind == "CALL" and (place := _changed_by_builtin(stack)) is not None:
            yield place, None
    # A function that is defined inside writes the variables of the one around it: its own.
    for constant in code.co_consts:
        if type(constant) is CodeType:
            for place, method in _written(constant, has_receiver=False):
                if place.source == "global" or place.name in code.co_freevars:
                    yield place, method


def _changed_by_builtin(stack: list[Place | None]) -> Place | None:
    """What `next` or `setattr` is given, where a call of it is about to run."""
    by = [one for one in stack[-5:] if one is not None and one.source == "builtin"]
    given = [one for one in stack[-3:] if one is not None and one.source != "builtin"]
    return given[0] if by and given else None


def _top(stack: list[Place | None], depth: int) -> Place | None:
    place = stack[-depth] if len(stack) >= depth else None
    return None if place is None or place.source == "builtin" else place


def _called(code: CodeType) -> Iterator[tuple[Place, int]]:
    for inner in _codes(code):
        for instruction, stack in walk(inner, has_receiver=False):
            at = instruction.positions and instruction.positions.lineno
            if instruction.opname.startswith("CALL") and at:
                for place in stack:
                    if place is not None and place.source in ("global", "cell"):
                        yield place, at


def _value(place: Place, function: FunctionType, receiver: Any) -> Any:
    """What stands at a place now, without running code of the user's."""
    value: Any = _MISSING
    if place.source == "global":
        names: dict[str, Any] = function.__globals__
        value = names.get(place.name, _MISSING)
    elif place.source == "self":
        value = receiver
    else:
        free = function.__code__.co_freevars
        if place.name in free and function.__closure__ is not None:
            try:
                value = function.__closure__[free.index(place.name)].cell_contents
            except ValueError:
                return _MISSING
    for step in place.steps:
        if value is not _MISSING:
            value = _attribute(value, step)
    return value


def _attribute(value: Any, name: str) -> Any:
    kind = kind_of(value)
    held: dict[str, Any] = attributes_of(value)
    if kind is ModuleType:
        held = cast(dict[str, Any], object.__getattribute__(value, "__dict__"))
    if name in held:
        return held[name]
    found = defined(value if derives(kind, type) else kind, name)
    return _MISSING if found is None else found


def _is_changed_by(value: Any) -> bool:
    """Whether an object is changed by its methods named `append`, `update`, ..."""
    if value is _MISSING or isinstance(value, tuple | str | bytes | ModuleType | type):
        return False
    top = str(kind_of(value).__module__).partition(".")[0]
    return top not in _NOT_WRITTEN


def _changes(value: Any) -> bool:
    """Whether it is a function that gives another value each time."""
    if value is _MISSING:
        return False
    name = getattr(value, "__name__", None)
    module = getattr(value, "__module__", None)
    if isinstance(value, MethodType | type(len)) and module is None:
        owner = getattr(value, "__self__", None)
        module = owner.__module__ if isinstance(owner, type) else kind_of(owner).__module__
    if type(value) is MethodType:
        module = kind_of(value.__self__).__module__
    if (owner := getattr(value, "__objclass__", None)) is not None:
        module = owner.__module__.strip("_")  # of a method of a class written in C
    if str(module).startswith("numpy.random"):
        module = "numpy.random"
    names = _CHANGING.get(str(module), ())
    return name is not None and (names is None or name in names)

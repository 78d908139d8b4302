"""Finds side effects of a function from its bytecode, without running it.

A function that writes globals, cells, files, or attributes or containers of others when traced
would write them again when traced again.
"""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Iterator
from functools import cached_property, partial
from random import Random
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from retrace.auditing.iterators import advances, defaults, is_iterator
from retrace.auditing.outward import acts, acts_by_name
from retrace.auditing.places import values
from retrace.auditing.reading import codes
from retrace.auditing.stack import Call, Place, called, walk
from retrace.auditing.uses import called_by_python, used
from retrace.capture.interpreter import BYTECODE, lacks
from retrace.capture.objects import attributes_of, defined, derives, kind_of, package
from retrace.capture.place import Owner, owner

_WRITING = frozenset(
    (
        *("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "pop"),
        *("popleft", "popitem", "setdefault", "remove", "discard", "clear", "sort", "reverse"),
        *("write", "writelines", "put", "put_nowait", "subtract", "fill", "itemset", "set"),
        *("__setitem__", "__setattr__", "move_to_end", "rotate", "send", "release", "acquire"),
    )
)
_TAKING = frozenset(("get", "get_nowait"))
"""Methods that take something out of a queue; those of other classes only read."""
_QUEUES = ("queue", "_queue", "asyncio", "multiprocessing")
_STORES = {
    "STORE_ATTR": 1,
    "DELETE_ATTR": 1,
    "STORE_SUBSCR": 2,
    "DELETE_SUBSCR": 2,
    "STORE_SLICE": 3,
}
"""Instructions that write into an object, and the object's depth on the stack."""
_WRITING_BUILTINS = frozenset(("setattr", "delattr"))
_IN_PLACE = "in place"
"""Instead of a method name: an operator such as `+=`, which changes mutable objects."""
_ADVANCED = "next"
"""Instead of a method name: `next`, which changes an iterator, but no container."""
_OUTWARD = "outward"
"""Instead of a method name: a call that acts outside the program."""
_READ_ANEW = (list, tuple, dict, set, frozenset, deque, str, bytes, range, np.ndarray)
"""Each `iter` of these begins at the first item."""
_MUTABLE = (list, dict, set, deque, bytearray, np.ndarray)
_WRITING_FUNCTIONS = {
    "_heapq": None,
    "heapq": None,
    "_struct": frozenset(("pack_into",)),
    "_bisect": frozenset(("insort", "insort_left", "insort_right")),
    "_operator": frozenset(("setitem", "delitem", "iadd", "iconcat", "ior", "iand", "imul")),
    "random": frozenset(("shuffle",)),
    "numpy": frozenset(("copyto", "put", "place", "putmask", "fill_diagonal", "at")),
}
"""Functions that change their arguments, by module; None means all."""
_MAX_DEPTH = 3
_IMMUTABLE_PACKAGES = ("jax", "jaxlib", "optax", "flax", "equinox", "haiku", "chex")
"""Packages whose `update`, `set` and `add` return a new object."""


class Effect(NamedTuple):
    """A side effect of a function."""

    name: str
    """What it writes or calls."""
    is_call: bool = False
    """Whether it is a call that acts outside the program."""


def effect(functions: list[tuple[Any, Any]]) -> Effect | None:
    """The first side effect of some functions; None if they have none.

    Args:
        functions: each with the object bound to its first parameter, or None.
    """
    if lacks(BYTECODE):
        return None
    for function, receiver in functions:
        if (found := _effect(function, receiver)) is not None:
            return found
        for place, value in (*defaults(function), *used(function, receiver)):
            if is_iterator(value) or advances(value):
                return Effect(str(place))  # reading an iterator or a file advances it
            if (method := _of_class(value)) is not None:
                of = place._replace(steps=place.steps[:-1])
                classes = [None, *values(of, function, receiver)]
                if found := _effect(method, None if type(value) is staticmethod else classes[-1]):
                    return found
    for function, receiver, creates in called_by_python(functions):
        if found := _effect(function, receiver, creates=creates):
            return found
    return None


def _effect(function: FunctionType, receiver: Any, *, creates: bool = False) -> Effect | None:
    """The first side effect of one function; `creates` if its receiver is the class of it."""
    for place, method in written(function.__code__, function, receiver, {}, 0):
        if method == _OUTWARD:
            return Effect(str(place), is_call=True)
        if method is None and creates and place.source == "self":
            continue  # an attribute of the new object
        if method is None or _is_changed_by(values(place, function, receiver), method):
            return Effect(str(place))
    return None


def _of_class(value: Any) -> FunctionType | None:
    """The function of a class or static method, or of a property that is yet to be computed."""
    function = value.__func__ if type(value) in (classmethod, staticmethod) else None
    function = value.func if type(value) is cached_property else function
    if type(function) is not FunctionType:
        return None
    return function if owner(function.__code__.co_filename) is Owner.USER else None


def kept_by(functions: tuple[tuple[Any, Any], ...]) -> str | None:
    """What functions write that they hold themselves, such as a counter in a closure."""
    if lacks(BYTECODE):
        return "something"
    for function, receiver in functions:
        code: CodeType = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        # A partial may hold any of them.
        given = {name: Place("argument", name) for name in code.co_varnames[:count]}
        for place, method in written(code, function, receiver, given, 0):
            if place.source == "global" or method == _OUTWARD:
                continue
            found = values(place, function, receiver)
            if method is None or not found or _is_changed_by(found, method):
                return str(place)
    return None


def outside_values(function: FunctionType, receiver: Any) -> Iterator[tuple[Place, Any]]:
    """What a function uses from outside, with its current value."""
    if lacks(BYTECODE):
        return
    seen: set[Place] = set()
    code: CodeType = function.__code__
    for inner in codes(code):
        has_receiver = receiver is not None and inner is code
        for _, stack in walk(inner, has_receiver=has_receiver):
            for place in stack[-2:]:  # what is called lies below an empty place
                if place is not None and place.is_outside and place not in seen:
                    seen.add(place)
                    for value in values(place, function, receiver):
                        yield place, value


def written(
    code: CodeType, function: FunctionType, receiver: Any, given: dict[str, Place], depth: int
) -> Iterator[tuple[Place, str | None]]:
    """What is written, each with the method that may do it.

    Args:
        code: the code of the function, or of a function defined inside it.
        function: provides the globals and cells.
        receiver: the object bound to the function's first parameter.
        given: parameters that the caller passed from outside.
        depth: the number of calls in between.
    """
    has_receiver = receiver is not None and code is function.__code__
    keywords: tuple[str, ...] = ()
    for instruction, stack in walk(code, has_receiver=has_receiver, given=given):
        yield from _written_at(instruction, stack, code)
        if instruction.opname == "KW_NAMES":
            # Python 3.11's `dis` does not resolve the argument.
            keywords = code.co_consts[instruction.arg or 0]
        elif (call := called(instruction, stack, keywords)) is not None:
            keywords = ()
            yield from _written_by(call, function, receiver, depth)
    # A nested function may write variables of the enclosing function: these are its own.
    for constant in code.co_consts:
        if type(constant) is CodeType:
            for place, method in written(constant, function, receiver, {}, depth):
                if place.source == "global" or place.name in code.co_freevars:
                    yield place, method


def _written_at(
    instruction: dis.Instruction, stack: list[Place | None], code: CodeType
) -> Iterator[tuple[Place, str | None]]:
    """What one instruction writes, calls aside."""
    kind, value = instruction.opname, instruction.argval
    if kind in ("STORE_GLOBAL", "DELETE_GLOBAL"):
        yield Place("global", value), None
    elif kind in ("STORE_DEREF", "DELETE_DEREF") and value in code.co_freevars:
        yield Place("cell", value), None
    elif (into := _STORES.get(kind)) is not None:
        if (place := _top(stack, into)) is not None:
            yield place.step(value) if kind.endswith("ATTR") else place, None
    elif kind in ("LOAD_ATTR", "LOAD_METHOD"):
        if acts_by_name(value):
            yield Place("global", value), _OUTWARD
        elif value in _WRITING | _TAKING and (place := _top(stack, 1)) is not None:
            yield place, value
    elif (
        kind == "BINARY_OP"
        and instruction.argrepr.endswith("=")
        and (place := _top(stack, 2)) is not None
    ):
        yield place, _IN_PLACE


def _written_by(
    call: Call, function: FunctionType, receiver: Any, depth: int
) -> Iterator[tuple[Place, str | None]]:
    """What a call writes."""
    callee = call.callee
    if callee is None:
        return
    outside = [place for place in call.arguments if place is not None and place.is_outside]
    texts = [place.name for place in call.arguments if place and place.source == "constant"]
    if callee.source == "builtin":
        if callee.name == "next" and outside:
            yield outside[0], _ADVANCED
        elif callee.name in _WRITING_BUILTINS:
            into, named = (*call.arguments, None, None)[:2]
            if into is not None and into.is_outside:
                literal = named is not None and named.source == "constant" and named.name
                yield (into.step(literal) if literal else into), None
        elif acts(None, callee.name, texts, unclear=_is_unclear(call)):
            yield callee, _OUTWARD
        return
    yield from _put_out(call)
    for value in values(callee, function, receiver):
        value = value.func if type(value) is partial else value
        if type(own := defined(kind_of(value), "__call__")) is FunctionType:
            # A callable object, perhaps of a library, may count its calls.
            if package(kind_of(value)) not in ("jax", "jaxlib"):
                yield from _written_in(own, call._replace(receiver=callee), depth)
        elif acts(value, callee.steps[-1] if callee.steps else callee.name, texts):
            yield callee, _OUTWARD
        elif type(value) is FunctionType:
            yield from _written_in(value, call, depth)
        elif call.receiver is None and _writes_own(value):
            yield callee, None
        elif outside and _writes_arguments(value, is_bound=_is_bound(call, function, receiver)):
            named = texts[:1] if getattr(value, "__name__", None) == "__setattr__" else ()
            yield outside[0].step(*named), None


def _put_out(call: Call) -> Iterator[tuple[Place, str | None]]:
    """What NumPy writes into: `np.add(a, b, out=total)`."""
    named = dict(zip(reversed(call.keywords), reversed(call.arguments), strict=False))
    if (into := named.get("out")) is not None and into.is_outside:
        yield into, _IN_PLACE


def _is_unclear(call: Call) -> bool:
    """Whether an argument after the first is no literal."""
    return any(place is None or place.source != "constant" for place in call.arguments[1:])


def _written_in(
    callee: FunctionType, call: Call, depth: int
) -> Iterator[tuple[Place, str | None]]:
    """Which arguments a user function writes, as named by the caller."""
    for _ in range(_MAX_DEPTH):  # skip wrappers, such as type checkers
        if type(wrapped := attributes_of(callee).get("__wrapped__")) is FunctionType:
            callee = wrapped
    code = callee.__code__
    is_object = call.receiver is call.callee
    if depth >= _MAX_DEPTH or not (is_object or owner(code.co_filename) is Owner.USER):
        return
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    by_position = len(call.arguments) - len(call.keywords)
    is_method = is_object or (call.receiver is not None and names[:1] in (["self"], ["cls"]))
    taken = [*names[is_method : is_method + by_position], *call.keywords]
    given = {
        name: place
        for name, place in zip(taken, call.arguments, strict=False)
        if place is not None and place.is_outside and name in names
    }
    if is_method and call.receiver is not None:
        given[names[0]] = call.receiver
    if not given:
        return
    inner = {name: Place("argument", name) for name in given}
    for place, method in written(code, callee, None, inner, depth + 1):
        if place.source == "argument":
            yield given[place.name].step(*place.steps), method


def _is_bound(call: Call, function: FunctionType, receiver: Any) -> bool:
    """Whether it calls a method of an object: not `list.append(log, x)`."""
    of = [] if call.receiver is None else values(call.receiver, function, receiver)
    return bool(of) and not any(derives(kind_of(one), type) for one in of)


def _writes_arguments(value: Any, *, is_bound: bool) -> bool:
    """Whether a function that the user did not write changes its arguments.

    Args:
        value: the function.
        is_bound: whether it is called as a method, whose object is no argument.
    """
    name, module = getattr(value, "__name__", None), getattr(value, "__module__", None)
    if (kind := getattr(value, "__objclass__", None)) is not None:
        # `list.append(log, x)`, `object.__setattr__(self, "n", 1)`
        return (name in _WRITING and not is_bound) or (kind is np.ufunc and name == "at")
    if type(value) is MethodType or isinstance(value, type(len)):
        of: object = getattr(value, "__self__", None)
        if isinstance(of, Random):
            module = "random"
        elif isinstance(of, np.ufunc):
            module = "numpy"
    names = _WRITING_FUNCTIONS.get(str(module), ())
    return names is None or name in names


def _writes_own(value: Any) -> bool:
    """Whether it is a method such as `log.append`, kept under a name of its own."""
    of = value.__self__ if isinstance(value, BuiltinMethodType) else None
    return of is not None and _is_changed_by([of], value.__name__) and value.__name__ in _WRITING


def _top(stack: list[Place | None], depth: int) -> Place | None:
    place = stack[-depth] if len(stack) >= depth else None
    return place if place is not None and place.is_outside else None


def _is_changed_by(found: list[Any], method: str, depth: int = 0) -> bool:
    """Whether a method such as `append` or `update` changes one of these objects."""
    if method == _IN_PLACE:
        return any(isinstance(value, _MUTABLE) for value in found)
    if method == _ADVANCED:
        # What a slot or property holds is not known, nor what an `__iter__` of the user's does.
        return not found or not all(derives(kind_of(value), *_READ_ANEW) for value in found)
    return any(_changes_itself(value, method, depth) for value in found)


def _changes_itself(value: Any, method: str, depth: int) -> bool:
    if isinstance(value, tuple | str | bytes | ModuleType | type):
        return False
    top = str(kind_of(value).__module__).partition(".")[0]
    function = defined(kind_of(value), method)
    if function is None or top in _IMMUTABLE_PACKAGES:
        return False
    if method in _TAKING:
        return top in _QUEUES
    if type(function) is not FunctionType or depth >= _MAX_DEPTH:
        return True
    # A Python method may return a new object instead: look at its code.
    found = written(function.__code__, function, value, {}, depth + 1)
    return any(
        place.source == "self"
        and (
            by is None
            or by == _OUTWARD
            or _is_changed_by(values(place, function, value), by, depth + 1)
        )
        for place, by in found
    )

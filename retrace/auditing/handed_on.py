"""How functions use what they read: handed to JAX as it is, or looked at by Python.

What JAX gets as it is can be passed as an argument: a number that a program multiplies by. What
Python decides or computes with (`if`, `int`, `math.sqrt`, NumPy, a key of a dict) cannot, since
an argument has no value while the function is traced.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from retrace.auditing.places import values
from retrace.auditing.reading import codes
from retrace.auditing.stack import Call, Place, called, is_subscript, walk
from retrace.capture.interpreter import BYTECODE, lacks
from retrace.capture.objects import attributes_of, derives, kind_of, package
from retrace.capture.place import Owner, owner
from retrace.model import Reading, Use

_NAME = re.compile(r"\w+")
_MAX_DEPTH = 3
_MAX_USES = 200
_OF_JAX = ("jax", "jaxlib")
_MOVING = (
    *("LOAD_", "STORE_FAST", "STORE_DEREF", "COPY", "SWAP", "PUSH_", "POP_TOP", "POP_ITER"),
    *("END_", "JUMP_BACKWARD", "JUMP_FORWARD", "RESUME", "PRECALL", "NOP", "NOT_TAKEN"),
    *("CACHE", "EXTENDED_ARG", "MAKE_"),
)
"""Instructions that only move values, or that look at none."""
_LITERAL = Place("constant", "")
_TAKING = {"BINARY_SLICE": 3, "BUILD_SLICE": 3, "COMPARE_OP": 2, "CONTAINS_OP": 2, "IS_OP": 2}
"""Instructions by which Python looks at several values; any other looks at one."""
_BUILDING = ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET", "BUILD_MAP", "BUILD_STRING")
_ITERATING = ("GET_ITER", "FOR_ITER", "UNPACK_SEQUENCE")
"""Their elements are used by later instructions, and the number of them is part of the tree of an
argument."""


def uses(functions: Sequence[tuple[Any, Any]], reads: Iterable[Reading]) -> tuple[Use, ...]:
    """How functions use what comes from outside; empty if bytecode cannot tell.

    Args:
        functions: each with the object bound to its first parameter, or None; first the one that
            was traced.
        reads: what has changed, which may be parameters of the first function: those with a
            default, and static ones.
    """
    if lacks(BYTECODE):
        return ()
    found: dict[Use, None] = {}
    names = [_NAME.match(one.name) for one in reads]
    roots = {name[0]: Place("argument", name[0]) for name in names if name}
    for index, (function, receiver) in enumerate(functions):
        for place, as_it_is in _of_function(function, receiver, {} if index else roots, 0):
            path = (place.name, *place.steps)
            # What a recording calls by the name of the object is `self` inside its methods.
            if index and place.source == "self":
                path = path[1:]
            if path:
                found[Use(path, as_it_is)] = None
            if len(found) > _MAX_USES:
                return ()
    return tuple(found)


def _of_function(
    function: FunctionType, receiver: Any, given: dict[str, Place], depth: int
) -> Iterator[tuple[Place, bool]]:
    top: CodeType = function.__code__
    names = top.co_varnames[: top.co_argcount + top.co_kwonlyargcount]
    parameters = {name: place for name, place in given.items() if name in names}
    for code in codes(top):
        has_receiver = code is top and receiver is not None
        known = parameters if code is top else {}
        keywords: tuple[str, ...] = ()
        steps = walk(code, has_receiver=has_receiver, given=known)
        for instruction, stack in _with_computed(steps):
            if instruction.opname == "KW_NAMES":
                # Python 3.11's `dis` does not resolve the argument.
                keywords = code.co_consts[instruction.arg or 0]
            elif (call := called(instruction, stack, keywords)) is not None:
                keywords = ()
                yield from _of_call(call, function, receiver, depth)
            else:
                yield from _of_instruction(instruction, stack, depth)


def _with_computed(
    steps: Iterator[tuple[dis.Instruction, list[Place | None]]],
) -> Iterator[tuple[dis.Instruction, list[Place | None]]]:
    """The same instructions, where a number computed from another one stands for that one.

    So `if k - 1:` and `int(2 * k)` use `k`; an array times `k` is no such number.
    """
    result: Place | None = None
    for instruction, stack in steps:
        if result is not None and stack and stack[-1] is None:
            stack[-1] = result
        yield instruction, stack
        result = None
        if instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            result = _LITERAL
        elif instruction.opname in ("BINARY_OP", "UNARY_NEGATIVE"):
            taken = stack[-2 if instruction.opname == "BINARY_OP" else -1 :]
            if None not in taken:
                result = next((place for place in taken if place and place.is_outside), None)


def _of_instruction(
    instruction: dis.Instruction, stack: list[Place | None], depth: int
) -> Iterator[tuple[Place, bool]]:
    kind = instruction.opname
    if kind.startswith(_MOVING) or kind in _ITERATING:
        return
    as_it_is = kind == "UNARY_NEGATIVE"
    if is_subscript(instruction):
        taken = stack[-1:]  # the key; what it is taken from is used where the item is
    elif kind == "BINARY_OP":
        taken, as_it_is = stack[-2:], True
    elif kind == "RETURN_VALUE":
        # The result of a helper is not followed.
        taken, as_it_is = stack[-1:], not depth
    elif kind in _BUILDING:
        count = (instruction.arg or 0) * (1 + (kind == "BUILD_MAP"))
        taken = stack[max(0, len(stack) - count) :]
    else:
        taken = stack[-_TAKING.get(kind, 1) :]
    for place in taken:
        if place is not None and place.is_outside:
            yield place, as_it_is


def _of_call(
    call: Call, function: FunctionType, receiver: Any, depth: int
) -> Iterator[tuple[Place, bool]]:
    callee, of = call.callee, call.receiver
    found = [] if callee is None else values(callee, function, receiver)
    # A method of the user's is one of the functions itself, with its object.
    is_known = _is_module(call, function) or (found and all(map(_runs_too, found)))
    if of is not None and of.is_outside and not is_known:
        yield of, False
    outside = [place for place in call.arguments if place is not None and place.is_outside]
    if not outside:
        return
    if not found or (callee is not None and callee.source == "builtin"):
        yield from ((place, False) for place in outside)
        return
    for value in found:
        if depth < _MAX_DEPTH and _runs_too(value):
            yield from _of_function(value, None, _given(value, call), depth + 1)
        else:
            yield from ((place, _is_of_jax(value)) for place in outside)


def _given(callee: FunctionType, call: Call) -> dict[str, Place]:
    """The parameters of a user's function that are given something from outside."""
    code = callee.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    by_position = len(call.arguments) - len(call.keywords)
    is_method = call.receiver is not None and names[:1] in (("self",), ("cls",))
    taken = [*names[is_method : is_method + by_position], *call.keywords]
    return {
        name: place
        for name, place in zip(taken, call.arguments, strict=False)
        if place is not None and place.is_outside
    }


def _is_module(call: Call, function: FunctionType) -> bool:
    """Whether it calls a function of a module, such as `math.sqrt`."""
    of = [] if call.receiver is None else values(call.receiver, function)
    return any(kind_of(one) is ModuleType for one in of)


def _runs_too(value: Any) -> bool:
    """Whether it is a function of the user's, behind no wrapper."""
    return (
        type(value) is FunctionType
        and "__wrapped__" not in attributes_of(value)
        and owner(value.__code__.co_filename) is Owner.USER
    )


def _is_of_jax(value: Any) -> bool:
    kind = kind_of(value)
    if kind is FunctionType:
        return str(value.__module__).partition(".")[0] in _OF_JAX
    return package(value if derives(kind, type) else kind) in _OF_JAX

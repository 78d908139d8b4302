"""What functions do with what is outside of them: use it, enter it, or only look at it.

`Dtype.current`, `callable(Timer)` and `timer is None` neither create nor enter anything.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from retrace.auditing.places import values
from retrace.auditing.reading import codes
from retrace.auditing.stack import Call, Place, called, walk
from retrace.capture.interpreter import BYTECODE, lacks
from retrace.capture.objects import attributes_of, defined, derives, kind_of
from retrace.capture.place import Owner, owner

_LOOKING = (
    *("LOAD_ATTR", "LOAD_METHOD", "IS_OP", "COMPARE_OP", "TO_BOOL", "UNARY_NOT"),
    *("CHECK_EXC_MATCH", "POP_JUMP"),
)
"""Instructions that only look at what they are given; what they derive has a place of its own."""
_ASKING = tuple(map(id, (callable, isinstance, issubclass, hasattr, id, type)))
"""Functions that do."""
_WITH = frozenset(("BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL"))
_WITH_BY_NAME = frozenset(("enter_context", "enter_async_context", "__enter__", "__exit__"))
_CREATING = ("__new__", "__init__", "__post_init__")
_ENTERING = ("__enter__", "__exit__")
_MAX_DEPTH = 3


def used(function: FunctionType, receiver: Any) -> Iterator[tuple[Place, Any]]:
    """What a function has from outside and does not only look at, with its current value."""
    if lacks(BYTECODE):
        return
    seen: set[Place] = set()
    for inner in codes(function.__code__):
        has_receiver = receiver is not None and inner is function.__code__
        for place in _used_in(inner, function, receiver, has_receiver=has_receiver):
            if place.is_outside and place not in seen:
                seen.add(place)
                for value in values(place, function, receiver):
                    yield place, value


def _used_in(
    code: CodeType, function: FunctionType, receiver: Any, *, has_receiver: bool
) -> Iterator[Place]:
    before: list[Place | None] = []
    last: dis.Instruction | None = None
    for instruction, stack in walk(code, has_receiver=has_receiver):
        if last is not None and last.opname not in ("COPY", "SWAP"):
            taken = [
                place
                for at, place in enumerate(before)
                if place is not None and (at >= len(stack) or stack[at] is not place)
            ]
            if taken and not _only_looks(last, before, function, receiver):
                yield from taken
        if instruction.opname in ("GET_ITER", "CONTAINS_OP") and stack and stack[-1] is not None:
            yield stack[-1]  # which may be advanced
        before, last = list(stack), instruction
    yield from (place for place in before if place is not None)


def _only_looks(
    instruction: dis.Instruction,
    stack: list[Place | None],
    function: FunctionType,
    receiver: Any,
) -> bool:
    if instruction.opname.startswith(_LOOKING) or instruction.opname == "CONTAINS_OP":
        return True
    call = called(instruction, stack)
    if call is None or call.callee is None:
        return False
    if call.callee == Place("builtin", "type"):
        return len(call.arguments) == 1
    return any(id(one) in _ASKING for one in values(call.callee, function, receiver))


def entered(function: FunctionType, receiver: Any) -> Iterator[Any]:
    """What a function may enter as a `with` does: objects, and classes of new ones."""
    if lacks(BYTECODE):
        return
    for inner in codes(function.__code__):
        has_receiver = receiver is not None and inner is function.__code__
        if not _WITH_BY_NAME.isdisjoint(inner.co_names):
            yield from _all_used(function, receiver)
        made: Call | None = None
        for instruction, stack in walk(inner, has_receiver=has_receiver):
            if instruction.opname in _WITH:
                top = stack[-1] if stack else None
                found = (
                    None if instruction.is_jump_target else _known(top, made, function, receiver)
                )
                yield from _all_used(function, receiver) if found is None else found
            call = called(instruction, stack)
            if call is not None and _enters_arguments(call, function, receiver):
                yield from _all_used(function, receiver)
            made = call if instruction.opname != "COPY" else made


def _known(
    top: Place | None, made: Call | None, function: FunctionType, receiver: Any
) -> list[Any] | None:
    """What a `with` enters; None if that is not known.

    Args:
        top: where it comes from, if that is from outside.
        made: the call that returned it, if one did just before.
        function: provides the globals and cells.
        receiver: the object bound to its first parameter.
    """
    if top is not None and top.is_outside:
        return values(top, function, receiver) or None
    if made is None or made.callee is None:
        return None
    if made.callee.source == "builtin":
        return []
    found = values(made.callee, function, receiver)
    return [each for one in found for each in _made_by(one, 0)] if found else None


def _made_by(callee: Any, depth: int) -> Iterator[Any]:
    """What calling something may return to be entered."""
    if derives(kind := kind_of(callee), type):
        yield callee
        return
    own = callee if type(callee) is FunctionType else getattr(callee, "__func__", None)
    if type(own) is not FunctionType:
        yield callee  # which may return itself
        own = defined(kind, "__call__")
    if type(own) is not FunctionType or depth >= _MAX_DEPTH:
        return
    if (wrapped := attributes_of(own).get("__wrapped__")) is not None:
        yield from _made_by(wrapped, depth + 1)
    if owner(own.__code__.co_filename) is Owner.USER:
        for _, value in used(own, None):
            yield value
            if type(value) is FunctionType:
                yield from _made_by(value, depth + 1)


def _enters_arguments(call: Call, function: FunctionType, receiver: Any) -> bool:
    """Whether a call passes something to a function of the user's that enters anything."""
    if call.callee is None or not call.arguments or call.callee.source == "builtin":
        return False
    return any(
        type(one) is FunctionType
        and owner(one.__code__.co_filename) is Owner.USER
        and any(dis.opname[code] in _WITH for code in one.__code__.co_code[::2])
        for one in values(call.callee, function, receiver)
    )


def _all_used(function: FunctionType, receiver: Any) -> list[Any]:
    return [value for _, value in used(function, receiver)]


def called_by_python(functions: list[tuple[Any, Any]]) -> Iterator[tuple[Any, Any, bool]]:
    """The methods of the user's classes by which objects are created, and a `with` is entered.

    Each with the object or class, and whether it is called with a new object of that class.
    """
    seen: set[int] = set()
    for function, receiver in functions:
        found: list[tuple[Any, Any, str, bool]] = []
        for _, value in used(function, receiver):
            if derives(kind := kind_of(value), type):
                found += [(value, value, name, True) for name in _CREATING]
                found.append((value, kind, "__call__", False))  # of its metaclass
        for value in entered(function, receiver):
            is_class = derives(kind := kind_of(value), type)
            of = value if is_class else kind
            found += [(value, of, name, is_class) for name in _ENTERING]
        for value, of, name, creates in found:
            method = defined(of, name)
            if (
                type(method) is FunctionType
                and id(method) not in seen
                and owner(method.__code__.co_filename) is Owner.USER
            ):
                seen.add(id(method))
                yield method, value, creates

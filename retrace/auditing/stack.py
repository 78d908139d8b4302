"""Tracks which values on the stack of a function's bytecode come from outside the function.

It follows the instructions in order. Code from Python's own compiler has the right stack depth
that way wherever branches meet. For an unknown instruction only its stack effect is used.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple, cast

_PASSING_THROUGH = frozenset(("vars", "enumerate", "zip", "reversed", "iter", "memoryview"))
"""Functions whose result gives access to their argument."""
_NAMED = ("type", "next", "setattr", "delattr", "open", "globals", "breakpoint", "input")
_BUILTINS = frozenset(_NAMED) | _PASSING_THROUGH
_VIEWS = {"items": (), "values": (), "keys": (), "get": ("[]",)}
"""Methods whose result gives access to the contents of a container, and by which steps."""
ELEMENT = "[]"
_WITHOUT_RESULT = ("STORE_", "POP_", "DELETE_", "RETURN_", "RERAISE", "RAISE_", "JUMP_", "END_")


class Place(NamedTuple):
    """Where a value comes from: a global, a cell, or an attribute of these."""

    source: str
    """`global`, `cell`, `self`, `argument`, `builtin` or `constant`."""
    name: str
    """For a constant, its text."""
    steps: tuple[str, ...] = ()
    """Attributes; `[]` means any element."""

    def __str__(self) -> str:
        return ".".join((self.name, *(step for step in self.steps if step != ELEMENT)))

    def step(self, *steps: str) -> Place:
        """The place reached by further steps."""
        return self._replace(steps=(*self.steps, *steps))

    @property
    def is_outside(self) -> bool:
        """Whether it comes from outside the function."""
        return self.source not in ("builtin", "constant")


class Call(NamedTuple):
    """A call."""

    callee: Place | None
    receiver: Place | None
    """The object, for a method call."""
    arguments: list[Place | None]
    """Positional arguments, then keyword arguments."""
    keywords: tuple[str, ...]


def walk(
    code: CodeType, *, has_receiver: bool, given: dict[str, Place] | None = None
) -> Iterator[tuple[dis.Instruction, list[Place | None]]]:
    """Each instruction with the stack before it; values not from outside are None.

    Args:
        code: the code of a function.
        has_receiver: whether its first parameter is a known object.
        given: parameters that were passed from outside.
    """
    known: dict[str, Place | None] = dict(given or {})
    if has_receiver and code.co_argcount:
        known[code.co_varnames[0]] = Place("self", code.co_varnames[0])
    stack: list[Place | None] = []
    for instruction in dis.get_instructions(code):
        yield instruction, stack
        if not (
            _named(instruction, stack, known, code)
            or _rearranged(instruction, stack)
            or _derived(instruction, stack)
        ):
            _grow(stack, instruction)


def _named(
    instruction: dis.Instruction,
    stack: list[Place | None],
    known: dict[str, Place | None],
    code: CodeType,
) -> bool:
    """Update the stack if the instruction is about a name or constant; else return False."""
    kind: str = instruction.opname
    value: Any = instruction.argval
    if kind in ("LOAD_GLOBAL", "LOAD_NAME"):
        _grow(stack, instruction)
        place = Place("builtin" if value in _BUILTINS else "global", value)
        # If it is called at once, a null is next to it: below it until Python 3.12.
        is_called = _effect(instruction) > 1
        stack[-2 if is_called and sys.version_info >= (3, 13) else -1] = place
    elif kind == "LOAD_DEREF":
        free = value in code.co_freevars
        stack.append(Place("cell", value) if free else known.get(value))
    elif kind == "LOAD_CONST":
        stack.append(_constant(value))
    elif kind.count("FAST") > 1:
        both = cast(tuple[str, ...], value)
        for part, name in zip(kind.split("_FAST"), both, strict=False):
            _local(part, name, stack, known)
    elif "_FAST" in kind:
        _local(kind, str(value), stack, known)
    else:
        return False
    return True


def _rearranged(instruction: dis.Instruction, stack: list[Place | None]) -> bool:
    """Update the stack if the instruction only moves values; else return False."""
    kind = instruction.opname
    if kind in ("COPY", "SWAP"):
        depth = instruction.arg or 1
        if len(stack) >= depth:
            if kind == "COPY":
                stack.append(stack[-depth])
            else:
                stack[-depth], stack[-1] = stack[-1], stack[-depth]
        return True
    return kind in ("GET_ITER", "PRECALL")


def _derived(instruction: dis.Instruction, stack: list[Place | None]) -> bool:
    """Update the stack if the instruction derives one value from another; else return False."""
    kind = instruction.opname
    top = stack[-1] if stack else None
    from_outside = top is not None and top.is_outside
    if kind in ("LOAD_ATTR", "LOAD_METHOD"):
        _attribute(instruction, stack)
    elif is_subscript(instruction):
        container = stack[-2] if len(stack) > 1 else None
        _grow(stack, instruction)
        if stack:
            is_known = container is not None and container.is_outside
            stack[-1] = container.step(ELEMENT) if container is not None and is_known else None
    elif kind == "BINARY_SLICE":
        container = stack[-3] if len(stack) > 2 else None
        _grow(stack, instruction)
        if stack and container is not None and container.is_outside:
            stack[-1] = container.step(ELEMENT)  # of an array, a view
    elif kind == "FOR_ITER":
        _grow(stack, instruction)
        if stack and top is not None and from_outside:
            stack[-1] = top.step(ELEMENT)
    elif kind == "UNPACK_SEQUENCE":
        # A pair from a container, as from `items()`: the second one is the element.
        count = instruction.arg or 0
        _grow(stack, instruction)
        if from_outside and len(stack) >= count > 0:
            stack[-count:] = [top] * count
    elif kind in ("CALL", "CALL_KW"):
        call = called(instruction, stack)
        # In Python 3.11 PRECALL accounts for part of the effect.
        del stack[-(instruction.arg or 0) - (2 if kind == "CALL" else 3) :]
        stack.append(None if call is None else _result_place(call))
    else:
        return False
    return True


def is_subscript(instruction: dis.Instruction) -> bool:
    """Whether it is a subscript, which in Python 3.14 is a binary operator."""
    return instruction.opname == "BINARY_SUBSCR" or (
        instruction.opname == "BINARY_OP" and instruction.argrepr == "[]"
    )


def called(
    instruction: dis.Instruction, stack: list[Place | None], keywords: tuple[str, ...] = ()
) -> Call | None:
    """The call that an instruction makes; None if it makes none or it is unclear.

    Args:
        instruction: any instruction.
        stack: the stack before it.
        keywords: the names from `KW_NAMES`, until Python 3.12.
    """
    has_names = instruction.opname == "CALL_KW"
    if not has_names and instruction.opname != "CALL":
        return None
    given = (instruction.arg or 0) + has_names
    if len(stack) < given + 2:
        return None
    if has_names and (names := stack[-1]) is not None and names.source == "constant":
        keywords = tuple(names.name.split(","))
    first, second = stack[-given - 2], stack[-given - 1]
    arguments = stack[len(stack) - given : len(stack) - has_names]
    if first is not None and first.steps and first._replace(steps=first.steps[:-1]) == second:
        return Call(first, second, arguments, keywords)
    # A null is next to the callee: below it until Python 3.12, above it since.
    return Call(first if first is not None else second, None, arguments, keywords)


def _result_place(call: Call) -> Place | None:
    """Where the result of a call comes from."""
    callee = call.callee
    if callee is None:
        return None
    if callee.source == "builtin":
        if callee.name == "globals":
            return Place("global", "globals()")
        first = call.arguments[0] if call.arguments else None
        if first is None or not first.is_outside:
            return None
        if callee.name == "next":
            return first.step(ELEMENT)
        if callee.name == "type" and len(call.arguments) == 1:
            return first.step("__class__")
        return first if callee.name in _PASSING_THROUGH else None
    if call.receiver is not None and (steps := _VIEWS.get(callee.steps[-1])) is not None:
        return call.receiver.step(*steps)
    return None


def _constant(value: Any) -> Place | None:
    if type(value) is tuple:  # keyword names
        names = cast(tuple[object, ...], value)
        texts = [name for name in names if type(name) is str]
        return Place("constant", ",".join(texts)) if len(texts) == len(names) else None
    return Place("constant", value) if type(value) is str else None


def _attribute(instruction: dis.Instruction, stack: list[Place | None]) -> None:
    place = stack[-1] if stack else None
    _grow(stack, instruction)
    if place is None or not place.is_outside or not stack:
        return
    inner = place._replace(steps=(*place.steps, instruction.argval))
    if len(stack) > 1 and _effect(instruction):
        stack[-2:] = [inner, place]  # a method with its object
    else:
        stack[-1] = inner


def _local(
    kind: str, name: str, stack: list[Place | None], known: dict[str, Place | None]
) -> None:
    if "LOAD" in kind:
        stack.append(known.get(name))
    elif "STORE" in kind:
        known[name] = stack.pop() if stack else None
    else:
        known.pop(name, None)


def _effect(instruction: dis.Instruction) -> int:
    given = instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None
    try:
        return dis.stack_effect(instruction.opcode, given, jump=False)
    except ValueError:
        return 0


def _grow(stack: list[Place | None], instruction: dis.Instruction) -> None:
    """Update the stack for an instruction of which only the stack effect is known."""
    effect = _effect(instruction)
    if effect > 0:
        stack += [None] * effect
    else:
        if effect < 0:
            del stack[effect:]
        if stack and not instruction.opname.startswith(_WITHOUT_RESULT) and _pushes(instruction):
            stack[-1] = None


def _pushes(instruction: dis.Instruction) -> bool:
    """Whether it pushes a new value."""
    return instruction.opname not in (
        "NOP",
        "RESUME",
        "CACHE",
        "PRECALL",
        "KW_NAMES",
        "PUSH_NULL",
    )

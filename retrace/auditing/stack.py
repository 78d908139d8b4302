"""What lies on the stack of a function's bytecode, where that comes from outside the function.

It follows the instructions in the order in which they stand, which for Python's own compiler
leaves the stack as deep as it is wherever lines of a function meet. Where an instruction is not
known, no more is taken for granted than by how much the stack grows.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple, cast

_BY_BUILTIN = frozenset(("next", "setattr", "delattr"))
_NOTHING_LEFT = ("STORE_", "POP_", "DELETE_", "RETURN_", "RERAISE", "RAISE_", "JUMP_", "END_")


class Place(NamedTuple):
    """Where something comes from: a global, a cell, an attribute of these."""

    source: str
    """`global`, `cell`, `self` or `builtin`."""
    name: str
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.name, *self.steps))


def walk(
    code: CodeType, *, has_receiver: bool
) -> Iterator[tuple[dis.Instruction, list[Place | None]]]:
    """Each instruction with what lies on the stack before it, where that comes from outside."""
    known: dict[str, Place | None] = {}
    if has_receiver and code.co_argcount:
        known[code.co_varnames[0]] = Place("self", code.co_varnames[0])
    stack: list[Place | None] = []
    for instruction in dis.get_instructions(code):
        yield instruction, stack
        kind: str = instruction.opname
        value: Any = instruction.argval
        if kind in ("LOAD_GLOBAL", "LOAD_NAME"):
            _grow(stack, instruction)
            place = Place("builtin" if value in _BY_BUILTIN else "global", value)
            # Where it is called at once, a null lies beside it: below it until Python 3.12.
            is_called = _effect(instruction) > 1
            stack[-2 if is_called and sys.version_info >= (3, 13) else -1] = place
        elif kind == "LOAD_DEREF":
            free = value in code.co_freevars
            stack.append(Place("cell", value) if free else known.get(value))
        elif kind in ("COPY", "SWAP"):
            depth = instruction.arg or 1
            if len(stack) >= depth:
                if kind == "COPY":
                    stack.append(stack[-depth])
                else:
                    stack[-depth], stack[-1] = stack[-1], stack[-depth]
        elif kind in ("LOAD_ATTR", "LOAD_METHOD"):
            _attribute(instruction, stack)
        elif kind.count("FAST") > 1:
            both = cast(tuple[str, ...], value)
            for part, name in zip(kind.split("_FAST"), both, strict=False):
                _local(part, name, stack, known)
        elif "_FAST" in kind:
            _local(kind, str(value), stack, known)
        else:
            _grow(stack, instruction)


def _attribute(instruction: dis.Instruction, stack: list[Place | None]) -> None:
    place = stack[-1] if stack else None
    _grow(stack, instruction)
    if place is None or place.source == "builtin" or not stack:
        return
    inner = place._replace(steps=(*place.steps, instruction.argval))
    if len(stack) > 1 and _effect(instruction):
        stack[-2:] = [inner, place]  # of a method, with what it is called on
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
    """The stack after an instruction of which no more is known than how much it grows."""
    effect = _effect(instruction)
    if effect > 0:
        stack += [None] * effect
    else:
        if effect < 0:
            del stack[effect:]
        if stack and not instruction.opname.startswith(_NOTHING_LEFT) and _answers(instruction):
            stack[-1] = None


def _answers(instruction: dis.Instruction) -> bool:
    """Whether it puts something new on the top."""
    return instruction.opname not in (
        "NOP",
        "RESUME",
        "CACHE",
        "PRECALL",
        "KW_NAMES",
        "PUSH_NULL",
    )

"""What a function names in its bytecode: globals, attributes, items, cells.

This module knows the instructions of CPython 3.11 to 3.14. `interpreter` tries it on a test
function before anything is recorded; if the result is wrong, bytecode is not read at all.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple


class Item(NamedTuple):
    """A step by index or key; a step by attribute is a plain `str`."""

    key: str | int


class Chain(NamedTuple):
    """A name and the steps taken from it: `config.rate`, `TABLE['rate']`."""

    source: str
    """`global`, `cell`, or `self`: the first parameter."""
    name: str
    steps: tuple[str | Item, ...]
    written: bool
    """Whether the function also writes it, for example to count its own traces."""
    looked: bool = False
    """Whether it is only looked at, as by `callable` or `is`: a function is not called there."""


_ASKING = frozenset(("callable", "isinstance", "issubclass", "hasattr"))
"""Builtin functions that only look at their first argument."""
_COMPARING = ("IS_OP", "COMPARE_OP", "CONTAINS_OP")
_TESTING = (*_COMPARING, "POP_JUMP", "TO_BOOL", "UNARY_NOT")
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")


def _is_subscript(kind: str, argument: str) -> bool:
    # Since Python 3.14, subscription is a binary operator.
    return kind == "BINARY_SUBSCR" or (kind == "BINARY_OP" and argument == "[]")


def chains_of(
    code: CodeType, free: dict[str, str], written: set[str], *, top: bool
) -> Iterator[Chain]:
    """The chains of a code object and of the code objects nested in it.

    Args:
        code: the code object.
        free: the source of each variable from an enclosing scope, by name.
        written: receives the names that are written to.
        top: whether this is the function's own code, not a nested one.
    """
    local = {} if top else dict.fromkeys(code.co_varnames, "")
    known = free | local
    source = name = ""
    steps: list[str | Item] = []
    constant: Any = None
    is_called, asks = False, False
    instructions = list(dis.get_instructions(code))
    for at, instruction in enumerate(instructions):
        kind, value = instruction.opname, instruction.argval
        if source and constant is None and kind in ("LOAD_ATTR", "LOAD_METHOD"):
            steps.append(value)
            is_called = kind == "LOAD_METHOD" or "NULL" in instruction.argrepr
            continue
        if source and constant is None and kind in _CONSTANTS and type(value) in (str, int):
            constant = value
            continue
        if source and constant is not None and _is_subscript(kind, instruction.argrepr):
            steps.append(Item(constant))
            constant = None
            continue
        if kind in ("COPY", "PUSH_NULL", "EXTENDED_ARG"):
            is_called = is_called or kind != "EXTENDED_ARG"
            continue
        if source:
            is_whole = not is_called and (asks or constant is None)
            looked = is_whole and _looks(instructions, at, asks=asks)
            yield Chain(source, name, tuple(steps), False, looked)
        asks = source == "global" and is_called and not steps and name in _ASKING
        # A null is next to what is called; before Python 3.13, that of a variable is below it.
        is_called = "NULL" in instruction.argrepr or (
            at > 0 and instructions[at - 1].opname == "PUSH_NULL"
        )
        source, steps, constant = "", [], None
        if kind == "LOAD_GLOBAL":
            source, name = "global", value
        elif kind.startswith("LOAD_FAST") or kind == "LOAD_DEREF":
            # Since Python 3.13 one instruction may load two; the second is on top of the stack.
            name = value[-1] if type(value) is tuple else value
            source = known.get(name, "")
        elif kind in ("STORE_GLOBAL", "STORE_ATTR"):
            written.add(value)
    for inner in code.co_consts:
        if type(inner) is CodeType:
            passed = {name: known.get(name, "") for name in inner.co_freevars}
            yield from chains_of(inner, passed, written, top=False)


def _looks(instructions: list[dis.Instruction], at: int, *, asks: bool) -> bool:
    """Whether what was just loaded is only looked at.

    Args:
        instructions: those of a code object.
        at: the index of the first one after it was loaded.
        asks: whether it is the first argument of a function that only looks at it.
    """
    kind = instructions[at].opname
    if kind.startswith(_TESTING):
        return True
    if asks and (kind in ("CALL", "PRECALL") or kind.startswith("LOAD_")):
        return True
    if not kind.startswith("LOAD_") or "NULL" in instructions[at].argrepr:
        return False
    while (at := at + 1) < len(instructions) and instructions[at].opname == "LOAD_ATTR":
        continue
    return at < len(instructions) and instructions[at].opname in _COMPARING

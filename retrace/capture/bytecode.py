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
    for instruction in dis.get_instructions(code):
        kind, value = instruction.opname, instruction.argval
        if source and constant is None and kind in ("LOAD_ATTR", "LOAD_METHOD"):
            steps.append(value)
            continue
        if source and constant is None and kind in _CONSTANTS and type(value) in (str, int):
            constant = value
            continue
        if source and constant is not None and _is_subscript(kind, instruction.argrepr):
            steps.append(Item(constant))
            constant = None
            continue
        if kind in ("COPY", "PUSH_NULL", "EXTENDED_ARG"):
            continue
        if source:
            yield Chain(source, name, tuple(steps), False)
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

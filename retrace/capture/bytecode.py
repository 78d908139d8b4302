"""What a function names, from its bytecode: globals, attributes, items, cells.

The instructions of CPython 3.11 to 3.14 are known here. `interpreter` tries it on a function
of its own before anything is recorded: bytecode that reads otherwise is not looked into.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple


class Item(NamedTuple):
    """A step by index, where an attribute is a `str`."""

    key: str | int


class Chain(NamedTuple):
    """A name and what is taken of it: `config.rate`, `TABLE['rate']`."""

    source: str
    """`global`, `cell`, or `self`: the first parameter."""
    name: str
    steps: tuple[str | Item, ...]
    written: bool
    """Whether the function writes it too, as one that counts its own traces does."""


_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")


def _is_subscript(kind: str, argument: str) -> bool:
    # In Python 3.14 it is one of the binary operators.
    return kind == "BINARY_SUBSCR" or (kind == "BINARY_OP" and argument == "[]")


def chains_of(
    code: CodeType, free: dict[str, str], written: set[str], *, top: bool
) -> Iterator[Chain]:
    """The chains of a code object and of those inside it.

    Args:
        code: where to look.
        free: what the variables are that it has from outside, by name.
        written: takes the names that are written to.
        top: whether its own parameters are those of the function.
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
            # Since Python 3.13 two are loaded at once; it is the second that is on top.
            name = value[-1] if type(value) is tuple else value
            source = known.get(name, "")
        elif kind in ("STORE_GLOBAL", "STORE_ATTR"):
            written.add(value)
    for inner in code.co_consts:
        if type(inner) is CodeType:
            passed = {name: known.get(name, "") for name in inner.co_freevars}
            yield from chains_of(inner, passed, written, top=False)

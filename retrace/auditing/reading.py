"""Where functions read what is outside of them, by the names in their bytecode."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, cast

from retrace.capture.interpreter import BYTECODE, lacks
from retrace.capture.notebook_cells import shown


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions defined in it."""
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from codes(constant)


def read_at(functions: list[tuple[Any, Any]], name: str) -> tuple[str, int] | tuple[None, None]:
    """The line where functions read something from outside, by its name."""
    parts = _parts(name)
    for wanted in (parts[-1], parts[0]):
        for function, _ in functions:
            code: CodeType = function.__code__
            for inner in codes(code):
                for instruction in dis.get_instructions(inner):
                    at = instruction.positions and instruction.positions.lineno
                    if (
                        at
                        and instruction.opname.startswith("LOAD")
                        and wanted in _loaded(instruction)
                    ):
                        return shown(code.co_filename), at
    return None, None


def reads(function: FunctionType, name: str, *, inside: bool = False) -> bool:
    """Whether a function reads something, given by the name that a recording has for it.

    Args:
        function: the function.
        name: the name, as of the function that was traced.
        inside: whether the name may begin with what holds the function, as with the custom
            derivative of which it is a rule, and go on with a cell of its own.
    """
    if lacks(BYTECODE):
        return True
    # Of another module than that of the traced function.
    name = name.removeprefix(f"{function.__globals__.get('__name__')}.")
    loaded = {
        each
        for code in codes(function.__code__)
        for instruction in dis.get_instructions(code)
        if instruction.opname.startswith("LOAD")
        for each in _loaded(instruction)
    }
    parts = _parts(name)
    cells = function.__code__.co_freevars if inside else ()
    starts = [0, *(at for at, part in enumerate(parts) if at and part in cells)]
    # By its number, an item is loaded by many instructions.
    return any(
        all(part in loaded or part.lstrip("-").isdigit() for part in parts[start:])
        for start in starts
    )


def _parts(name: str) -> list[str]:
    parts = name.replace("]", "").replace("[", ".").split(".")
    return [part.strip("'\"") for part in parts if part]


def _loaded(instruction: dis.Instruction) -> tuple[str, ...]:
    # Since Python 3.13 one instruction may load two variables.
    loaded: Any = instruction.argval
    if type(loaded) is tuple:
        return cast(tuple[str, ...], loaded)
    return (loaded,) if type(loaded) is str else ()

"""The Python loops that a line stands in, by the bytecode of its function."""

from __future__ import annotations

import dis
from types import CodeType
from typing import NamedTuple

_LARGEST = 20_000
"""Bytes of a function's code; in a longer one no loops are looked for."""


class Around(NamedTuple):
    """One loop of a function: where it is written, and what it runs again."""

    line: int
    """Of the `for` or `while`."""
    end: int
    """Its last line."""
    first: int
    """Where its bytecode begins, and ends."""
    last: int


def loops(code: CodeType) -> tuple[Around, ...]:
    """The loops of a function, comprehensions included, in the order in which they end."""
    if len(code.co_code) > _LARGEST:
        return ()
    lines: list[tuple[int, int]] = []
    jumps: list[tuple[int, int]] = []
    for one in dis.get_instructions(code):
        if one.positions is not None and one.positions.lineno is not None:
            lines.append((one.offset, one.positions.lineno))
        # Without NO_INTERRUPT: that is `await`, which waits and repeats nothing.
        if "JUMP_BACKWARD" in one.opname and "NO_INTERRUPT" not in one.opname:
            jumps.append((int(one.argval), one.offset))
    # `continue` jumps back too: a loop reaches to the last of its jumps.
    ends: dict[int, int] = {}
    for target, offset in jumps:
        ends[target] = max(offset, ends.get(target, 0))
    found: list[Around] = []
    for first, last in ends.items():
        inside = [line for offset, line in lines if first <= offset <= last]
        if inside:
            found.append(Around(min(inside), max(inside), first, last))
    return tuple(found)


def around(found: tuple[Around, ...], position: int) -> tuple[Around, ...]:
    """Those of a function's loops that an instruction is in."""
    return tuple(one for one in found if one.first <= position <= one.last)

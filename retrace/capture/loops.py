"""The Python loops around a line, found from the bytecode of its function."""

from __future__ import annotations

import dis
from types import CodeType
from typing import NamedTuple

_MAX_CODE_BYTES = 20_000
"""In functions with more bytecode than this, loops are not searched for."""


class LoopCode(NamedTuple):
    """One loop of a function: its source lines, and the bytecode that it repeats."""

    line: int
    """Line of the `for` or `while`."""
    end: int
    """Last line of the loop."""
    first: int
    """Offset of its first instruction."""
    last: int
    """Offset of its last instruction."""


def _jumps_back(name: str) -> bool:
    # NO_INTERRUPT is excluded: it belongs to `await`, which waits and repeats nothing.
    return "JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name


_JUMPS = [number for name, number in dis.opmap.items() if _jumps_back(name)]


def repeats(code: CodeType) -> bool:
    """Whether a function has any loop: a thousandth of the time that it takes to find them."""
    operations = code.co_code[::2]
    return any(number in operations for number in _JUMPS)


def loops(code: CodeType) -> tuple[LoopCode, ...]:
    """The loops of a function, including comprehensions, in the order in which they end."""
    if len(code.co_code) > _MAX_CODE_BYTES:
        return ()
    lines: list[tuple[int, int]] = []
    jumps: list[tuple[int, int]] = []
    for one in dis.get_instructions(code):
        if one.positions is not None and one.positions.lineno is not None:
            lines.append((one.offset, one.positions.lineno))
        if _jumps_back(one.opname):
            jumps.append((int(one.argval), one.offset))
    # `continue` also jumps back, so a loop ends at the last of its jumps.
    ends: dict[int, int] = {}
    for target, offset in jumps:
        ends[target] = max(offset, ends.get(target, 0))
    found: list[LoopCode] = []
    for first, last in ends.items():
        inside = [line for offset, line in lines if first <= offset <= last]
        if inside:
            found.append(LoopCode(min(inside), max(inside), first, last))
    return tuple(found)


def around(found: tuple[LoopCode, ...], position: int) -> tuple[LoopCode, ...]:
    """Return those loops of a function that contain an instruction."""
    return tuple(one for one in found if one.first <= position <= one.last)

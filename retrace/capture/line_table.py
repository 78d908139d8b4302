"""Finds the line of an instruction."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from types import CodeType
from typing import TypeAlias

from retrace.capture.weak import ByObject

_Table: TypeAlias = tuple[Sequence[int], Sequence[int | None]]
"""The first instruction of each part of a function that is on one line, and these lines."""

_tables: ByObject[_Table] = ByObject()
"""Functions are often on the stack, and reading all lines of a large one anew takes long."""


def line_at(code: CodeType, at: int) -> int:
    """The line of an instruction; the function's first line if Python knows none."""
    starts, lines = _tables.of(code, lambda: _table(code))
    return lines[bisect_right(starts, at) - 1] or code.co_firstlineno


def _table(code: CodeType) -> _Table:
    parts = [(start, line) for start, _, line in code.co_lines()]
    return [0, *[start for start, _ in parts]], [None, *[line for _, line in parts]]

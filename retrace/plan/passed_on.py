"""Arrays that one function returns and another one takes, which change as the first one's do.

If `y = first(x)` and `second(y)` compile again because `x` came with another dtype, one dtype for
`x` keeps both. That `y` is what `first` returned is read from the lines that make the calls.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise

from retrace.model import Kind, Miss
from retrace.plan.history import Column, History
from retrace.plan.replay import Mapped

_FAMILIES = ("dtype", "weak_type", "tree", "sharding")
"""What results have from arguments. Sizes are recognised by themselves (`variables`)."""


def passed_on(
    histories: list[History], columns: Mapping[tuple[int, int], Mapped]
) -> Iterator[tuple[tuple[int, int], Mapped]]:
    """The columns of functions that take what others return and vary as these columns do.

    Args:
        histories: the misses of all functions.
        columns: the positions of a history and of its column, and what its values become.

    Yields:
        The positions of a history and of its column, and what its values become.
    """
    for (index, number), mapped in columns.items():
        history = histories[index]
        column = history.columns[number]
        if column.family not in _FAMILIES:
            continue
        for other, taking in enumerate(histories):
            if other == index or taking.run != history.run or taking.function.kind is Kind.OP:
                continue
            for place, varying in enumerate(taking.columns):
                if varying.family not in _FAMILIES or (other, place) in columns:
                    continue
                if (values := _followed(taking, varying, history, column)) is not None:
                    became = [mapped[value] for value in values]
                    yield (other, place), tuple([became.index(one) for one in became])


def _followed(
    taking: History, varying: Column, history: History, column: Column
) -> list[int] | None:
    """The value of a column with each value of another, if that one's calls take its results."""
    found: list[int] = []
    for value in range(max(varying.values) + 1):
        taker = taking.rows[varying.values.index(value)].miss
        rows = [row for row, one in enumerate(history.rows) if one.miss.number < taker.number]
        if not rows or not _takes(taker, history.rows[rows[-1]].miss):
            return None
        found.append(column.values[rows[-1]])
    return found if all(a < b for a, b in pairwise(found)) else None


def _takes(taker: Miss, maker: Miss) -> bool:
    """Whether a call takes what another one returned, in the same function of the user's."""
    here, there = taker.call_site, maker.call_site
    if here is None or there is None or here.in_library or taker.parent or maker.parent:
        return False
    if (here.file, here.function) != (there.file, there.function) or taker.nested:
        return False
    made, _ = _names(there.source or "")
    _, taken = _names(here.source or "")
    return not made.isdisjoint(taken)


_WARNED = re.compile(r"\\|\d(?:and|else|for|if|in|is|or)\b")
"""What Python may warn of when it parses a line: an escape in a text, `1or 2`."""


@lru_cache(maxsize=1024)
def _names(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """The variables that a line assigns, and those that it reads: `y`, `self.state`."""
    if _WARNED.search(source):
        return frozenset(), frozenset()
    try:
        tree = ast.parse(source.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(), frozenset()  # part of a statement
    assigned, read = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := _dotted(node)):
            (read if isinstance(node.ctx, ast.Load) else assigned).add(name)
    return frozenset(assigned), frozenset(read)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (of := _dotted(node.value)):
        return f"{of}.{node.attr}"
    return ""

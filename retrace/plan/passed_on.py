"""Arrays that one function returns and another one takes, which change as the first one's do.

If `y = first(x)` and `second(y)` compile again because `x` came with another dtype, one dtype for
`x` keeps both. That `y` is what `first` returned is read from the lines that make the calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from retrace.model import Kind, Miss
from retrace.plan.history import Column, History
from retrace.plan.replay import Mapped
from retrace.reason.rules import root
from retrace.regex import regex

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
                values = _followed(taking, varying, history, column)
                if values is not None and _behind(taking, varying, history) is column:
                    became = [mapped[value] for value in values]
                    yield (other, place), tuple([became.index(one) for one in became])


def _behind(taking: History, varying: Column, history: History) -> Column | None:
    """The column of a function that one follows which takes its results, if only one may be it.

    Of several that vary in the same calls it is the one that varies likewise, and then the one
    of the same name: `state['n']` of both.
    """
    found = [
        column
        for column in history.columns
        if column.family in _FAMILIES and _followed(taking, varying, history, column) is not None
    ]
    if len(found) > 1:
        found = [column for column in found if column.family == varying.family]
    if len(found) > 1:
        names = set(map(_last, varying.paths))
        found = [column for column in found if not names.isdisjoint(map(_last, column.paths))]
    return found[0] if len(found) == 1 else None


def _last(path: str) -> str:
    """What a path ends with: `['n']` of `state['n']`."""
    return path[max(path.rfind("["), path.rfind("."), 0) :]


def _followed(
    taking: History, varying: Column, history: History, column: Column
) -> list[int] | None:
    """The value of a column with each value of another, if that one's calls take its results."""
    found: list[int] = []
    roots = {root(path) for path in varying.paths}
    for value in range(max(varying.values) + 1):
        taker = taking.rows[varying.values.index(value)].miss
        rows = [row for row, one in enumerate(history.rows) if one.miss.number < taker.number]
        whole = varying.family == "tree"
        if not rows or not _takes(taker, roots, history.rows[rows[-1]].miss, whole=whole):
            return None
        found.append(column.values[rows[-1]])
    return found if all(a < b for a, b in pairwise(found)) else None


def _takes(taker: Miss, parameters: set[str], maker: Miss, *, whole: bool) -> bool:
    """Whether a call takes what another one returned, in the same function of the user's.

    With `whole`, as it is: `{name: result}` has a structure of its own.
    """
    here, there = taker.call_site, maker.call_site
    if here is None or there is None or here.in_library or taker.parent or maker.parent:
        return False
    if (here.file, here.function) != (there.file, there.function) or taker.nested:
        return False
    made = _line(there.source or "").assigned
    calls = [
        call
        for call in _line(here.source or "", whole=whole).calls
        if (passed := _passed(call, taker)) is not None
        and all(not made.isdisjoint(passed.get(name, ())) for name in parameters)
    ]
    return bool(calls)


class _Call(NamedTuple):
    """A call in a line: the variables that are read for each of its arguments."""

    positional: tuple[frozenset[str], ...]
    keywords: tuple[tuple[str, frozenset[str]], ...]


class _Line(NamedTuple):
    """The variables that a line assigns, and the calls in it."""

    assigned: frozenset[str] = frozenset()
    calls: tuple[_Call, ...] = ()


def _passed(call: _Call, miss: Miss) -> dict[str, frozenset[str]] | None:
    """The variables passed for each parameter, if this may be the call that missed."""
    given = [name for name, how in miss.key.signature if how == "positional"]
    named = {name for name, how in miss.key.signature if how == "keyword"}
    if len(given) != len(call.positional) or named != {name for name, _ in call.keywords}:
        return None
    return {**dict(zip(given, call.positional, strict=True)), **dict(call.keywords)}


_WARNED = regex(r"\\|\d(?:and|else|for|if|in|is|or)\b")
"""What Python may warn of when it parses a line: an escape in a text, `1or 2`."""


@lru_cache(maxsize=1024)
def _line(source: str, *, whole: bool = False) -> _Line:
    """What a line assigns and calls; nothing if it is only a part of a statement.

    With `whole`, a container that is written in the line passes none of the variables in it.
    """
    if _WARNED.search(source):
        return _Line()
    try:
        tree = ast.parse(source.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Line()
    calls = tuple(
        _Call(
            tuple(_read(one, whole=whole) for one in node.args),
            tuple((one.arg or "**", _read(one.value, whole=whole)) for one in node.keywords),
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )
    return _Line(_names(tree, ast.Store), calls)


_CONTAINERS = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Tuple)


def _read(node: ast.AST, *, whole: bool) -> frozenset[str]:
    return frozenset() if whole and isinstance(node, _CONTAINERS) else _names(node, ast.Load)


def _names(tree: ast.AST, context: type[ast.expr_context]) -> frozenset[str]:
    return frozenset(
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, context)
        and (name := _dotted(node))
    )


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (of := _dotted(node.value)):
        return f"{of}.{node.attr}"
    return ""

"""Eager operations that compile again because what their body takes changes, or the body does.

An eager `fori_loop` takes the arrays that its body takes, under JAX's names: what a user changes
for the body also changes the operation, and the operation is what costs. An eager `odeint` makes
a function of its body, which is a static argument of the operation that it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from retrace.model import Kind, Miss
from retrace.model.parts import OF_ARGUMENTS, passed
from retrace.plan.history import Column, History
from retrace.plan.replay import Mapped

_FAMILIES = ("dtype", "weak_type")
"""What a step changes for one value, wherever it is passed."""


def enclosing(
    histories: list[History], columns: Mapping[tuple[int, int], Mapped]
) -> Iterator[tuple[tuple[int, int], Mapped]]:
    """The columns of operations that vary as these columns of their bodies do.

    Args:
        histories: the misses of all functions and operations.
        columns: the positions of a history and of its column, each of a body, and what its
            values become.

    Yields:
        The positions of a history of an operation and of its column, and what its values become.
    """
    for (index, number), mapped in columns.items():
        body = histories[index]
        column = body.columns[number]
        if column.family != "bodies" and column.family not in _FAMILIES:
            continue
        for outer, history in enumerate(histories):
            if history.function.kind is not Kind.OP or history.run != body.run or history is body:
                continue
            for position, varying in enumerate(history.columns):
                if not _is_of_body(history, varying, column):
                    continue
                if (values := _followed(history, varying, body, column)) is not None:
                    yield (outer, position), _first_of_each([mapped[value] for value in values])


def _is_of_body(history: History, varying: Column, column: Column) -> bool:
    """Whether an operation may take what its body takes, or takes what was made of its body."""
    if column.family in _FAMILIES:
        return varying.family == column.family and bool(history.rows[0].miss.bodies)
    return varying.family in OF_ARGUMENTS and all(
        (given := dict(passed(row.miss.key)).get(path)) is not None and given.type == "function"
        for row in history.rows
        for path in varying.paths
    )


def _first_of_each(values: list[int]) -> Mapped:
    return tuple([values.index(value) for value in values])


def _followed(
    history: History, varying: Column, body: History, column: Column
) -> list[int] | None:
    """The value of the body in each value of an operation, if they differ together."""
    found: dict[int, int] = {}
    for row, value in zip(history.rows, varying.values, strict=True):
        inside = _inside(row.miss, body, column)
        if inside is None or found.setdefault(value, inside) != inside:
            return None
    values = [found[value] for value in range(len(found))]
    return values if len({*values}) == len(values) else None


def _inside(operation: Miss, body: History, column: Column) -> int | None:
    """The value with which the body was traced in an operation; None if it was not."""
    found: int | None = None
    is_body = any(one.site == body.function.site for one in operation.bodies)
    is_before = column.family == "bodies"
    for row, value in zip(body.rows, column.values, strict=True):
        miss = row.miss
        if miss.parent == operation.id:
            return value
        # What becomes an argument is traced before the operation begins; in jax 0.6 every body.
        is_near = is_body or (is_before and miss.call_site == operation.call_site)
        if is_near and miss.parent is None and miss.number < operation.number:
            found = value
    return found

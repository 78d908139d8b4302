"""Eager operations that compile again because what their body takes changes.

An eager `fori_loop` takes the arrays that its body takes, under JAX's names: what a user changes
for the body also changes the operation, and the operation is what costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from retrace.model import Kind, Miss
from retrace.plan.history import Column, History

_FAMILIES = ("dtype", "weak_type")
"""What a step changes for one value, wherever it is passed."""


def enclosing(
    histories: list[History], columns: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The columns of operations that vary as these columns of their bodies do.

    Args:
        histories: the misses of all functions and operations.
        columns: the positions of a history and of its column, each of a body.

    Yields:
        The positions of a history of an operation, and of its column.
    """
    for index, number in columns:
        body = histories[index]
        column = body.columns[number]
        if column.family not in _FAMILIES:
            continue
        for outer, history in enumerate(histories):
            is_loop = history.function.kind is Kind.OP and history.rows[0].miss.bodies
            if is_loop and history.run == body.run:
                for position, varying in enumerate(history.columns):
                    if varying.family == column.family and _follows(
                        history, varying, body, column
                    ):
                        yield outer, position


def _follows(history: History, varying: Column, body: History, column: Column) -> bool:
    """Whether an operation's value differs if and only if that of the body traced in it does."""
    values = [_inside(row.miss, body, column) for row in history.rows]
    if None in values:
        return False
    return (
        len({*zip(values, varying.values, strict=True)})
        == len({*values})
        == len({*varying.values})
    )


def _inside(operation: Miss, body: History, column: Column) -> int | None:
    """The value with which the body was traced in an operation; None if it was not."""
    found: int | None = None
    is_body = any(one.site == body.function.site for one in operation.bodies)
    for row, value in zip(body.rows, column.values, strict=True):
        if row.miss.parent == operation.id:
            return value
        # In jax 0.6 the body is traced before the operation begins.
        if is_body and row.miss.parent is None and row.miss.number < operation.number:
            found = value
    return found

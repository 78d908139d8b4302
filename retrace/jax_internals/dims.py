"""Sizes of axes that are no numbers: the symbolic dimensions of `jax.export`."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from retrace.jax_internals.names_values import SYMBOL
from retrace.model import Dim

_counter = itertools.count(1)
_scopes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def dims(shape: Any) -> tuple[Dim, ...]:
    """A shape as plain data: `(32, 'n', '2*n+1')`, and `n@2` for an `n` of a second scope.

    JAX takes an `n` of another scope for another size, so the text has to tell them apart.
    """
    found = tuple(shape)
    for size in found:
        if type(size) is not int:
            return tuple([_dim(size) for size in found])
    return found


def written(size: Any) -> str:
    """A size as it stands in programs: `2*n+1`. Two scopes make the same program."""
    return str(size).replace(" ", "")


def symbolic(size: Any) -> str | None:
    """The text of a symbolic dimension with its scope; None for anything else."""
    if type(size).__name__ != SYMBOL.name:
        return None
    text = written(size)
    number = _scope_number(size)
    return text if number == 1 else f"{text}@{number}"


def forget() -> None:
    """Count scopes from one again."""
    global _counter
    _scopes.clear()
    _counter = itertools.count(1)


def _dim(size: Any) -> Dim:
    if type(size) is int:
        return size
    if (text := symbolic(size)) is not None:
        return text
    try:
        return int(size)  # NumPy's
    except Exception:  # noqa: BLE001 - a symbolic size, where this JAX calls it otherwise
        return written(size)


def _scope_number(size: Any) -> int:
    scope = getattr(size, "scope", None)
    if scope is None:
        return 1
    try:
        number = _scopes.get(scope)
        if number is None:
            number = _scopes.setdefault(scope, next(_counter))
    except TypeError:
        return 1
    return number

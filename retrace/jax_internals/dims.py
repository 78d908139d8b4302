"""Axis sizes that are not numbers: the symbolic dimensions of `jax.export`."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from retrace.failure import asked
from retrace.jax_internals.names_values import SYMBOL
from retrace.model import Dim

_counter = itertools.count(1)
_MAX_SCOPES = 1000
_scopes: dict[int, tuple[weakref.ref[Any], int]] = {}
"""Keyed by `id`. No weakref callback removes dead entries: it would swallow a Ctrl-C."""


def dims(shape: Any) -> tuple[Dim, ...]:
    """A shape as plain data: `(32, 'n', '2*n+1')`, with `n@2` for an `n` of a second scope.

    For JAX, `n` in two scopes are different sizes, so their texts must differ too.
    """
    found = tuple(shape)
    for size in found:
        if type(size) is not int:
            return tuple([_dim(size) for size in found])
    return found


def written(size: Any) -> str:
    """A size as written in programs: `2*n+1`, without the scope."""
    return str(size).replace(" ", "")


def symbolic(size: Any) -> str | None:
    """The text of a symbolic dimension with its scope; None for anything else."""
    if type(size).__name__ != SYMBOL.name:
        return None
    text = written(size)
    number = _scope_number(size)
    return text if number == 1 else f"{text}@{number}"


def forget() -> None:
    """Restart scope numbers at one."""
    global _counter
    _scopes.clear()
    _counter = itertools.count(1)


def _dim(size: Any) -> Dim:
    if type(size) is int:
        return size
    if (text := symbolic(size)) is not None:
        return text
    # NumPy's; or a symbolic size under another class name, which raises an error of its own.
    found = asked(int, size)
    return written(size) if found is None else found


def _scope_number(size: Any) -> int:
    scope = getattr(size, "scope", None)
    if scope is None:
        return 1
    known = _scopes.get(id(scope))
    if known is not None and known[0]() is scope:
        return known[1]
    if len(_scopes) >= _MAX_SCOPES:
        for key in [key for key, (reference, _) in list(_scopes.items()) if reference() is None]:
            _scopes.pop(key, None)
    try:
        reference = weakref.ref(scope)
    except TypeError:
        return 1
    number = next(_counter)
    _scopes[id(scope)] = (reference, number)
    return number

"""A program and the programs inside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from retrace.jax_internals.names_values import INNER


def with_inner(jaxpr: Any) -> Iterator[Any]:
    """An open or closed jaxpr and its sub-jaxprs at any depth, each open, and once."""
    inner_of = INNER.get()
    waiting, seen = [getattr(jaxpr, "jaxpr", jaxpr)], set[int]()
    while waiting:
        inner = waiting.pop()
        if id(inner) not in seen:
            seen.add(id(inner))
            waiting += inner_of(inner)
            yield inner

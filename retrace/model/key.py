"""What JAX's cache keys are made of."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

JSON: TypeAlias = object
"""Whatever `json.loads` returns."""


Dim: TypeAlias = int | str
"""The size of an axis; a text for a symbolic one, as `jax.export` takes them: `2*n+1`."""


class Class(NamedTuple):
    """A user class, distinguished from other classes of the same name."""

    name: str
    """With its module: `train.State`."""
    number: int
    """Among the classes of this name that the process has had, from 1."""
    file: str | None = None
    """Where it was defined; looked for where it is not the first."""
    line: int | None = None


class Value(NamedTuple):
    """A bounded snapshot of a Python value that takes part in a cache key.

    `token` stands for JAX's own comparison: two values of one site have equal
    tokens if and only if JAX takes them as equal; None where neither plain data
    nor a weak reference can tell.
    """

    type: str
    text: str
    """Its repr, cut to a bounded length, without memory addresses."""
    token: str | None
    exact: bool
    """Whether `data` (or `text`, where there is no data) is the whole value."""
    data: JSON = None
    """Plain content for a comparison field by field; None where there is none."""
    classes: tuple[Class, ...] = ()
    """The classes in it that were defined again: not the first of their name."""


def is_cut(data: JSON, text: str, *, exact: bool) -> bool:
    """Whether a value was too large to be recorded whole, so that two may look the same."""
    if data is not None:  # of a function that held too much, only the name was kept
        return not exact and " ...>" in repr(data)
    # Of a redacted one the hash stands for all that had been recorded.
    return not exact and not text.startswith("<redacted ")


class Leaf(NamedTuple):
    """One array argument, as JAX's cache keys see it."""

    path: str
    shape: tuple[Dim, ...]
    dtype: str
    weak_type: bool
    sharding: str | None
    """Canonical text; None where JAX leaves the placement open (uncommitted, numpy, traced)."""
    committed: bool
    memory_kind: str | None
    layout: str | None = None


class Node(NamedTuple):
    """One container in the pytree of the dynamic arguments."""

    path: str
    type: str
    children: tuple[str, ...]
    """What to append to `path` for each child: "['x']", "[0]", ".count"."""
    meta: tuple[tuple[str, Value], ...] = ()
    """Static metadata by field name (`tx`, `apply_fn`)."""
    made: Class | None = None
    """Its class; None for those of Python and JAX."""


class Passing(StrEnum):
    """How a parameter got its value in a call."""

    POSITIONAL = "positional"
    KEYWORD = "keyword"
    OMITTED = "omitted"


class Key(NamedTuple):
    """JAX's cache key of one call, with the user's names in place of positions."""

    leaves: tuple[Leaf, ...] = ()
    tree: tuple[Node, ...] = ()
    static: tuple[tuple[str, Value], ...] = ()
    signature: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, Value], ...] = ()
    config: tuple[tuple[str, Value], ...] = ()

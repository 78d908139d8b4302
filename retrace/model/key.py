"""The parts of JAX's cache keys."""

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, TypeAlias, cast

from retrace.regex import regex

JSON: TypeAlias = object
"""Whatever `json.loads` returns."""


Dim: TypeAlias = int | str
"""The size of an axis; text for a symbolic size, as in `jax.export`: `2*n+1`."""


class Class(NamedTuple):
    """A user class, distinguished from other classes of the same name."""

    name: str
    """Including its module: `train.State`."""
    number: int
    """Which of the process's classes with this name it is, starting at 1."""
    file: str | None = None
    """Where it is defined; only looked up if it is not the first."""
    line: int | None = None


ENCLOSING = "(enclosing)"
"""Recorded in place of an object inside itself, such as the receiver of a method it holds."""


class Value(NamedTuple):
    """A bounded snapshot of a Python value that takes part in a cache key.

    `token` stands for JAX's own comparison: two values of one site have equal tokens if and only
    if JAX considers them equal. It is None if neither plain data nor a weak reference can tell.
    """

    type: str
    text: str
    """Its repr without memory addresses, cut to a bounded length."""
    token: str | None
    exact: bool
    """Whether `data` (or `text`, if there is no data) is the whole value."""
    data: JSON = None
    """Plain contents for field-by-field comparison, or None."""
    classes: tuple[Class, ...] = ()
    """Classes in it that were defined again, that is, are not the first of their name."""
    is_leaf: bool = False
    """Whether it is an object with contents that JAX takes for a single leaf: it cannot be
    passed to a jitted function, but as a static argument."""


_UNREAD = regex(r"\w+(?:<\w+>)?\[[\d,]*\]")
"""A JAX array within a value: its contents are on a device, and were not read."""
_NUMPY = {"array", "content"}
"""What is recorded of a NumPy array: its type and a hash of its contents."""


def is_cut(data: JSON, text: str, *, exact: bool) -> bool:
    """Whether a value was not recorded completely, so that two may look the same.

    It was too large, or holds JAX arrays, of which only the type was recorded.
    """
    if data is not None:  # if a function held too much, only its name was kept
        return not exact and (" ...>" in repr(data) or _holds_unread(data))
    # In a redacted value the hash stands for everything that had been recorded.
    return not exact and not text.startswith("<redacted ")


def _holds_unread(data: JSON) -> bool:
    if isinstance(data, dict):
        parts = cast(dict[str, JSON], data)
        if parts.keys() == _NUMPY:
            return parts["content"] is None  # too large to be hashed
        return any(map(_holds_unread, parts.values()))
    if isinstance(data, list):
        return any(map(_holds_unread, cast(list[JSON], data)))
    return isinstance(data, str) and _UNREAD.fullmatch(data) is not None


class Leaf(NamedTuple):
    """An array argument, as JAX's cache keys see it."""

    path: str
    shape: tuple[Dim, ...]
    dtype: str
    weak_type: bool
    sharding: str | None
    """Canonical text; None if JAX leaves the placement open (uncommitted, NumPy, traced)."""
    committed: bool
    memory_kind: str | None
    layout: str | None = None


class Leaves(tuple[Leaf, ...]):  # noqa: SLOT001 - columns are kept in its dict
    """Leaves that are also known by column: most keys of one function differ only in shapes."""

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The path of each."""
        return tuple([leaf.path for leaf in self])

    @cached_property
    def shapes(self) -> tuple[tuple[Dim, ...], ...]:
        """The shape of each."""
        return tuple([leaf.shape for leaf in self])

    @property
    def dtypes(self) -> frozenset[str]:
        """The distinct dtypes."""
        return frozenset(cast(Sequence[str], self.others[0]) if self else ())

    @cached_property
    def others(self) -> Sequence[Sequence[object]]:
        """For each field besides, the values of all leaves; shared by parts that are alike."""
        return list(zip(*[leaf[2:] for leaf in self], strict=True))


def by_column(leaves: tuple[Leaf, ...]) -> Leaves:
    """The same leaves, known by column."""
    return leaves if isinstance(leaves, Leaves) else Leaves(leaves)


class Node(NamedTuple):
    """A container in the pytree of the dynamic arguments."""

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
    """JAX's cache key for one call, with the user's names in place of positions."""

    leaves: tuple[Leaf, ...] = ()
    tree: tuple[Node, ...] = ()
    static: tuple[tuple[str, Value], ...] = ()
    signature: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, Value], ...] = ()
    config: tuple[tuple[str, Value], ...] = ()

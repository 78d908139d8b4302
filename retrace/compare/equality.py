"""When two recorded values are one value to JAX."""

from __future__ import annotations

from collections.abc import Hashable

from retrace.model import JSON, Leaf, Value


def identity(value: Value) -> Hashable:
    """What stands for the value in every comparison: equal identities, no change.

    The token repeats JAX's own `==`. Where there is none, the content has to do;
    a value with a token and one without are never taken as equal, so that this
    stays an equivalence.
    """
    if value.token is not None:
        return value.token
    return (value.type, value.text, repr(value.data))


PLACEMENT = ("sharding", "committed", "memory_kind", "layout")
"""The fields of a leaf that say where it lives."""


def placement(leaf: Leaf) -> tuple[str | None, bool, str | None, str | None]:
    """Everything about where an array lives that JAX's jit key looks at."""
    return leaf[4:]


def same_content(old: Value, new: Value) -> bool:
    """Whether the two look the same, whatever `==` says of them."""
    return old.type == new.type and old.text == new.text and old.data == new.data


def described(value: Value | None) -> JSON:
    """The value as JSON, whole enough to be compared again; None where it is absent."""
    if value is None:
        return None
    content: dict[str, JSON] = {
        "type": value.type,
        "text": value.text,
        "token": value.token,
        "exact": value.exact,
    }
    if value.data is not None:
        content["data"] = value.data
    return content

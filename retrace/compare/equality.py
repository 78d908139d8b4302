"""When two recorded values are one value to JAX."""

from __future__ import annotations

from collections.abc import Hashable

from retrace.model import Class, Leaf, Value


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


def remade(old: Value, new: Value) -> Class | None:
    """The class that was defined again between two values; None where there is none."""
    if old.classes == new.classes or identity(old) == identity(new):
        return None
    before = {known.name: known.number for known in old.classes}
    after = {known.name for known in new.classes}
    # The first class of a name is not recorded: values that otherwise look the same show it.
    sure = {new.type} if old.type == new.type else set[str]()
    alike = same_content(old, new)
    for known in new.classes:
        told = known.name in before or known.name in sure or alike
        if told and before.get(known.name, 1) != known.number:
            return known
    for known in old.classes:
        if known.name not in after and (known.name in sure or alike):
            return Class(known.name, 1)
    return None


def type_name(full: str) -> str:
    """A type's name as its user writes it: without the module that is being run."""
    return full.removeprefix("__main__.")

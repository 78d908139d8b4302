"""When JAX treats two recorded values as equal."""

from __future__ import annotations

from collections.abc import Hashable

from retrace.model import Class, Leaf, Value


def identity(value: Value) -> Hashable:
    """What represents the value in every comparison: equal identities mean no change.

    The token reproduces JAX's own `==`. Without one, contents are compared. A value with a token
    never equals one without, so that this remains an equivalence relation.
    """
    if value.token is not None:
        return value.token
    return (value.type, value.text, repr(value.data))


PLACEMENT = ("sharding", "committed", "memory_kind", "layout")
"""The fields of a leaf that say where its array is placed."""


def placement(leaf: Leaf) -> tuple[str | None, bool, str | None, str | None]:
    """Everything about an array's placement that is part of JAX's jit key."""
    return leaf[4:]


def same_content(old: Value, new: Value) -> bool:
    """Whether the two look the same, whatever `==` says."""
    return old.type == new.type and old.text == new.text and old.data == new.data


def remade(old: Value, new: Value) -> Class | None:
    """The class that was defined again between two values, if any."""
    if old.classes == new.classes or identity(old) == identity(new):
        return None
    before = {known.name: known.number for known in old.classes}
    after = {known.name for known in new.classes}
    # The first class with a name is not recorded: values that look the same otherwise reveal it.
    sure = {new.type} if old.type == new.type else set[str]()
    alike = same_content(old, new)
    for known in new.classes:
        is_known = known.name in before or known.name in sure or alike
        if is_known and before.get(known.name, 1) != known.number:
            return known
    for known in old.classes:
        if known.name not in after and (known.name in sure or alike):
            return Class(known.name, 1)
    return None


def type_name(full: str) -> str:
    """A type's name as the user writes it: without `__main__`."""
    return full.removeprefix("__main__.")

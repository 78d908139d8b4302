"""Looks classes up in tables."""

from __future__ import annotations

from collections.abc import Container

_HASH = type.__hash__


def is_listed(kind: type, kinds: Container[type]) -> bool:
    """`kind in kinds`, without running a `__hash__` or `__eq__` that a metaclass defines.

    The program's own may raise, or count its calls; and no table of ours lists such a class.
    """
    return type(kind).__hash__ is _HASH and kind in kinds

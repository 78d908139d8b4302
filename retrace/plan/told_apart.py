"""Values that JAX told apart although they look the same: objects that compare by identity.

A class says by its own `__eq__` what equals what, and the recording holds no object. But a miss
without any other change shows that two were not equal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from retrace.causes import Cause
from retrace.compare.equality import identity
from retrace.model import Component, ValueChange, Verdict


def told_apart(rows: Iterable[Verdict]) -> dict[str, frozenset[Hashable]]:
    """The static arguments of which equal contents missed, by name, with those contents."""
    found: dict[str, set[Hashable]] = {}
    for row in rows:
        if row.cause is not Cause.STATIC_ARGUMENT_CHANGED:
            continue
        for change in row.changes:
            if not isinstance(change, ValueChange) or change.component is not Component.STATIC:
                continue
            if change.old is None or change.new is None:
                continue
            if (same := identity(change.old)) == identity(change.new):
                found.setdefault(change.path, set()).add(same)
    return {path: frozenset(contents) for path, contents in found.items()}

"""How a stale function uses a value that changed: whether it could be handed to it instead."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from retrace.model import Use
from retrace.regex import regex

_STEPS = regex(r"\[[^\]]*\]|[^.\[\]]+")
_ITEM = "[]"


class Used(Enum):
    """How functions use a value."""

    UNKNOWN = "unknown"
    NEVER = "never"
    """They use other parts of what holds it."""
    AS_IT_IS = "as it is"
    """JAX gets it unchanged."""
    BY_ITEM = "by item"
    """JAX gets what it holds unchanged, but never itself."""
    BY_PYTHON = "by python"
    """Python decides or computes with it."""
    INSIDE = "inside"
    """Python decides or computes with what holds it."""


def used(name: str, uses: Sequence[Use]) -> Used:
    """How functions use a value.

    Args:
        name: its name in a recording, such as `self.config['rate']`.
        uses: how they use what comes from outside; none if that is unknown.
    """
    parts = [_ITEM if part[0] == "[" else part for part in _STEPS.findall(name)]
    found = {way for use in uses if (way := _way(parts, use)) is not None}
    for way in (Used.INSIDE, Used.BY_PYTHON, Used.AS_IT_IS, Used.BY_ITEM):
        if way in found:
            return way
    known = any(use.path[0] == parts[0] for use in uses)
    return Used.NEVER if known and len(parts) > 1 else Used.UNKNOWN


def _way(parts: list[str], use: Use) -> Used | None:
    """How one use uses a value; None if it is about another one."""
    path = use.path
    for start in range(len(parts)):
        own = parts[start:]
        if all(a == b for a, b in zip(own, path, strict=False)):
            if not use.as_it_is:
                return Used.INSIDE if len(path) < len(own) else Used.BY_PYTHON
            return Used.AS_IT_IS if len(path) <= len(own) else Used.BY_ITEM
    return None

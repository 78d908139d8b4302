"""Primitives written as classes, by JAX (since 0.10) or by users, such as `custom_root`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from retrace.jax_internals.names_values import HI_PRIMITIVES


def parameters(operation: Any, kind: type) -> dict[str, Any] | None:
    """The parameters of such a primitive, sub-jaxprs included; None for anything else.

    Checks only the class: no attribute of other objects is read.
    """
    if not issubclass(kind, _kinds()):
        return None
    held: Any = getattr(operation, "__dict__", {}).get("params")
    return cast("dict[str, Any]", held) if type(held) is dict else None


@lru_cache(maxsize=1)
def _kinds() -> tuple[type, ...]:
    found = [row.get() for row in HI_PRIMITIVES.values() if row.expected]
    return tuple([kind for kind in found if isinstance(kind, type)])

"""Operations that JAX, since 0.11, and users write as classes: `custom_root` is one."""

from __future__ import annotations

from typing import Any, cast

_MODULE = "jax._src.hijax"


def parameters(operation: Any, kind: type) -> dict[str, Any] | None:
    """What such an operation is made with, programs among it; None for anything else.

    By its class alone: what is not such an operation is asked nothing.
    """
    if not any(base.__module__ == _MODULE for base in kind.__mro__):
        return None
    held: Any = getattr(operation, "__dict__", {}).get("params")
    return cast("dict[str, Any]", held) if type(held) is dict else None

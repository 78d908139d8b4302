"""Contexts that a library's own `jit` opens around a trace."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_MAX_DEPTH = 8


def around(function: Any) -> AbstractContextManager[object]:
    """The context in which a function must be traced.

    `nnx.jit` splits modules into arrays before the call and merges them inside; both steps
    share a context that is only open during the call.

    Args:
        function: the function passed to JAX, by the user or by a library's `jit`.
    """
    nnx: Any = sys.modules.get("flax.nnx")
    update_context = getattr(nnx, "update_context", None)
    if update_context is None:
        return nullcontext()
    for _ in range(_MAX_DEPTH):
        fields: dict[str, Any] = getattr(function, "__dict__", {})
        tag = fields.get("ctxtag")
        if tag is not None and type(function).__module__.startswith("flax.nnx"):
            context: AbstractContextManager[object] = update_context(tag)
            return context
        function = fields.get("__wrapped__")
        if function is None:
            break
    return nullcontext()

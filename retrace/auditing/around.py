"""What a library's own `jit` sets up around a trace, and the function that it jits needs."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_DEEPEST = 8


def around(function: Any) -> AbstractContextManager[object]:
    """The context in which a function has to be traced.

    `nnx.jit` splits modules into arrays before the call and puts them together inside; both
    halves meet in a context that is open for the call alone.

    Args:
        function: what JAX was given, by the user or by a library's `jit`.
    """
    nnx: Any = sys.modules.get("flax.nnx")
    update_context = getattr(nnx, "update_context", None)
    if update_context is None:
        return nullcontext()
    for _ in range(_DEEPEST):
        fields: dict[str, Any] = getattr(function, "__dict__", {})
        tag = fields.get("ctxtag")
        if tag is not None and type(function).__module__.startswith("flax.nnx"):
            context: AbstractContextManager[object] = update_context(tag)
            return context
        function = fields.get("__wrapped__")
        if function is None:
            break
    return nullcontext()

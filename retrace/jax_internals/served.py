"""Every call that a compiled program serves, told: JAX's fast path is refused for that.

JAX serves a call that hits in C++, past all Python, and tells nobody. What it needs for that is
made by one function, at the first call; where that gives nothing, each later call takes the way
through Python as well, and asks again. So each call passes here, with the program that served it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from retrace.jax_internals.names_values import DISPATCH
from retrace.jax_internals.row import resolve


def tell(served: Callable[[object, FrameType], None]) -> Callable[[], None] | None:
    """Tell of each call from here on, of functions that are first called from here on.

    Args:
        served: is told the compiled program, and the frame of JAX that serves the call.

    Returns:
        What ends it; functions that were called until then stay off the fast path. None where
        this JAX has no such function.
    """
    if (original := DISPATCH.value()) is None:
        return None
    module, name = resolve(DISPATCH.where), DISPATCH.name
    on = True

    def refuse(executable: Any, *args: Any, **kwargs: Any) -> Any:
        if not on:
            return original(executable, *args, **kwargs)
        served(executable, sys._getframe(1))
        return None

    told: Any = refuse
    told.__wrapped__ = original
    setattr(module, name, refuse)

    def end() -> None:
        nonlocal on
        on = False
        if getattr(module, name) is refuse:
            setattr(module, name, original)

    return end

"""Report every call of a compiled program, by disabling JAX's fast path.

JAX serves cache hits in C++, without running Python or sending an event. The data for this fast
path come from one function at the first call. If it returns nothing, every later call also goes
through Python and calls it again. So every call passes here, with the program that served it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from retrace.jax_internals.names_values import DISPATCH
from retrace.jax_internals.row import resolve


def tell(served: Callable[[object, FrameType], None]) -> Callable[[], None] | None:
    """Report each call from now on, for functions whose first call is still to come.

    Args:
        served: called with the compiled program and the JAX frame that serves the call.

    Returns:
        A function that stops the reports; functions called until then stay off the fast path.
        None if this JAX has no such function.
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

    replacement: Any = refuse
    replacement.__wrapped__ = original
    setattr(module, name, refuse)

    def end() -> None:
        nonlocal on
        on = False
        if getattr(module, name) is refuse:
            setattr(module, name, original)

    return end

"""What the sampling thread would see of the thread that asks."""

from __future__ import annotations

from threading import get_ident

from retrace.capture.other_threads import stack
from retrace.capture.sampling import Seen, look


def seen_here() -> Seen | None:
    """What `look` makes of the caller, and of what called it."""
    functions = stack(get_ident(), 2000)
    own = next(depth for depth, (code, _, _) in enumerate(functions) if code is _OWN)
    return look(get_ident(), functions[own + 1 :])


_OWN = seen_here.__code__

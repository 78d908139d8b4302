"""Named facts about this JAX, so that other code never compares versions."""

from __future__ import annotations

from retrace.jax_internals.names_hooks import TRACE_BEFORE
from retrace.jax_internals.names_values import (
    DISPATCH,
    SLOWED_BY_CALLBACKS,
    SLOWED_BY_EFFECTS,
)

KEYWORD_STATICS_KEEP_THEIR_TYPE = not TRACE_BEFORE.there()
"""Are `f(x, s=1)` and `f(x, s=1.0)` two entries, for a static `s`?

    0.6 to 0.8: one, compared by `==` alone (`argnames_partial_except`, jax/_src/api_util.py)
    0.9 on:     two, as positional static arguments always were
"""


def off_fast_path() -> tuple[str, ...]:
    """Features of a program that force each call through Python, about 100 times slower.

    0.6:    effects (`debug.print`, `io_callback`) and all host callbacks
    0.7 on: only effects; a `pure_callback` has none
    """
    if not DISPATCH.there():
        return ()
    reasons = {"effects": SLOWED_BY_EFFECTS, "host-callbacks": SLOWED_BY_CALLBACKS}
    return tuple([name for name, row in reasons.items() if row.there()])

"""What this JAX does, as named facts; code elsewhere asks for the fact, never for a version."""

from __future__ import annotations

from retrace.jax_internals.names_hooks import TRACE_BEFORE

KEYWORD_STATICS_KEEP_THEIR_TYPE = not TRACE_BEFORE.there()
"""Are `f(x, s=1)` and `f(x, s=1.0)` two entries, for a static `s`?

    0.6 to 0.8: one, compared by `==` alone (`argnames_partial_except`, jax/_src/api_util.py)
    0.9 on:     two, as positional static arguments always were
"""

"""`retrace.counts()`: how often this process traced, lowered and compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrace.errors import RetraceError

if TYPE_CHECKING:
    from retrace.jax_internals.counting import Counting, Counts


_counting: Counting | None = None


def counts() -> Counts:
    """How often JAX traced, lowered and compiled in this process, in about a microsecond.

    Counting begins with the first call, or with the first recording if that came earlier;
    `since` says when, in seconds since the epoch. Everything counts: nested traces, eager
    operations, all threads. Only cache misses run counting code, so a call that hits costs
    the same as before. Nothing is recorded, and `RETRACE=0` does not turn counting off.

    Returns:
        A named tuple `(traces, lowerings, compiles, since)`.

    Raises:
        RetraceError: this JAX cannot be counted, or the program removed our listeners.

    Example:
        >>> import jax, retrace
        >>> before = retrace.counts()
        >>> _ = jax.jit(lambda x: x + 1)(1.0)
        >>> retrace.counts().compiles > before.compiles
        True
    """
    global _counting
    if _counting is None:
        try:
            from retrace.jax_internals.counting import counting
        except (ImportError, AttributeError) as error:
            raise RetraceError(f"cannot count the work of this JAX: {error}") from error
        _counting = counting
    return _counting.read()

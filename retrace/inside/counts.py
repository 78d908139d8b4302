"""How often this process traced, lowered and compiled: for metrics and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrace.errors import RetraceError

if TYPE_CHECKING:
    from retrace.jax_internals.counting import Counting, Counts


_counting: Counting | None = None


def counts() -> Counts:
    """How often JAX traced, lowered and compiled in this process, in about a microsecond.

    Counting begins with the first call, or with the first recording if that came before;
    `since` says when, in seconds since the epoch. All of JAX's own work counts: nested traces,
    eager operations, every thread. It is counted where a cache is missed, so that a call that
    hits costs what it did. Nothing is recorded, and `RETRACE=0` does not turn it off.

    Returns:
        A named tuple `(traces, lowerings, compiles, since)`.

    Raises:
        RetraceError: this JAX does not tell, or the program took out what counts.

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
            raise RetraceError(f"this JAX does not tell how often it works: {error}") from error
        _counting = counting
    return _counting.read()

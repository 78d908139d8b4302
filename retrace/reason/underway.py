"""What a process was tracing, lowering or compiling when its recording was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrace.model import Miss, Stage


class Underway(NamedTuple):
    """A call that JAX is working on."""

    outer: Miss
    """The outermost miss."""
    inner: Miss
    """What JAX is working on now: the outermost miss, or a function inside its trace."""
    since: float
    """When the stage started, in seconds since the epoch, or the earliest possible time if that
    was not recorded."""

    @property
    def is_compiling(self) -> bool:
        """Whether XLA is compiling it; otherwise it is being traced or lowered.

        The file cannot tell those apart: the start of a lowering is only written when it ends.
        """
        return self.inner.in_flight is Stage.COMPILE


def underway(misses: Sequence[Miss]) -> list[Underway]:
    """What one process is working on, longest first.

    Args:
        misses: all misses of the process so far, in the order they started.
    """
    if all(miss.in_flight is None for miss in misses):
        return []
    known = {miss.id: miss for miss in misses}
    last = {miss.thread: miss for miss in misses}
    flying = {
        miss.id: miss
        for miss in misses
        if miss.in_flight is Stage.COMPILE
        # The end of a trace is written along with what follows it. If nothing follows, the
        # next miss of the thread shows that it ended.
        or (miss.in_flight is not None and miss.id in _enclosing_ids(last[miss.thread], known))
    }
    around = {outer for one in flying.values() for outer in _enclosing_ids(one, known)[1:]}
    found: list[Underway] = []
    for miss in flying.values():
        if miss.id not in around:
            outward = [flying[name] for name in _enclosing_ids(miss, known) if name in flying]
            found.append(Underway(outward[-1], miss, _since(miss)))
    return sorted(found, key=lambda one: one.since)


def _enclosing_ids(miss: Miss, known: Mapping[str, Miss]) -> list[str]:
    """The ids of a miss and of those around it, innermost first."""
    found = [miss.id]
    # A backward program runs after its parent, not inside it.
    while miss.derived is None and (outer := known.get(miss.parent or "")) is not None:
        miss = outer
        found.append(miss.id)
    return found


def _since(miss: Miss) -> float:
    if miss.in_flight is Stage.COMPILE:
        return miss.since or miss.time + miss.seconds
    return miss.time

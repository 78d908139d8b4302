"""What a process was tracing, lowering or compiling when its recording was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrace.model import Miss, Stage


class Underway(NamedTuple):
    """A call that JAX is at work on."""

    outer: Miss
    """The outermost one."""
    inner: Miss
    """What JAX is at: the same, or a function inside its trace."""
    since: float
    """When the stage began, in seconds since the epoch; the earliest that it can have, where
    that was not recorded."""

    @property
    def is_compiling(self) -> bool:
        """Whether XLA is at it; otherwise it is being traced or lowered.

        The file does not tell these apart: the beginning of a lowering is written when it ends.
        """
        return self.inner.in_flight is Stage.COMPILE


def underway(misses: Sequence[Miss]) -> list[Underway]:
    """What one process is at, the longest first.

    Args:
        misses: all of the process so far, in the order in which they began.
    """
    if all(miss.in_flight is None for miss in misses):
        return []
    known = {miss.id: miss for miss in misses}
    last = {miss.thread: miss for miss in misses}
    flying = {
        miss.id: miss
        for miss in misses
        if miss.in_flight is Stage.COMPILE
        # The end of a trace waits in the process for the line of what follows it. Where nothing
        # does, the next miss of the thread tells that it ended.
        or (miss.in_flight is not None and miss.id in _outward(last[miss.thread], known))
    }
    around = {outer for one in flying.values() for outer in _outward(one, known)[1:]}
    found: list[Underway] = []
    for miss in flying.values():
        if miss.id not in around:
            outward = [flying[name] for name in _outward(miss, known) if name in flying]
            found.append(Underway(outward[-1], miss, _since(miss)))
    return sorted(found, key=lambda one: one.since)


def _outward(miss: Miss, known: Mapping[str, Miss]) -> list[str]:
    """The ids of a miss and of those around it, the innermost first."""
    found = [miss.id]
    # A backward program runs after its parent, not inside.
    while miss.derived is None and (outer := known.get(miss.parent or "")) is not None:
        miss = outer
        found.append(miss.id)
    return found


def _since(miss: Miss) -> float:
    if miss.in_flight is Stage.COMPILE:
        return miss.since or miss.time + miss.seconds
    return miss.time

"""JAX's own miss counts, to check the events that it sends.

A guard that saw no miss must know that there was none. JAX's caches of traces, lowerings and
executables count their misses in C++, independent of listeners. Reading the three counts takes
a microsecond and has no side effects. If a count grew without an event, JAX does not report its
work, and no guard may pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from retrace.jax_internals import names_hooks as at
from retrace.jax_internals.row import Row
from retrace.model import Stage

_COUNTS: Mapping[Stage, Row] = {
    Stage.TRACE: at.COUNT_OF_TRACES,
    Stage.LOWER: at.COUNT_OF_LOWERINGS,
    Stage.COMPILE: at.COUNT_OF_COMPILATIONS,
}
_SENTENCES = {
    Stage.TRACE: "JAX traced without reporting it",
    Stage.LOWER: "JAX lowered without reporting it",
    Stage.COMPILE: "JAX compiled without reporting it",
}


class Witness:
    """What JAX counted since recording was switched on, and what it reported."""

    def __init__(self) -> None:
        self._before: dict[Stage, int] = {}
        self._reported: set[Stage] = set()
        self.reported: Callable[[Stage], None] = self._reported.add
        """Notes that JAX reported a stage. A method of a set: it is called five times a miss."""
        self._ever = False
        """Whether JAX had reported anything in this process before."""

    def begin(self) -> None:
        """Start, when recording is switched on."""
        self._ever = self._has_heard()
        self._reported.clear()
        self._before = _counts()

    def _has_heard(self) -> bool:
        return self._ever or bool(self._reported)

    def silent(self) -> list[str]:
        """What JAX did without reporting it, each as the start of a sentence."""
        now = _counts()
        found = [
            _SENTENCES[stage]
            for stage, before in self._before.items()
            if stage not in self._reported and _grew(before, now.get(stage, before))
        ]
        if not self._has_heard() and len(now) < sum(row.expected for row in _COUNTS.values()):
            found.append("no miss was seen so far, and this JAX does not count its own work")
        return found


def _grew(before: int, now: int) -> bool:
    # `jax.clear_caches` resets the counts to zero.
    return now > before or 0 < now < before


def _counts() -> dict[Stage, int]:
    """The number of misses of each cache that counts them."""
    found: dict[Stage, int] = {}
    for stage, row in _COUNTS.items():
        if row.expected and (reported := row.value()) is not None:
            found[stage] = int(reported().misses)
    return found

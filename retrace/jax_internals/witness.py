"""JAX's own count of its work, to hold what it tells against.

A guard that saw nothing must know that there was nothing. JAX's caches of traces, lowerings and
executables count how often they had no entry, and they do so in C++, whatever is sent to
listeners. Reading the three numbers takes a microsecond and changes nothing. Where a number
grew and nobody was told, JAX works in silence, and no guard may pass.
"""

from __future__ import annotations

from collections.abc import Mapping

from retrace.jax_internals import names_hooks as at
from retrace.jax_internals.row import Row
from retrace.model import Stage

_COUNTS: Mapping[Stage, Row] = {
    Stage.TRACE: at.COUNT_OF_TRACES,
    Stage.LOWER: at.COUNT_OF_LOWERINGS,
    Stage.COMPILE: at.COUNT_OF_COMPILATIONS,
}
_SAID = {
    Stage.TRACE: "JAX traced and told nobody",
    Stage.LOWER: "JAX lowered and told nobody",
    Stage.COMPILE: "JAX compiled and told nobody",
}


class Witness:
    """What JAX counted since recording was switched on, beside what it told."""

    def __init__(self) -> None:
        self._before: dict[Stage, int] = {}
        self._told: set[Stage] = set()
        self._ever = False
        """Whether JAX has told of anything since this process began."""

    def begin(self) -> None:
        """Recording is switched on."""
        self._told = set()
        self._before = _counts()

    def told(self, stage: Stage) -> None:
        """JAX has told of one stage."""
        self._told.add(stage)
        self._ever = True

    def silent(self) -> list[str]:
        """What JAX did without telling, each as the beginning of a sentence."""
        now = _counts()
        found = [
            _SAID[stage]
            for stage, before in self._before.items()
            if stage not in self._told and _grew(before, now.get(stage, before))
        ]
        if not self._ever and len(now) < sum(row.expected for row in _COUNTS.values()):
            found.append("no miss was seen so far, and this JAX does not count its own work")
        return found


def _grew(before: int, now: int) -> bool:
    # `jax.clear_caches` counts from zero again.
    return now > before or 0 < now < before


def _counts() -> dict[Stage, int]:
    """How often each cache had no entry; without those that do not count."""
    found: dict[Stage, int] = {}
    for stage, row in _COUNTS.items():
        if row.expected and (told := row.value()) is not None:
            found[stage] = int(told().misses)
    return found

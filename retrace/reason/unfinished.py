"""Calls that continue what an earlier miss started without being asked to finish.

`jax.eval_shape(f)`, `f.trace(...)` and tracing inside another function leave a trace, which the
first call lowers and compiles. `f.lower(...)` leaves a lowering, which the first call compiles.
Both misses are one program, made in two steps.
"""

from __future__ import annotations

from collections.abc import Hashable

from retrace.compare.equality import identity
from retrace.compare.nearest import was_lowered
from retrace.model import Key, Miss, Passing, Stage
from retrace.model.parts import Named, by_kind


class Unfinished:
    """The programs of one site that were traced but not compiled yet."""

    def __init__(self) -> None:
        self._by_object: dict[int, dict[Hashable, Miss]] = {}
        self._added: dict[int, list[Miss]] = {}
        """Misses not yet among the former: most functions have none that continues another."""

    def before(self, miss: Miss) -> Miss | None:
        """The miss that traced or lowered the program that this miss continues."""
        if not self._has(miss) or Stage.TRACE in (*miss.stages, miss.in_flight):
            return None
        first = self._known(miss.function.object).get(_traced(miss.key))
        if first is None or (
            was_lowered(first) and Stage.LOWER in (*miss.stages, miss.in_flight)
        ):
            return None  # JAX only lowers again for another placement
        return first

    def add(self, miss: Miss) -> None:
        """Add a miss that did not raise."""
        if _is_own(miss) and (self._has(miss) or not _was_compiled(miss)):
            self._added.setdefault(miss.function.object, []).append(miss)

    def _has(self, miss: Miss) -> bool:
        own = miss.function.object
        return (own in self._added or own in self._by_object) and _is_own(miss)

    def _known(self, own: int) -> dict[Hashable, Miss]:
        known = self._by_object.setdefault(own, {})
        for miss in self._added.pop(own, ()):
            if _was_compiled(miss):
                known.pop(_traced(miss.key), None)
            else:
                known[_traced(miss.key)] = miss
        return known


def _was_compiled(miss: Miss) -> bool:
    return Stage.COMPILE in (*miss.stages, miss.in_flight)


def _is_own(miss: Miss) -> bool:
    """Whether the program belongs to the function itself, and the function is known."""
    return miss.derived is None and miss.function.object != 0


def _traced(key: Key) -> Hashable:
    """The part of a key that identifies a trace: everything but placement and options."""
    found = by_kind(
        key,
        arrays=lambda leaves: frozenset([leaf[:4] for leaf in leaves]),
        containers=lambda tree: frozenset(
            [(node.path, node.type, node.children, _values(node.meta)) for node in tree]
        ),
        values=lambda row, values: _values(values) if row.traced else None,
        words=lambda words: frozenset([pair for pair in words if pair[1] != Passing.OMITTED]),
    )
    return tuple(found.values())


def _values(named: Named) -> Hashable:
    return frozenset([(name, identity(value)) for name, value in named])

"""Matches the misses of two recordings by their keys, whatever their labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from retrace.compare.equality import identity
from retrace.compare.keys import NOT_IN_KEY, changes
from retrace.compare.nearest import OUTWEIGHING
from retrace.model import Change, Component, Miss, Verdict
from retrace.model.parts import Named, by_kind, unchanged
from retrace.runs.functions import Same
from retrace.runs.sides import Neutral

_MAX_PAIRS = 4096
"""Maximum number of pairs of misses of one function that are compared; beyond it, misses are
paired in order."""
_TREE_COST = 100


class Pair(NamedTuple):
    """A miss in both recordings."""

    old: Verdict
    new: Verdict
    changes: tuple[Change, ...]
    """Changes of the key and of what the function holds; empty if both are equal."""

    @property
    def is_changed(self) -> bool:
        """Whether the key or the cause differs."""
        if self.old.cause is not self.new.cause:
            return True
        return any(change.component not in NOT_IN_KEY for change in self.changes)


class Matched(NamedTuple):
    """The misses of two recordings."""

    pairs: list[Pair]
    gone: list[Verdict]
    new: list[Verdict]


def matched(both: Sequence[Same], neutral: Neutral) -> Matched:
    """Match the misses of functions that are in both recordings."""
    found = Matched([], [], [])
    for same in both:
        olds, news = _by_derivation(same.old.verdicts), _by_derivation(same.new.verdicts)
        for key in dict.fromkeys((*olds, *news)):
            one = _Matching(olds.get(key, []), news.get(key, []), neutral)
            found.pairs.extend(one.pairs)
            found.gone.extend(one.old)
            found.new.extend(one.new)
        neutral.forget()
    return found


def _by_derivation(verdicts: Sequence[Verdict]) -> dict[Hashable, list[Verdict]]:
    # Forward and backward programs do not match, and nested misses have no placement in the key.
    found: dict[Hashable, list[Verdict]] = {}
    for verdict in verdicts:
        miss = verdict.miss
        found.setdefault((miss.derived, miss.nested, miss.ahead), []).append(verdict)
    return found


class _Matching:
    """Matches the misses of one function: equal ones first, then the most similar."""

    def __init__(self, old: list[Verdict], new: list[Verdict], neutral: Neutral) -> None:
        self.pairs: list[Pair] = []
        self.old, self.new = old, new
        self._neutral = neutral
        if old and new:
            self._equal(whole=True)
            self._equal(whole=False)
            self._nearest()

    def _equal(self, *, whole: bool) -> None:
        waiting: dict[Hashable, list[Verdict]] = {}
        for verdict in self.old:
            waiting.setdefault(_key(self._of(verdict), verdict, whole), []).append(verdict)
        left: list[Verdict] = []
        taken: set[str] = set()
        for verdict in self.new:
            if alike := waiting.get(_key(self._of(verdict), verdict, whole)):
                old = alike.pop(0)
                taken.add(old.miss.id)
                self._add(old, verdict)
            else:
                left.append(verdict)
        self.old = [verdict for verdict in self.old if verdict.miss.id not in taken]
        self.new = left

    def _nearest(self) -> None:
        if len(self.old) * len(self.new) > _MAX_PAIRS:
            pairs = list(enumerate(range(min(len(self.old), len(self.new)))))
        else:
            pairs = self._least()
        for a, b in pairs:
            self._add(self.old[a], self.new[b])
        olds, news = {a for a, _ in pairs}, {b for _, b in pairs}
        self.old = [v for at, v in enumerate(self.old) if at not in olds]
        self.new = [v for at, v in enumerate(self.new) if at not in news]

    def _least(self) -> list[tuple[int, int]]:
        costs = sorted(
            (_cost(self._changes(old, new)), old.cause is not new.cause, abs(a - b), a, b)
            for a, old in enumerate(self.old)
            for b, new in enumerate(self.new)
        )
        olds, news, found = set[int](), set[int](), list[tuple[int, int]]()
        for *_, a, b in costs:
            if a not in olds and b not in news:
                olds.add(a)
                news.add(b)
                found.append((a, b))
        return found

    def _add(self, old: Verdict, new: Verdict) -> None:
        self.pairs.append(Pair(old, new, self._changes(old, new)))

    def _changes(self, old: Verdict, new: Verdict) -> tuple[Change, ...]:
        found = changes(self._of(old), self._of(new))
        return tuple(change for change in found if change.component is not Component.PROGRAM)

    def _of(self, verdict: Verdict) -> Miss:
        return self._neutral.of(verdict.miss)


def _cost(found: Sequence[Change]) -> int:
    """How different two keys are; a changed tree counts more than any leaf."""
    weights = (
        _TREE_COST if change.component in OUTWEIGHING else 2
        for change in found
        if change.component not in NOT_IN_KEY
    )
    return sum(weights) * 8 + min(len(found), 7)


def _key(miss: Miss, verdict: Verdict, whole: bool) -> Hashable:
    """What two equal misses share; if `whole`, including cause, program and captured values."""
    function = miss.function
    found = by_kind(
        miss.key,
        arrays=unchanged,
        containers=lambda tree: tuple(
            (node.path, node.type, node.children, _identities(node.meta), node.made)
            for node in tree
        ),
        values=lambda _, values: _identities(values),
        words=unchanged,
    )
    parts = tuple(found.values())
    if not whole:
        return parts
    held = tuple(map(_identities, (function.closure, function.defaults, function.bound)))
    program = miss.program and miss.program.hash
    return (*parts, tuple(miss.stages), held, verdict.cause, program)


def _identities(values: Named) -> tuple[Hashable, ...]:
    return tuple((name, identity(value)) for name, value in values)

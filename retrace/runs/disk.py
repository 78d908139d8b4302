"""What JAX's on-disk cache did in two runs, and why it did not find what the first had left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from retrace.compare.stored import OptionField, Options, differing
from retrace.model import PersistentCache, Verdict
from retrace.runs.misses import Pair


@dataclass(slots=True)
class Outcomes:
    """What it did for all compilations of a run."""

    hits: int = 0
    misses: int = 0
    off: int = 0
    not_stored: Counter[str] = field(default_factory=Counter[str])
    """By reason."""
    saved: float | None = None
    """Seconds, by what JAX says of each hit; None where it said nothing."""

    def add(self, cache: PersistentCache | None, *, writes: bool = True) -> None:
        """Take in what it did for one compilation, in a process that writes to it or does not."""
        match cache:
            case None:
                pass
            case PersistentCache(outcome="hit", saved=saved):
                self.hits += 1
                if saved is not None:
                    self.saved = (self.saved or 0.0) + saved
            case PersistentCache(outcome="miss"):
                self.misses += 1
            case PersistentCache(outcome="off"):
                self.off += 1
            case PersistentCache(reason=reason):
                why = reason or "other"
                self.not_stored["another-process" if why == "other" and not writes else why] += 1

    @property
    def was_used(self) -> bool:
        """Whether it was looked into at all."""
        return bool(self.hits or self.misses or self.not_stored)


class Vain(NamedTuple):
    """A look-up in vain, for what an earlier run had compiled."""

    name: str
    """Of the function."""
    why: Literal["not-stored", "gone", "corrupt", "another-key"]
    ingredients: tuple[str, ...]
    """Of another key: what differs in it, as JAX calls it; empty where that was not told."""
    only_first: bool
    """Whether JAX told the first ingredient that differs, and not those behind it."""
    reason: str | None
    """Of what was not stored."""
    options: tuple[OptionField, ...] = ()
    """Of another key whose compile options differ: their fields that do."""


class Disk(NamedTuple):
    """What became of it."""

    old: Outcomes
    new: Outcomes
    vain: tuple[tuple[Vain, int], ...]
    """Each with how often."""


def disk(old: Iterable[Verdict], new: Iterable[Verdict], pairs: Sequence[Pair]) -> Disk:
    """What the cache did in both runs."""
    old, new = list(old), list(new)
    told: Counter[Vain] = Counter()
    known = Options()
    for side in (old, new):
        known.add(verdict.miss for verdict in side)
    for pair in pairs:
        before, after = pair.old.miss.persistent_cache, pair.new.miss.persistent_cache
        if before is None or after is None or before.key is None or after.key is None:
            continue
        if after.outcome != "hit":
            told[_vain(pair.new.miss.function.name, before, after, known)] += 1
    return Disk(outcomes(old), outcomes(new), tuple(told.most_common()))


def outcomes(verdicts: Iterable[Verdict]) -> Outcomes:
    """What the cache did for all of these."""
    found = Outcomes()
    for verdict in verdicts:
        found.add(verdict.miss.persistent_cache)
    return found


def _vain(name: str, old: PersistentCache, new: PersistentCache, known: Options) -> Vain:
    if old.key == new.key:
        if new.reason == "corrupt-entry":
            return Vain(name, "corrupt", (), False, None)
        if old.outcome == "not-stored":
            return Vain(name, "not-stored", (), False, old.reason)
        return Vain(name, "gone", (), False, None)
    if old.own and new.own:
        fields = known.differing(old, new)
        return Vain(name, "another-key", differing(old, new), False, None, fields)
    pairs = zip(old.ingredients, new.ingredients, strict=False)
    first = next((a[0] for a, b in pairs if a != b), None)
    return Vain(name, "another-key", () if first is None else (first,), True, None)

"""What JAX's on-disk cache did in two runs, and why it missed what the first run had stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from retrace.compare.stored import OptionField, Options, differing
from retrace.model import PersistentCache, Verdict
from retrace.runs.misses import Pair
from retrace.runs.outcomes import Outcomes


class FailedLookup(NamedTuple):
    """A failed lookup of something that an earlier run had compiled."""

    name: str
    """The name of the function."""
    why: Literal["not-stored", "gone", "corrupt", "another-key"]
    ingredients: tuple[str, ...]
    """For another key: the parts that differ, in JAX's terms; empty if unknown."""
    only_first: bool
    """Whether JAX only named the first part that differs."""
    reason: str | None
    """Why it was not stored."""
    options: tuple[OptionField, ...] = ()
    """For another key with other compile options: the option fields that differ."""


class Disk(NamedTuple):
    """What the cache did in both runs."""

    old: Outcomes
    new: Outcomes
    failed: tuple[tuple[FailedLookup, int], ...]
    """Failed lookups with their counts."""


def disk(old: Iterable[Verdict], new: Iterable[Verdict], pairs: Sequence[Pair]) -> Disk:
    """What the cache did in both runs."""
    old, new = list(old), list(new)
    failed: Counter[FailedLookup] = Counter()
    known = Options()
    for side in (old, new):
        known.add(verdict.miss for verdict in side)
    for pair in pairs:
        before, after = pair.old.miss.persistent_cache, pair.new.miss.persistent_cache
        if before is None or after is None or before.key is None or after.key is None:
            continue
        if after.outcome != "hit":
            failed[_failed_lookup(pair.new.miss.function.name, before, after, known)] += 1
    return Disk(outcomes(old), outcomes(new), tuple(failed.most_common()))


def outcomes(verdicts: Iterable[Verdict]) -> Outcomes:
    """What the cache did for all of these verdicts."""
    found = Outcomes()
    for verdict in verdicts:
        found.add(verdict.miss.persistent_cache)
    return found


def _failed_lookup(
    name: str, old: PersistentCache, new: PersistentCache, known: Options
) -> FailedLookup:
    if old.key == new.key:
        if new.reason == "corrupt-entry":
            return FailedLookup(name, "corrupt", (), False, None)
        if old.outcome == "not-stored":
            return FailedLookup(name, "not-stored", (), False, old.reason)
        return FailedLookup(name, "gone", (), False, None)
    if old.own and new.own:
        fields = known.differing(old, new)
        return FailedLookup(name, "another-key", differing(old, new), False, None, fields)
    pairs = zip(old.ingredients, new.ingredients, strict=False)
    first = next((a[0] for a, b in pairs if a != b), None)
    return FailedLookup(name, "another-key", () if first is None else (first,), True, None)

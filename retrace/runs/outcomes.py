"""How often JAX's on-disk cache served a run, which a report tells too."""

from __future__ import annotations

from collections import Counter

from retrace.model import PersistentCache


class Outcomes:
    """What the cache did for all compilations of a run."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self.off = 0
        self.not_stored: Counter[str] = Counter()
        """By reason."""
        self.saved: float | None = None
        """Seconds saved according to JAX's message for each hit; None if there was no message."""

    def add(self, cache: PersistentCache | None, *, writes: bool = True) -> None:
        """Add what it did for one compilation; `writes`: whether the process writes to it."""
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
        """Whether the cache was consulted at all."""
        return bool(self.hits or self.misses or self.not_stored)

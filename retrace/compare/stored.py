"""Two keys of JAX's disk cache: which ingredients differ, and of compile options which fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retrace.model import Miss, PersistentCache

OPTIONS = "compile_options"
"""What JAX calls the ingredient that has fields."""


class OptionField(NamedTuple):
    """A field of the compile options that has two values; None where a side lacks it."""

    name: str
    old: str | None
    new: str | None


def parts_of(cache: PersistentCache) -> dict[str, str]:
    """Each ingredient of the key by its name: the hash of it alone."""
    return dict(zip((name for name, _ in cache.ingredients), cache.own, strict=False))


def differing(old: PersistentCache, new: PersistentCache) -> tuple[str, ...]:
    """The ingredients that differ, as JAX calls them."""
    before, after = parts_of(old), parts_of(new)
    names = dict.fromkeys((*before, *after))
    return tuple(name for name in names if before.get(name) != after.get(name))


class Options:
    """The fields of compile options, which are recorded once for each hash in a process."""

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, str]] = {}

    def add(self, misses: Iterable[Miss]) -> None:
        """Take in what the misses of a process tell."""
        for miss in misses:
            if (cache := miss.persistent_cache) is not None and cache.options:
                digest = parts_of(cache).get(OPTIONS, "")
                if digest not in self._known:
                    self._known[digest] = dict(cache.options)

    def differing(self, old: PersistentCache, new: PersistentCache) -> tuple[OptionField, ...]:
        """The fields that differ; nothing where either side's were not recorded."""
        before = self._known.get(parts_of(old).get(OPTIONS, ""))
        after = self._known.get(parts_of(new).get(OPTIONS, ""))
        if before is None or after is None:
            return ()
        return tuple(
            OptionField(name, before.get(name), after.get(name))
            for name in dict.fromkeys((*before, *after))
            if before.get(name) != after.get(name)
        )

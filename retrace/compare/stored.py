"""Compare two keys of JAX's disk cache: differing ingredients, and fields of compile options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from retrace.model import Miss, PersistentCache
from retrace.model.row import Row

OPTIONS = "compile_options"
"""JAX's name of the ingredient that has fields."""


class OptionField(Row):
    """A compile option that differs; None if a side lacks it."""

    name: str
    old: str | None
    new: str | None


def parts_of(cache: PersistentCache) -> dict[str, str]:
    """The hash of each ingredient of the key, by its name."""
    return dict(zip((name for name, _ in cache.ingredients), cache.own, strict=False))


def differing(old: PersistentCache, new: PersistentCache) -> tuple[str, ...]:
    """The names, as in JAX, of the ingredients that differ."""
    before, after = parts_of(old), parts_of(new)
    names = dict.fromkeys((*before, *after))
    return tuple(name for name in names if before.get(name) != after.get(name))


class Options:
    """Fields of compile options, which a process records once for each hash."""

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, str]] = {}

    def add(self, misses: Iterable[Miss]) -> None:
        """Add the fields that the misses of a process recorded."""
        for miss in misses:
            if (cache := miss.persistent_cache) is not None and cache.options:
                digest = parts_of(cache).get(OPTIONS, "")
                if digest not in self._known:
                    self._known[digest] = dict(cache.options)

    def differing(self, old: PersistentCache, new: PersistentCache) -> tuple[OptionField, ...]:
        """The fields that differ; empty if a side's fields were not recorded."""
        before = self._known.get(parts_of(old).get(OPTIONS, ""))
        after = self._known.get(parts_of(new).get(OPTIONS, ""))
        if before is None or after is None:
            return ()
        return tuple(
            OptionField(name, before.get(name), after.get(name))
            for name in dict.fromkeys((*before, *after))
            if before.get(name) != after.get(name)
        )

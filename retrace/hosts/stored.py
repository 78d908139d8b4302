"""Processes that find nothing in the disk cache that process 0 fills, and why.

JAX lets process 0 of a job alone write. What another process compiles it finds there only where
process 0 compiled it under an equal key and stored it, and in a later start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from retrace.compare.stored import OptionField, Options, differing
from retrace.model import Miss, PersistentCache, Stage

Why: TypeAlias = Literal[
    "another-key", "stored-now", "elsewhere", "not-stored", "alone", "unknown"
]
"""Why a look-up was in vain:

another-key    process 0 has the program under another key: what it stores never serves this one
stored-now     an equal key, which process 0 has only stored in this start
elsewhere      an equal key, which process 0 found: so they do not read the same folder
not-stored     process 0 did not store the program
alone          process 0 did not compile it
unknown        keys were not recorded, or were hidden
"""


class LookUp(NamedTuple):
    """One compilation that looked into the disk cache."""

    program: Hashable
    """Equal in two processes where they compiled the same function for the same time."""
    cache: PersistentCache
    seconds: float


class Unserved(NamedTuple):
    """Processes that never found anything in the disk cache, for the same reasons."""

    processes: tuple[int, ...]
    look_ups: int
    """Of one of them; where they had different numbers, the most."""
    seconds: float
    """What they compiled took in all of them together."""
    why: tuple[tuple[Why, int], ...]
    """Each reason with how many look-ups of the first of them it explains."""
    ingredients: tuple[str, ...]
    """What differs in their keys from those of process 0, as JAX calls it."""
    options: tuple[OptionField, ...]
    """The fields of the compile options that differ; of the first process."""


def look_ups(misses: Iterable[Miss], options: Options) -> tuple[LookUp, ...]:
    """Those of one process; what compile options hold is added to `options`."""
    found: list[LookUp] = []
    numbers = Counter[Hashable]()
    for miss in misses:
        cache = miss.persistent_cache
        if cache is None or cache.outcome == "off":
            continue
        types = tuple([leaf[:4] for leaf in miss.key.leaves])
        hash_ = None if miss.program is None else miss.program.hash
        program = miss.function.site, miss.derived, hash_, types
        numbers[program] += 1
        seconds = miss.stages.get(Stage.COMPILE, 0.0)
        found.append(LookUp((program, numbers[program]), cache, seconds))
    if found:
        options.add(misses)
    return tuple(found)


def unserved(own: Mapping[int, tuple[LookUp, ...]], options: Options) -> tuple[Unserved, ...]:
    """The processes that found nothing, those with the same reasons together.

    Args:
        own: the look-ups of each process, by its index in the job.
        options: what all of their compile options hold.
    """
    if 0 not in own:
        return ()
    first = {one.program: one.cache for one in own[0]}
    groups: dict[Hashable, Unserved] = {}
    for process, looked in own.items():
        if process == 0 or not looked or any(one.cache.outcome == "hit" for one in looked):
            continue
        one = _why(process, looked, first, options)
        name = one.why, one.ingredients, tuple(field.name for field in one.options)
        known = groups.get(name)
        groups[name] = one if known is None else _together(known, one)
    return tuple(groups.values())


def _together(known: Unserved, one: Unserved) -> Unserved:
    return known._replace(
        processes=known.processes + one.processes,
        look_ups=max(known.look_ups, one.look_ups),
        seconds=known.seconds + one.seconds,
    )


def _why(
    process: int,
    looked: tuple[LookUp, ...],
    first: Mapping[Hashable, PersistentCache],
    options: Options,
) -> Unserved:
    why = Counter[Why]()
    ingredients: dict[str, None] = {}
    fields: dict[OptionField, None] = {}
    for one in looked:
        theirs = first.get(one.program)
        reason = _reason(theirs, one.cache)
        why[reason] += 1
        if theirs is not None and reason == "another-key" and theirs.own and one.cache.own:
            ingredients |= dict.fromkeys(differing(theirs, one.cache))
            fields |= dict.fromkeys(options.differing(theirs, one.cache))
    return Unserved(
        (process,),
        len(looked),
        sum(one.seconds for one in looked),
        tuple(why.most_common()),
        tuple(ingredients),
        tuple(fields),
    )


def _reason(theirs: PersistentCache | None, cache: PersistentCache) -> Why:
    if theirs is None:
        return "alone"
    if theirs.key is None or cache.key is None:
        return "unknown"
    if theirs.key != cache.key:
        return "another-key"
    match theirs.outcome:
        case "hit":
            return "elsewhere"
        case "miss":
            return "stored-now"
        case _:
            return "not-stored"

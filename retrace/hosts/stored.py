"""Finds processes that never hit the disk cache that process 0 fills, and why.

In a job, JAX lets only process 0 write. Another process finds a program there only if process 0
compiled it with an equal key and stored it, and only at a later start.
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
"""Why a look-up failed:

another-key    process 0 has the program under a different key, which never serves this process
stored-now     equal keys, but process 0 stored the program only in this start
elsewhere      equal keys, and process 0 found the program: they do not read the same folder
not-stored     process 0 did not store the program
alone          process 0 did not compile the program
unknown        keys were not recorded, or were hidden
"""


class LookUp(NamedTuple):
    """A compilation that looked into the disk cache."""

    program: Hashable
    """Equal in two processes for the n-th compilation of the same function."""
    cache: PersistentCache
    seconds: float


class Unserved(NamedTuple):
    """Processes that never hit the disk cache, for the same reasons."""

    processes: tuple[int, ...]
    look_ups: int
    """Maximum over these processes."""
    seconds: float
    """Total compile time of these processes."""
    why: tuple[tuple[Why, int], ...]
    """Each reason with the number of look-ups it explains, for the first process."""
    ingredients: tuple[str, ...]
    """JAX's names for the parts of their keys that differ from those of process 0."""
    options: tuple[OptionField, ...]
    """The fields of the compile options that differ, for the first process."""


def look_ups(misses: Iterable[Miss], options: Options) -> tuple[LookUp, ...]:
    """The look-ups of one process; its compile options are added to `options`."""
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
    """The processes that found nothing, grouped by reasons.

    Args:
        own: the look-ups of each process, by its index in the job.
        options: the compile options of all of them.
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

"""Two recordings held against each other: what is new, gone, dearer or cheaper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from retrace.causes import Cause
from retrace.model import Miss, PersistentCache
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.present.words import clean, count, name, seconds, times

_WORTH_TELLING = 0.05
"""Seconds below which a difference of cost is noise."""

Key: TypeAlias = tuple[str, Cause]


class _Row(NamedTuple):
    misses: int
    seconds: float


def difference(old: View, new: View, width: int = 80) -> str:
    """What the second recording has more, or less, by function and cause."""
    before, after = _rows(old), _rows(new)
    totals = Tally.of(old).totals, Tally.of(new).totals
    said = " -> ".join(
        f"{count(total.misses, 'miss', 'misses')}, {seconds(total.all_seconds)}"
        for total in totals
    )
    out = [f"retrace: {said}"]
    for title, lines in (
        ("new", _one_sided(after, before)),
        ("gone", _one_sided(before, after)),
        ("changed", _changed(before, after)),
    ):
        if told := list(lines):
            out += ["", title, *told]
    if told := list(_disk_cache(old, new)):
        out += ["", "on-disk cache", *told]
    if len(out) == 1:
        out.append("         the same misses by function and cause, at about the same cost")
    return "\n".join(line[: max(width, 40)] for line in out) + "\n"


def _disk_cache(old: View, new: View) -> Iterator[str]:
    """Why JAX did not find on disk what the first recording had compiled."""
    known: dict[object, PersistentCache] = {}
    for miss in old.recording.misses:
        if (cache := miss.persistent_cache) is not None and cache.key is not None:
            known[_compiled(miss)] = cache
    told: Counter[tuple[str, str]] = Counter()
    for miss in new.recording.misses:
        cache, before = miss.persistent_cache, known.get(_compiled(miss))
        if before is None or cache is None or cache.key is None or cache.outcome == "hit":
            continue
        told[name(miss.function), _looked_up_in_vain(before, cache)] += 1
    for (what, why), number in told.most_common():
        yield f"{'':>14}   {what}: {why}, {times(number)}"


def _compiled(miss: Miss) -> object:
    function, leaves = miss.function, miss.key.leaves
    static = tuple((path, value.text) for path, value in miss.key.static)
    return (function.qualname, function.kind, miss.derived, leaves, static)


def _looked_up_in_vain(old: PersistentCache, new: PersistentCache) -> str:
    if old.key == new.key:
        if old.outcome == "not-stored":
            return f"not on disk, since it was not stored ({clean(old.reason)})"
        return "the same key, and no longer on disk"
    for (what, before), (_, after) in zip(old.ingredients, new.ingredients, strict=False):
        if before != after:
            return f"another key, by its {clean(what)}"
    return "another key"


def _rows(view: View) -> dict[Key, _Row]:
    found: dict[Key, _Row] = {}
    for verdict in view.verdicts:
        what = "eager operations" if verdict.cause is Cause.EAGER_OP else ""
        key = (what or name(verdict.miss.function), verdict.cause)
        row = found.get(key, _Row(0, 0.0))
        found[key] = _Row(row.misses + 1, row.seconds + view.own[verdict.miss.id])
    return found


def _one_sided(here: dict[Key, _Row], there: dict[Key, _Row]) -> Iterator[str]:
    only = [(key, row) for key, row in here.items() if key not in there]
    for (what, cause), row in sorted(only, key=lambda item: -item[1].seconds):
        yield f"{seconds(row.seconds):>14}   {what}: {cause.value}, {times(row.misses)}"


def _changed(before: dict[Key, _Row], after: dict[Key, _Row]) -> Iterator[str]:
    both = [(key, before[key], after[key]) for key in before if key in after]
    both.sort(key=lambda item: -abs(item[2].seconds - item[1].seconds))
    for (what, cause), old, new in both:
        more = new.seconds - old.seconds
        if old.misses == new.misses and abs(more) < max(_WORTH_TELLING, old.seconds / 2):
            continue
        said = "" if old.misses == new.misses else f", {old.misses:,} -> {new.misses:,} misses"
        sides = f"{seconds(old.seconds)} -> {seconds(new.seconds)}"
        sign = "+" if more >= 0 else "-"
        yield f"{sign}{seconds(abs(more)):>13}   {what}: {cause.value}, {sides}{said}"

"""Eager operations that one place runs on arrays of many sizes.

A loop over what grows, or over data of several lengths, gives one size after the other to an
operation. A loop over the layers of a network looks alike from outside: the same line, the same
operation, other shapes. What tells them apart is what varies: data vary along the same axes
in every round, and by the same number along all of them; of layers,
one gives what the next takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias, cast

from retrace.compare.keys import changes
from retrace.model import Change, Component, Miss, ShapeChange, StaticChange, Verdict
from retrace.reason.eager import LENGTH, by_size, joins, same_work
from retrace.reason.rules import in_key

_LOOKED = 4
"""How many earlier operations at one place a new one is compared with."""
_SIZES = 3
"""This many sizes along the same axes count as one thing that varies."""
_MOSTLY = 0.75
"""Of the operations of a place, so many vary by one thing alone, where data do."""

_Axes: TypeAlias = frozenset[tuple[str, int]]


def sized(members: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Those that the same place had compiled before for other sizes of the same thing.

    Args:
        members: the eager operations of a line, in order.

    Returns:
        None of them where the sizes are those of several things, as of the layers of a network.
    """
    earlier: dict[Hashable, list[Miss]] = {}
    again: list[Verdict] = []
    sizes: dict[Hashable, dict[_Axes, set[object]]] = defaultdict(lambda: defaultdict(set))
    varying: dict[str, tuple[Hashable, set[_Axes]]] = {}
    for verdict in members:
        miss = verdict.miss
        key = (miss.run, miss.function.jax_name, miss.lines)
        before = earlier.setdefault(key, [])
        pairs = [
            (one, found)
            for one in before[:_LOOKED]
            if same_work(one, miss) and by_size(found := changes(one, miss))
        ]
        if pairs:
            again.append(verdict)
            own: set[_Axes] = set()
            sides = (_one_size(one, miss, found) for one, found in pairs)
            for axes, old, new in filter(None, sides):
                sizes[key][axes] |= {old, new}
                own.add(axes)
            varying[miss.id] = key, own
        before.append(miss)
    one = 0
    for verdict in again:
        key, own = varying[verdict.miss.id]
        known = sizes[key]
        one += any(len(known) == 1 or len(known[axes]) >= _SIZES for axes in own)
    return tuple(again) if one >= _MOSTLY * len(again) else ()


def sizes_of(again: Iterable[Verdict]) -> set[object]:
    """The sizes for which operations were compiled again, those of their first time as well."""
    turns = [turn for one in again for change in one.changes for turn in _turns(change)]
    found = {size for *_, old, new in turns for size in (old, new)}
    if found:
        return found
    pairs = ((one.nearest, one.miss) for one in again if one.nearest is not None)
    return {number for pair in pairs for number in arrays(*pair) or ()}


def arrays(old: Miss, new: Miss) -> tuple[int, int] | None:
    """How many arrays an operation joined, where nothing but that is another number.

    A list that grows is joined anew in each round: no shape of what is in it changes.
    """
    parts = (Component.TREE, Component.SIGNATURE)
    if not joins(old, new) or any(c.component not in parts for c in in_key(changes(old, new))):
        return None
    return len(old.key.leaves), len(new.key.leaves)


def _one_size(
    before: Miss, after: Miss, found: Iterable[Change]
) -> tuple[_Axes, object, object] | None:
    """The axes along which one size became another; None where several did, or no size."""
    turns = [turn for change in found for turn in _turns(change)]
    if not turns and (numbers := arrays(before, after)) is not None:
        return frozenset((("", -1),)), *numbers
    # What pads an array to a size, or cuts it, follows from how long the array is.
    turns = [turn for turn in turns if turn[0]] or turns
    sizes = {(old, new) for *_, old, new in turns}
    if len(sizes) != 1:
        return None
    ((old, new),) = sizes
    return frozenset((path, axis) for _, path, axis, _, _ in turns), old, new


def _turns(change: Change) -> Iterator[tuple[bool, str, int, object, object]]:
    """Each axis that became another: whether of an array, whose, which, from what to what."""
    before: Sequence[object]
    after: Sequence[object]
    is_array = isinstance(change, ShapeChange)
    if is_array:
        before, after = change.old, change.new
    elif isinstance(change, StaticChange):
        old, new = [value and value.data for value in (change.old, change.new)]
        if change.path == LENGTH:
            yield False, change.path, 0, repr(old), repr(new)
            return
        if not isinstance(old, list) or not isinstance(new, list):
            return
        before, after = cast(list[object], old), cast(list[object], new)
    else:
        return
    if len(before) != len(after):
        return
    for axis, (a, b) in enumerate(zip(before, after, strict=True)):
        if a != b:
            yield is_array, change.path, axis, repr(a), repr(b)

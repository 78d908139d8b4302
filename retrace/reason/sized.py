"""Eager operations that one place runs on arrays of many sizes.

A loop over growing data, or over data of several lengths, gives an operation one size after
another. A loop over the layers of a network looks the same from outside: same line, same
operation, other shapes. What varies tells them apart: data vary along the same axes in every
round, all by the same number, whereas one layer's output is the next one's input.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias, cast

from retrace.compare.keys import changes
from retrace.model import Change, Component, Miss, NamedChange, ShapeChange, Verdict
from retrace.model.parts import OF_ARGUMENTS
from retrace.reason.eager import LENGTH, by_size, joins, same_work
from retrace.reason.rules import in_key

_MAX_COMPARED = 4
"""Number of earlier operations at a place that a new one is compared with."""
_MIN_SIZES = 3
"""Minimum number of sizes along the same axes to count as one varying thing."""
_MIN_REPEATS = 3
"""Minimum number of repeated operations on a line for sizes to be the cause."""
_MASK = "mask"
_MIN_SHARE = 0.75
"""Fraction of a place's operations that must vary in one way only for them to be data."""

_Axes: TypeAlias = frozenset[tuple[str, int]]


def sized(members: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Operations that the same place had compiled before for other sizes of the same thing.

    Args:
        members: the eager operations of a line, in order.

    Returns:
        Nothing if the sizes belong to several things, such as the layers of a network, whose
        weights have more axes than their biases.
    """
    earlier: dict[Hashable, list[Miss]] = {}
    again: list[Verdict] = []
    sizes: dict[Hashable, dict[_Axes, set[object]]] = defaultdict(lambda: defaultdict(set))
    varying: dict[str, tuple[Hashable, set[_Axes]]] = {}
    ranks: dict[Hashable, set[frozenset[int]]] = defaultdict(set)
    for verdict in members:
        miss = verdict.miss
        key = _program_of(verdict)
        ranks[key].add(frozenset([len(leaf.shape) for leaf in miss.key.leaves]))
        before = earlier.setdefault(key, [])
        pairs = [
            (one, found)
            for one in before[:_MAX_COMPARED]
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
        one += len(ranks[key]) == 1 and any(
            len(known) == 1 or len(known[axes]) >= _MIN_SIZES for axes in own
        )
    return tuple(again) if one >= _MIN_SHARE * len(again) else ()


def of_many_sizes(members: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The same, or nothing if there were too few repeats or sizes to tell.

    One call may run an operation on two things, as `jnp.mgrid` does for its axes.
    """
    again = sized(members)
    is_many = len(again) >= _MIN_REPEATS and len(sizes_of(again)) >= _MIN_SIZES
    return again if is_many else ()


def sizes_of(again: Iterable[Verdict]) -> set[object]:
    """The sizes for which operations were compiled again, including the first ones."""
    turns = [turn for one in again for change in one.changes for turn in _turns(change)]
    found = {size for *_, old, new in turns for size in (old, new)}
    if found:
        return found
    pairs = ((one.nearest, one.miss) for one in again if one.nearest is not None)
    return {number for pair in pairs for number in arrays(*pair) or ()}


def grows_evenly(again: Iterable[Verdict]) -> bool:
    """Whether each array grew each time, by as much as before: something is appended to it.

    Lengths of data may happen to grow as well, and a grid that is refined is another one.
    """
    steps: dict[Hashable, set[int]] = defaultdict(set)
    for verdict in again:
        for old, new in _resized(verdict):
            steps[_program_of(verdict), new > old].add(new - old)
    return bool(steps) and all(len(own) == 1 and min(own) > 0 for own in steps.values())


def are_doubled(again: Iterable[Verdict]) -> bool:
    """Whether each size is another one times a power of two, as those of a refined grid are."""
    pairs = [pair for verdict in again for pair in _resized(verdict)]
    times = [divmod(max(pair), min(pair) or 1) for pair in pairs]
    return bool(times) and all(not rest and not n & (n - 1) for n, rest in times)


def _resized(verdict: Verdict) -> Iterator[tuple[int, int]]:
    """The old and the new size of each changed axis of an array."""
    for change in verdict.changes:
        for _, old, new in (isinstance(change, ShapeChange) and change.resized) or ():
            if isinstance(old, int) and isinstance(new, int):
                yield old, new


def picked(members: Sequence[Verdict], again: Sequence[Verdict]) -> str:
    """What gives the operations of a line their sizes by picking elements, if that is certain.

    The array that it picks from must have had one size: it took a mask of another count, or the
    first operation of the function ran for one size only.

    Args:
        members: the eager operations of the line.
        again: those that were compiled again for other sizes.
    """
    for verdict in again:
        miss, nearest = verdict.miss, verdict.nearest
        if miss.picked != _MASK or nearest is None:
            continue
        taken, before = miss.key.leaves[:1], nearest.key.leaves[:1]
        if nearest.picked == _MASK and [t.shape for t in taken] == [b.shape for b in before]:
            return _MASK
    repeated = {_program_of(verdict) for verdict in again}
    of: dict[str, list[bool]] = defaultdict(list)
    for verdict in members:
        if verdict.miss.picked not in (None, _MASK):
            of[verdict.miss.picked].append(_program_of(verdict) in repeated)
    return next((name for name, are in of.items() if not are[0] and any(are)), "")


def _program_of(verdict: Verdict) -> Hashable:
    """An operation at its place in JAX."""
    return verdict.miss.run, verdict.miss.function.jax_name, verdict.miss.lines


def arrays(old: Miss, new: Miss) -> tuple[int, int] | None:
    """The numbers of arrays that an operation joined, if nothing else changed.

    A growing list is joined again in each round, while the shapes of its items stay the same.
    """
    parts = (Component.TREE, Component.SIGNATURE)
    if not joins(old, new) or any(c.component not in parts for c in in_key(changes(old, new))):
        return None
    return len(old.key.leaves), len(new.key.leaves)


def _one_size(
    before: Miss, after: Miss, found: Iterable[Change]
) -> tuple[_Axes, object, object] | None:
    """The axes whose size changed in the same way, with both sizes, or None."""
    turns = [turn for change in found for turn in _turns(change)]
    if not turns and (numbers := arrays(before, after)) is not None:
        return frozenset((("", -1),)), *numbers
    # Parameters that pad or slice an array follow from its length.
    turns = [turn for turn in turns if turn[0]] or turns
    sizes = {(old, new) for *_, old, new in turns}
    if len(sizes) != 1:
        return None
    ((old, new),) = sizes
    return frozenset((path, axis) for _, path, axis, _, _ in turns), old, new


def _turns(change: Change) -> Iterator[tuple[bool, str, int, object, object]]:
    """Each changed axis: whether it is an array's, the path, the axis, the old and new size."""
    before: Sequence[object]
    after: Sequence[object]
    is_array = isinstance(change, ShapeChange)
    if is_array:
        before, after = change.old, change.new
    elif isinstance(change, NamedChange) and change.component in OF_ARGUMENTS:
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

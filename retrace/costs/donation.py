"""Donated buffers, and what the executable does with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, cast

from retrace.compare.outputs import outputs
from retrace.costs.constants import size
from retrace.model import JSON, Key, Leaf, Listing, Passing
from retrace.model.slow import Memory

_ONE_DEVICE = "SingleDevice"


class Donated(NamedTuple):
    """What was donated, in bytes."""

    bytes: int
    reused: int
    """The part that results are written into, according to XLA."""
    refused: tuple[Leaf, ...]
    """Donated leaves that are not reused because no result is as large. Empty if that does not
    explain the whole difference."""


def donated(key: Key, memory: Memory | None, listing: Listing | None) -> Donated | None:
    """What became of the arguments that a call donates.

    Args:
        key: the key of the call.
        memory: the memory of its executable.
        listing: its program; without it no leaf can be named.

    Returns:
        None if nothing is donated, or the size is unknown: XLA counts bytes on one device, which
        for an array on several devices is only a part.
    """
    leaves = _donated(key)
    if memory is None or leaves is None:
        return None
    sizes = [_bytes(leaf) for leaf in leaves]
    on_one = all((leaf.sharding or _ONE_DEVICE).startswith(_ONE_DEVICE) for leaf in leaves)
    total = sum(sizes)
    if not total or not all(sizes) or not on_one or memory.aliased > total:
        return None
    refused = () if listing is None else tuple(_refused(leaves, listing))
    if sum(map(_bytes, refused)) != total - memory.aliased:
        refused = ()
    return Donated(total, memory.aliased, refused)


def _donated(key: Key) -> list[Leaf] | None:
    """The donated leaves, or None if unknown."""
    options = dict(key.options)
    by_place = [name for name, how in key.signature if how == Passing.POSITIONAL]
    by_name = {name for name, how in key.signature if how == Passing.KEYWORD}
    names: set[str] = set()
    if (numbers := options.get("donate_argnums")) is not None:
        for number in _each(numbers.data):
            if isinstance(number, int) and -len(by_place) <= number < len(by_place):
                names.add(by_place[number])
            elif by_name:
                return None  # one of the variadic arguments, by position
    if (named := options.get("donate_argnames")) is not None:
        names.update(name for name in _each(named.data) if isinstance(name, str))
    starts = tuple(f"{name}{opening}" for name in names for opening in "[.")
    return [leaf for leaf in key.leaves if leaf.path in names or leaf.path.startswith(starts)]


def _each(data: JSON) -> list[object]:
    return cast(list[object], data) if isinstance(data, list) else [data]


def _refused(leaves: list[Leaf], listing: Listing) -> Iterator[Leaf]:
    results = Counter(size(one.type.removeprefix("~")) for one in outputs(listing))
    for leaf in leaves:
        if results[_bytes(leaf)]:
            results[_bytes(leaf)] -= 1
        else:
            yield leaf


def _bytes(leaf: Leaf) -> int:
    return size(f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]")

"""The best few sizes for axes that vary together, when only some combinations occur.

Examples: a batch of few long texts or many short ones, a graph with some number of nodes and
edges. Padding each axis to a few sizes of its own leaves nearly every combination a program. So
the sizes are chosen together: each call is padded to one of k corners, which is at least as long
on every axis as the calls padded to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from retrace.model.row import Row

Size: TypeAlias = tuple[int, ...]
"""The length of each of several axes in one call."""
Cost: TypeAlias = Callable[[Size], float]
_Groups: TypeAlias = tuple[tuple[Size, ...], ...]

_MAX_EXHAUSTIVE = 9
"""With at most this many sizes, every way to group them is tried."""
_MAX_MERGED = 48
"""With at most this many groups, the cheapest two are merged repeatedly."""
_MAX_SIZES = 192
"""Maximum number of distinct sizes; if there are more, close ones count as one."""


class Corners(Row):
    """A number of corners, and what padding to them costs."""

    sizes: tuple[Size, ...]
    """Cheapest first."""
    cost: float
    """The cost of all calls, including padding."""
    padding: float
    """The fraction of the cost that is padding."""
    flops: float | None = None
    """The same for what the programs compute, or None if unknown."""


def corner_curve(weights: Mapping[Size, float], cost: Cost, limit: int) -> list[Corners]:
    """The best choice of one corner, of two, and so on up to `limit` or the number of sizes.

    Exact for few sizes; for many, the best of several heuristics.

    Args:
        weights: how often each size is called.
        cost: what one call of a size costs; must not decrease as any axis grows.
        limit: the maximum number of corners.
    """
    near = _coarsened(weights)
    limit = min(limit, len(near))
    tried = [_exhaustive] if len(near) <= _MAX_EXHAUSTIVE else [_in_order, _merged]
    found = [way(near, cost, limit) for way in tried]
    real = sum(weight * cost(size) for size, weight in weights.items())
    choices_found: list[Corners] = []
    for choices in zip(*found, strict=True):
        ways = [_settled(groups, weights, cost) for groups in choices]
        choices_found.append(_corners(min(ways, key=lambda own: own[1]), real))
    for fewer, more in pairwise(range(len(choices_found))):
        if choices_found[more].cost > choices_found[fewer].cost:
            choices_found[more] = choices_found[fewer]
    return list({len(choice.sizes): choice for choice in reversed(choices_found)}.values())[::-1]


def powers_of_two(weights: Mapping[Size, float], cost: Cost) -> Corners:
    """The cost of rounding each axis up to a power of two."""
    rounded = {size: tuple(map(power_of_two, size)) for size in weights}
    paid = sum(weight * cost(rounded[size]) for size, weight in weights.items())
    real = sum(weight * cost(size) for size, weight in weights.items())
    sizes = sorted(set(rounded.values()), key=lambda one: (cost(one), one))
    return _corners((tuple(sizes), paid), real)


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size`; 0 stays 0."""
    return 1 << (size - 1).bit_length() if size > 0 else 0


def corner_of(size: Size, corners: Sequence[Size]) -> Size:
    """The first corner that the size fits into, or the size itself if there is none."""
    return next((one for one in corners if _fits(size, one)), size)


def _fits(size: Size, corner: Size) -> bool:
    return all(own <= there for own, there in zip(size, corner, strict=True))


def _corner(sizes: Sequence[Size]) -> Size:
    return tuple(map(max, zip(*sizes, strict=True)))


def _corners(found: tuple[tuple[Size, ...], float], real: float) -> Corners:
    sizes, paid = found
    return Corners(sizes, paid, (paid - real) / paid if paid > 0 else 0.0)


def _settled(
    groups: _Groups, weights: Mapping[Size, float], cost: Cost
) -> tuple[tuple[Size, ...], float]:
    """Corners after moving each size to its cheapest corner, and the total cost of all calls."""
    corners = tuple(dict.fromkeys(_corner(group) for group in groups))
    while True:
        corners = tuple(sorted(corners, key=lambda one: (cost(one), one)))
        own: dict[Size, list[Size]] = {}
        for size in weights:
            own.setdefault(corner_of(size, corners), []).append(size)
        tighter = tuple(dict.fromkeys(_corner(group) for group in own.values()))
        if set(tighter) == set(corners):
            paid = sum(weights[size] * cost(one) for one, group in own.items() for size in group)
            return corners, paid
        corners = tighter


def _exhaustive(weights: Mapping[Size, float], cost: Cost, limit: int) -> list[_Groups]:
    """The best way to form each number of groups, up to the limit."""
    sizes = list(weights)
    alone = [0.0] * (1 << len(sizes))
    for mask in range(1, len(alone)):
        own = [size for bit, size in enumerate(sizes) if mask >> bit & 1]
        alone[mask] = sum(weights[size] for size in own) * cost(_corner(own))
    best = [0.0, *([float("inf")] * (len(alone) - 1))]
    last: list[list[int]] = []
    found: list[_Groups] = []
    for _ in range(limit):
        new, taken = [float("inf")] * len(alone), [0] * len(alone)
        for mask in range(1, len(alone)):
            lowest = mask & -mask
            part = mask
            while part:
                if part & lowest and best[mask ^ part] + alone[part] < new[mask]:
                    new[mask], taken[mask] = best[mask ^ part] + alone[part], part
                part = (part - 1) & mask
        best = new
        last.append(taken)
        found.append(_taken(sizes, last))
    return found


def _taken(sizes: Sequence[Size], last: Sequence[Sequence[int]]) -> _Groups:
    mask, groups = (1 << len(sizes)) - 1, list[tuple[Size, ...]]()
    for taken in reversed(last):
        if not mask:
            break
        part = taken[mask]
        groups.append(tuple(size for bit, size in enumerate(sizes) if part >> bit & 1))
        mask ^= part
    return tuple(groups)


def _in_order(weights: Mapping[Size, float], cost: Cost, limit: int) -> list[_Groups]:
    """Groups of neighbours, sorted along the axis that makes them cheapest."""
    ways = [
        _neighbours(sorted(weights, key=lambda size: (size[axis], size)), weights, cost, limit)
        for axis in range(len(next(iter(weights))))
    ]
    return [
        min(choices, key=lambda groups: _paid(groups, weights, cost))
        for choices in zip(*ways, strict=True)
    ]


def _neighbours(
    sizes: Sequence[Size], weights: Mapping[Size, float], cost: Cost, limit: int
) -> list[_Groups]:
    number = len(sizes)
    alone = [[0.0] * (number + 1) for _ in range(number)]
    for start in range(number):
        corner, called = sizes[start], 0.0
        for end in range(start, number):
            corner = _corner((corner, sizes[end]))
            called += weights[sizes[end]]
            alone[start][end + 1] = called * cost(corner)
    best = [0.0, *([float("inf")] * number)]
    begins: list[list[int]] = []
    found: list[_Groups] = []
    for _ in range(limit):
        new, begin = [float("inf")] * (number + 1), [0] * (number + 1)
        for end in range(1, number + 1):
            begin[end] = min(range(end), key=lambda at: best[at] + alone[at][end])
            new[end] = best[begin[end]] + alone[begin[end]][end]
        best = new
        begins.append(begin)
        end, groups = number, list[tuple[Size, ...]]()
        for one in reversed(begins):
            if end:
                groups.append(tuple(sizes[one[end] : end]))
                end = one[end]
        found.append(tuple(groups))
    return found


def _merged(weights: Mapping[Size, float], cost: Cost, limit: int) -> list[_Groups]:
    """Repeatedly merge the two groups that are cheapest to merge."""
    groups: list[tuple[Size, ...]] = [(size,) for size in weights]
    if len(groups) > _MAX_MERGED:
        groups = list(_in_order(weights, cost, _MAX_MERGED)[-1])
    found: dict[int, _Groups] = {}
    while groups:
        found[len(groups)] = tuple(groups)
        if len(groups) == 1:
            break
        paid = [_paid((group,), weights, cost) for group in groups]
        a, b = min(
            ((a, b) for a in range(len(groups)) for b in range(a)),
            key=lambda pair: (
                _paid((groups[pair[0]] + groups[pair[1]],), weights, cost)
                - paid[pair[0]]
                - paid[pair[1]]
            ),
        )
        groups[b] = groups[a] + groups[b]
        del groups[a]
    return [found[number] for number in range(1, limit + 1)]


def _paid(groups: _Groups, weights: Mapping[Size, float], cost: Cost) -> float:
    return sum(sum(weights[size] for size in group) * cost(_corner(group)) for group in groups)


def _coarsened(weights: Mapping[Size, float]) -> dict[Size, float]:
    """The sizes, rounded up to coarser ones until there are few enough."""
    found, step = dict(weights), 1
    while len(found) > _MAX_SIZES:
        step *= 2
        found = dict[Size, float]()
        for size, weight in weights.items():
            coarse = tuple(-(-one // step) * step for one in size)
            found[coarse] = found.get(coarse, 0.0) + weight
    return found

"""The best few sizes for many: what is padded to them costs least.

Among all choices of k sizes, the one that pays the fewest padded elements, found by dynamic
programming. A size that is chosen is one that was seen: anything between would pad more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from retrace.plan.corners import Corners, power_of_two

Cost = Callable[[int], float]


class Choice(NamedTuple):
    """So many sizes, and what padding to them costs."""

    sizes: tuple[int, ...]
    cost: float
    """Of all calls, padding included."""
    padding: float
    """The share of it that is padding."""
    flops: float | None = None
    """The same of what the programs compute; None where their text does not tell."""


def curve(weights: Mapping[int, float], cost: Cost, most: int) -> list[Choice]:
    """The best choice of one size, of two, and so on up to `most` or to all that were seen.

    Args:
        weights: how often each size is called.
        cost: what one call of a size costs; must not fall as sizes grow.
        most: so many sizes at most.
    """
    sizes = sorted(weights)
    most = min(most, len(sizes))
    paid = [cost(size) for size in sizes]
    called = [0.0, *accumulate(weights[size] for size in sizes)]
    real = sum(weights[size] * one for size, one in zip(sizes, paid, strict=True))
    # best[e]: the least that the first e sizes cost with so many choices.
    best = [0.0, *([float("inf")] * len(sizes))]
    begins: list[list[int]] = []
    found: list[Choice] = []
    for _ in range(most):
        best, begin = _one_more(best, paid, called)
        begins.append(begin)
        found.append(_choice(sizes, begins, best[-1], real))
    return found


def _one_more(
    best: Sequence[float], paid: Sequence[float], called: Sequence[float]
) -> tuple[list[float], list[int]]:
    """The least cost with one more size, and where the sizes padded to the last begin.

    Where the last group begins only moves up as more sizes are taken in, so that each half
    needs to look at a part alone.
    """
    number = len(paid)
    new = [float("inf")] * (number + 1)
    begin = [0] * (number + 1)
    waiting = [(1, number, 0, number - 1)]
    while waiting:
        low, high, least, most = waiting.pop()
        if low > high:
            continue
        end = (low + high) // 2
        for start in range(least, min(most, end - 1) + 1):
            cost = best[start] + paid[end - 1] * (called[end] - called[start])
            if cost < new[end]:
                new[end], begin[end] = cost, start
        waiting += [(low, end - 1, least, begin[end]), (end + 1, high, begin[end], most)]
    return new, begin


def _choice(
    sizes: Sequence[int], begins: Sequence[Sequence[int]], cost: float, real: float
) -> Choice:
    end, chosen = len(sizes), list[int]()
    for begin in reversed(begins):
        if end == 0:
            break
        chosen.append(sizes[end - 1])
        end = begin[end]
    return Choice(tuple(reversed(chosen)), cost, _share(cost, real))


def powers_of_two(weights: Mapping[int, float], cost: Cost) -> Choice:
    """What rounding up to powers of two costs."""
    rounded = {size: power_of_two(size) for size in weights}
    paid = sum(weight * cost(rounded[size]) for size, weight in weights.items())
    real = sum(weight * cost(size) for size, weight in weights.items())
    return Choice(tuple(sorted(set(rounded.values()))), paid, _share(paid, real))


def _share(paid: float, real: float) -> float:
    return (paid - real) / paid if paid > 0 else 0.0


_Chosen = TypeVar("_Chosen", Choice, Corners)

FEW = 3
"""Up to so many sizes, one for all is looked for."""
_PADDING = 0.15
"""The share of padding that is worth paying for fewer programs."""


def recommended(choices: Sequence[_Chosen], number: int) -> _Chosen:
    """The fewest sizes that pay little padding; of few sizes, one."""
    if number <= FEW:
        return choices[0]
    for choice in choices:
        if choice.padding <= _PADDING:
            return choice
    return choices[-1]


def covering(size: int, sizes: Sequence[int]) -> int:
    """The smallest of some sizes that a size fits into; itself where it fits into none."""
    return next((one for one in sizes if one >= size), size)

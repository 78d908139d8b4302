"""The best few sizes to pad many sizes to, at the lowest cost.

Dynamic programming finds, for each k, the k sizes with the fewest padded elements. Chosen sizes
are always recorded ones: any size in between would only add padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import TypeVar, overload

from retrace.model.row import Row
from retrace.plan.corners import Corners, power_of_two

Cost = Callable[[int], float]


class Choice(Row):
    """A number of sizes, and what padding to them costs."""

    sizes: tuple[int, ...]
    cost: float
    """The cost of all calls, including padding."""
    padding: float
    """The fraction of the cost that is padding."""
    flops: float | None = None
    """The same for what the programs compute, or None if unknown."""


class Curve(Sequence[Choice]):
    """The best choice of one size, of two, and so on, each computed when it is first needed.

    A report shows one of them, usually of few sizes; all of them for a thousand sizes take as
    long as reading the recording.
    """

    def __init__(self, choices: Iterable[Choice]) -> None:
        self._coming = iter(choices)
        self._known: list[Choice] = []

    def __iter__(self) -> Iterator[Choice]:
        at = 0
        while at < len(self._known) or self._has_more():
            yield self._known[at]
            at += 1

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> Choice: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Choice]: ...

    def __getitem__(self, index: int | slice) -> Choice | Sequence[Choice]:
        return self._all()[index]

    def _has_more(self) -> bool:
        before = len(self._known)
        self._known += islice(self._coming, 1)
        return len(self._known) > before

    def _all(self) -> list[Choice]:
        self._known += self._coming
        return self._known


def curve(weights: Mapping[int, float], cost: Cost, limit: int) -> Iterator[Choice]:
    """The best choice of one size, of two, and so on up to `limit` or the number of sizes.

    Args:
        weights: how often each size is called.
        cost: what one call of a size costs; must not decrease as sizes grow.
        limit: the maximum number of sizes.
    """
    sizes = sorted(weights)
    limit = min(limit, len(sizes))
    paid = [cost(size) for size in sizes]
    called = [0.0, *accumulate(weights[size] for size in sizes)]
    real = sum(weights[size] * one for size, one in zip(sizes, paid, strict=True))
    # best[e]: the lowest cost of the first e sizes with the current number of choices.
    best = [0.0, *([float("inf")] * len(sizes))]
    begins: list[list[int]] = []
    for _ in range(limit):
        best, begin = _add_size(best, paid, called)
        begins.append(begin)
        yield _choice(sizes, begins, best[-1], real)


def _add_size(
    best: Sequence[float], paid: Sequence[float], called: Sequence[float]
) -> tuple[list[float], list[int]]:
    """The lowest cost with one more size, and where the group padded to the last size starts.

    The start of the last group never moves down as more sizes are added, so each half only needs
    to search a part of the range.
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
    """The cost of rounding up to powers of two."""
    rounded = {size: power_of_two(size) for size in weights}
    paid = sum(weight * cost(rounded[size]) for size, weight in weights.items())
    real = sum(weight * cost(size) for size, weight in weights.items())
    return Choice(tuple(sorted(set(rounded.values()))), paid, _share(paid, real))


def _share(paid: float, real: float) -> float:
    return (paid - real) / paid if paid > 0 else 0.0


_Chosen = TypeVar("_Chosen", Choice, Corners)

FEW = 3
"""With at most this many sizes, one size for all is recommended."""
_MAX_PADDING = 0.15
"""The fraction of padding that is worth paying for fewer programs."""


def recommended(choices: Sequence[_Chosen], number: int) -> _Chosen:
    """The fewest sizes with acceptable padding, or a single size if there are few."""
    if number <= FEW:
        return choices[0]
    for choice in choices:
        if choice.padding <= _MAX_PADDING:
            return choice
    return choices[-1]


def covering(size: int, sizes: Sequence[int]) -> int:
    """The smallest size that this one fits into, or the size itself if there is none."""
    return next((one for one in sizes if one >= size), size)

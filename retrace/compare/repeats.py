"""Blocks repeated several times in a row: what a Python loop leaves in a program."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from retrace.model.row import Row

_MAX_CANDIDATES = 6
_MAX_SHIFT = 64
"""How far back the start of a block is searched, if it may begin in several places."""
_MIN_ROUNDS, _MAX_ROUNDS = 3, 16
"""Rounds of a long block."""
_MAX_STEPS = 4
_MAX_PLACES = 400
_BUDGET = 4_000_000
"""Maximum number of equation comparisons spent on finding blocks."""


class Run(Row):
    """A block: where it starts, its length, and how many times it is repeated there."""

    start: int
    length: int
    times: int


def runs(tokens: Sequence[Hashable]) -> Iterator[Run]:
    """Split a sequence into runs, preferring the shortest block at each place."""
    numbers: dict[Hashable, int] = {}
    row = array("q", [numbers.setdefault(token, len(numbers)) for token in tokens])
    following = [array("q") for _ in numbers]
    for index, number in enumerate(row):
        following[number].append(index)
    seen = [0] * len(following)
    budget = _BUDGET
    index = 0
    while index < len(row):
        places = following[row[index]]
        at = seen[row[index]]
        while places[at] < index:
            at += 1
        seen[row[index]] = at
        length, times = 1, 1
        for place in places[at + 1 : at + 1 + _MAX_CANDIDATES]:
            step = place - index
            if place + step > len(row) or budget < 0:
                break
            if row[place - 1] != row[place + step - 1]:
                continue
            budget -= step
            block = row[index:place]
            if block == row[place : place + step]:
                length, times = step, 2
                while row[index + times * step : index + (times + 1) * step] == block:
                    times += 1
                break
        yield Run(index, length, times)
        index += length * times


def long_runs(tokens: Sequence[Hashable]) -> Iterator[Run]:
    """Find blocks of many tokens repeated a few times in a row, which `runs` does not find.

    The first token of a long block occurs in it many times. Each token occurs equally often in
    every round, and the distance from one round to the next is the same for all tokens.
    """
    numbers: dict[Hashable, int] = {}
    row = array("q", [numbers.setdefault(token, len(numbers)) for token in tokens])
    places = {
        number: array("q")
        for number, times in Counter(row).items()
        if _MIN_ROUNDS <= times <= _MAX_PLACES
    }
    for index, number in enumerate(row):
        if number in places:
            places[number].append(index)
    steps: Counter[int] = Counter()
    for held in places.values():
        for rounds in range(_MIN_ROUNDS, _MAX_ROUNDS + 1):
            own, rest = divmod(len(held), rounds)
            if rest:
                continue
            gaps = {b - a for a, b in zip(held, held[own:], strict=False)}
            if len(gaps) == 1:
                steps[gaps.pop()] += len(held)
    found: list[range] = []
    for step, _ in sorted(steps.items(), key=lambda one: (-one[1], one[0]))[:_MAX_STEPS]:
        start = 0
        for index in range(len(row) - step + 1):
            if index + step < len(row) and row[index] == row[index + step]:
                continue
            rounds = (index - start) // step + 1
            # Two rounds of a block are also one round of a block twice as long.
            is_new = not any(start in one and index < one.stop for one in found)
            if rounds >= _MIN_ROUNDS and is_new:
                found.append(range(start, index + step))
                yield Run(start, step, rounds)
            start = index + 1


class Repeat(Row):
    """A block on both sides, and how often it is repeated on each."""

    old: int
    """Where it starts, or would start."""
    new: int
    length: int
    old_times: int
    new_times: int


def repeats(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Repeat] | None:
    """The blocks that are repeated a different number of times; None if anything else differs."""
    if not (_is_subsequence(old, new) or _is_subsequence(new, old)):
        return None
    x, y = _without_repeats(old), _without_repeats(new)
    if [token for token, _, _ in x] != [token for token, _, _ in y]:
        return None
    found: list[Repeat] = []
    for (_, at, first), (_, place, second) in zip(x, y, strict=True):
        longer = max(filter(None, (first, second)), key=lambda run: run.times, default=None)
        times = [1 if run is None else run.times for run in (first, second)]
        if longer is not None and times[0] != times[1]:
            found.append(Repeat(at, place, longer.length, times[0], times[1]))
    return found


def inserted(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Repeat]:
    """Find a block that is repeated on one side and absent on the other.

    It is returned once for each place where it may start; empty if anything else differs.
    """
    short, long = (old, new) if len(old) < len(new) else (new, old)
    size = len(long) - len(short)
    common = next(
        (i for i, (s, t) in enumerate(zip(short, long, strict=False)) if s != t), len(short)
    )
    found: list[Repeat] = []
    if long[common + size :] != short[common:]:
        return found
    # If the token before it equals its last one, the block may also start one earlier.
    for start in range(common, max(-1, common - _MAX_SHIFT), -1):
        if start < common and long[start + size] != short[start]:
            break
        length = next(n for n in range(1, size + 1) if _is_period(long, start, size, n))
        if length < size:
            times = size // length
            sides = (0, times) if short is old else (times, 0)
            found.append(Repeat(start, start, length, *sides))
    return found


def _is_period(tokens: Sequence[Hashable], start: int, size: int, length: int) -> bool:
    end = start + size
    return not size % length and tokens[start + length : end] == tokens[start : end - length]


def _is_subsequence(part: Sequence[Hashable], whole: Sequence[Hashable]) -> bool:
    """Whether `part` is a subsequence of `whole`."""
    if len(part) > len(whole):
        return False
    rest = iter(whole)
    return all(token in rest for token in part)


def _without_repeats(tokens: Sequence[Hashable]) -> list[tuple[Hashable, int, Run | None]]:
    """Each block once: its tokens and their places, with the run at its first token."""
    out: list[tuple[Hashable, int, Run | None]] = []
    for run in runs(tokens):
        for offset in range(run.length):
            starts = run if not offset and run.times > 1 else None
            out.append((tokens[run.start + offset], run.start + offset, starts))
    return out

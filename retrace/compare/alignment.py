"""Align two sequences: the runs they share, in O(ND).

The greedy algorithm of Myers (1986) finds the fewest edits, and takes time that
grows with the number of edits, not with their length. Beyond `EXACT` edits it goes
on piecewise: the nearest place where both agree again for a while ends a piece.
The result may then not be the minimum, and says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

EXACT = 128
"""Up to this many edits, the result is certainly the minimum."""

_PIECE = 40
_AGREED = 24


class Block(NamedTuple):
    """A run that both sides share."""

    old: int
    new: int
    length: int


class Alignment(NamedTuple):
    """What two sequences share, in order."""

    blocks: tuple[Block, ...]
    minimal: bool
    """Whether this is certainly the alignment with the fewest edits."""


class Hunk(NamedTuple):
    """What stands between two blocks: positions, the end of each excluded."""

    old: int
    old_end: int
    new: int
    new_end: int


def align(old: Sequence[Hashable], new: Sequence[Hashable]) -> Alignment:
    """The runs that two sequences share, with the fewest edits between them."""
    numbers: dict[Hashable, int] = {}
    a = [numbers.setdefault(token, len(numbers)) for token in old]
    b = [numbers.setdefault(token, len(numbers)) for token in new]
    before = _same(a, b, 0, 0)
    after = _same(a[before:][::-1], b[before:][::-1], 0, 0)
    ends = len(a) - after, len(b) - after
    # What the other side has nowhere can only be an edit.
    shared = set(a[before : ends[0]]) & set(b[before : ends[1]])
    left = [index for index in range(before, ends[0]) if a[index] in shared]
    right = [index for index in range(before, ends[1]) if b[index] in shared]
    found, minimal = _pieces([a[index] for index in left], [b[index] for index in right])
    blocks = [Block(0, 0, before)] if before else []
    whole = len(left) == ends[0] - before and len(right) == ends[1] - before
    for x, y, length in found:
        if whole:
            _join(blocks, before + x, before + y, length)
        else:
            for i in range(length):
                _join(blocks, left[x + i], right[y + i], 1)
    if after:
        blocks.append(Block(*ends, after))
    return Alignment(tuple(blocks), minimal)


def _join(blocks: list[Block], old: int, new: int, length: int) -> None:
    last = blocks[-1] if blocks else Block(-1, -1, 0)
    if (last.old + last.length, last.new + last.length) == (old, new):
        blocks[-1] = last._replace(length=last.length + length)
    else:
        blocks.append(Block(old, new, length))


def hunks(alignment: Alignment, old: int, new: int) -> list[Hunk]:
    """What lies between the blocks of two sequences of these lengths."""
    found: list[Hunk] = []
    x = y = 0
    for block in (*alignment.blocks, Block(old, new, 0)):
        if block.old > x or block.new > y:
            found.append(Hunk(x, block.old, y, block.new))
        x, y = block.old + block.length, block.new + block.length
    return found


def _same(a: list[int], b: list[int], x: int, y: int) -> int:
    """How far both agree from two positions on; slices compare in C."""
    most = min(len(a) - x, len(b) - y)
    done = 0
    while done < most and done < 8:
        if a[x + done] != b[y + done]:
            return done
        done += 1
    step = 16
    while done + step <= most and a[x + done : x + done + step] == b[y + done : y + done + step]:
        done += step
        step *= 2
    while step:
        end = done + step
        if end <= most and a[x + done : x + end] == b[y + done : y + end]:
            done = end
        step //= 2
    return max(done, 0)


def _pieces(a: list[int], b: list[int]) -> tuple[list[Block], bool]:
    if not a or not b:
        return [], True
    found = _path(a, b, EXACT, len(a) + len(b) + 1)
    if found is not None and found[-1].old == len(a) and found[-1].new == len(b):
        return found[:-1], True
    blocks: list[Block] = []
    x = y = 0
    window = 4 * _PIECE + 4 * _AGREED
    while x < len(a) and y < len(b):
        agreed = _same(a, b, x, y)
        if agreed:
            blocks.append(Block(x, y, agreed))
            x, y = x + agreed, y + agreed
            continue
        piece = _path(a[x : x + window], b[y : y + window], _PIECE, _AGREED)
        assert piece is not None
        blocks += [Block(x + p, y + q, length) for p, q, length in piece[:-1]]
        x, y = x + piece[-1].old, y + piece[-1].new
    return blocks, False


def _path(a: list[int], b: list[int], limit: int, agreed: int) -> list[Block] | None:
    """The blocks on the shortest path, the last an empty one where it ended.

    It ends at the end of both, where both agree for `agreed` in a row, or, with
    `limit` edits spent, as far on as they lead.
    """
    furthest: dict[int, int] = {1: 0}
    trail: list[dict[int, int]] = []
    n, m = len(a), len(b)
    end = (0, 0, 0)
    for d in range(limit + 1):
        trail.append(furthest.copy())
        for k in range(-d, d + 1, 2):
            if k == -d or (k != d and furthest[k - 1] < furthest[k + 1]):
                x = furthest[k + 1]
            else:
                x = furthest[k - 1] + 1
            y = x - k
            run = _same(a, b, x, y) if x < n and y < m and a[x] == b[y] else 0
            furthest[k] = x + run
            if (x + run, y + run) == (n, m) or run >= agreed:
                return _back(trail, x + run, y + run)
            if x + run <= n and y + run <= m:
                end = max(end, (x + y + 2 * run, x + run, y + run))
    if agreed > n + m:
        return None
    # Nothing agrees for long: what was passed on the furthest path is taken as it is.
    return [Block(end[1], end[2], 0)]


def _back(trail: list[dict[int, int]], x: int, y: int) -> list[Block]:
    blocks = [Block(x, y, 0)]
    for d in range(len(trail) - 1, -1, -1):
        furthest = trail[d]
        k = x - y
        if k == -d or (k != d and furthest[k - 1] < furthest[k + 1]):
            before = k + 1
            start = furthest[before]
        else:
            before = k - 1
            start = furthest[before] + 1
        run = x - start if d else x
        if run:
            blocks.append(Block(x - run, y - run, run))
        x, y = furthest[before], furthest[before] - before
    return blocks[:0:-1] + blocks[:1]

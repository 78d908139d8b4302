"""Align two sequences: find the runs they share, in O(ND).

The greedy algorithm of Myers (1986) finds the fewest edits, in time that grows with the number
of edits, not with the length. Beyond `MAX_EXACT` edits it continues piecewise: a piece ends at
the nearest place where both agree again for a while. The result may then not be minimal, and
says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from retrace.model.row import Row

MAX_EXACT = 128
"""Up to this many edits, the result is certainly minimal."""

_MAX_EDITS_PER_PIECE = 40
_AGREEMENT = 24
"""Equal tokens in a row that end a piece."""


class Block(Row):
    """A run that both sides share: where it starts on each, and its length."""

    old: int
    new: int
    length: int


class Alignment(Row):
    """What two sequences share, in order."""

    blocks: tuple[Block, ...]
    minimal: bool
    """Whether this is certainly the alignment with the fewest edits."""


class Hunk(Row):
    """What lies between two blocks, as positions (ends exclusive)."""

    old: int
    old_end: int
    new: int
    new_end: int


def align(old: Sequence[Hashable], new: Sequence[Hashable]) -> Alignment:
    """Return the runs that two sequences share, with the fewest edits between them."""
    numbers: dict[Hashable, int] = {}
    a = [numbers.setdefault(token, len(numbers)) for token in old]
    b = [numbers.setdefault(token, len(numbers)) for token in new]
    before = _common_length(a, b, 0, 0)
    after = _common_length(a[before:][::-1], b[before:][::-1], 0, 0)
    ends = len(a) - after, len(b) - after
    # A token that the other side lacks can only be an edit.
    shared = set(a[before : ends[0]]) & set(b[before : ends[1]])
    left = [index for index in range(before, ends[0]) if a[index] in shared]
    right = [index for index in range(before, ends[1]) if b[index] in shared]
    found, minimal = _shared_runs([a[index] for index in left], [b[index] for index in right])
    blocks = [Block(0, 0, before)] if before else []
    whole = len(left) == ends[0] - before and len(right) == ends[1] - before
    for x, y, length in found:
        if whole:
            _append(blocks, before + x, before + y, length)
        else:
            for i in range(length):
                _append(blocks, left[x + i], right[y + i], 1)
    if after:
        blocks.append(Block(*ends, after))
    return Alignment(tuple(blocks), minimal)


def _append(blocks: list[Block], old: int, new: int, length: int) -> None:
    last = blocks[-1] if blocks else Block(-1, -1, 0)
    if (last.old + last.length, last.new + last.length) == (old, new):
        blocks[-1] = last._replace(length=last.length + length)
    else:
        blocks.append(Block(old, new, length))


def hunks(alignment: Alignment, old: int, new: int) -> list[Hunk]:
    """Return what lies between the blocks, for sequences of lengths `old` and `new`."""
    found: list[Hunk] = []
    x = y = 0
    for block in (*alignment.blocks, Block(old, new, 0)):
        if block.old > x or block.new > y:
            found.append(Hunk(x, block.old, y, block.new))
        x, y = block.old + block.length, block.new + block.length
    return found


def _common_length(a: list[int], b: list[int], x: int, y: int) -> int:
    """How long both agree from positions `x` and `y` on; slices are compared in C."""
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


def _shared_runs(a: list[int], b: list[int]) -> tuple[list[Block], bool]:
    if not a or not b:
        return [], True
    found = _shortest_path(a, b, MAX_EXACT, len(a) + len(b) + 1)
    if found is not None and found[-1].old == len(a) and found[-1].new == len(b):
        return found[:-1], True
    blocks: list[Block] = []
    x = y = 0
    window = 4 * _MAX_EDITS_PER_PIECE + 4 * _AGREEMENT
    while x < len(a) and y < len(b):
        agreed = _common_length(a, b, x, y)
        if agreed:
            blocks.append(Block(x, y, agreed))
            x, y = x + agreed, y + agreed
            continue
        piece = _shortest_path(
            a[x : x + window], b[y : y + window], _MAX_EDITS_PER_PIECE, _AGREEMENT
        )
        assert piece is not None
        blocks += [Block(x + p, y + q, length) for p, q, length in piece[:-1]]
        x, y = x + piece[-1].old, y + piece[-1].new
    return blocks, False


def _shortest_path(a: list[int], b: list[int], limit: int, agreed: int) -> list[Block] | None:
    """Return the blocks on the shortest path; the last one is empty and marks where it ended.

    The path ends at the end of both sequences, where both agree on `agreed` tokens in a row, or
    as far as `limit` edits lead.
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
            run = _common_length(a, b, x, y) if x < n and y < m and a[x] == b[y] else 0
            furthest[k] = x + run
            if (x + run, y + run) == (n, m) or run >= agreed:
                return _backtrack(trail, x + run, y + run)
            if x + run <= n and y + run <= m:
                end = max(end, (x + y + 2 * run, x + run, y + run))
    if agreed > n + m:
        return None
    # Nothing agrees for long: skip everything up to the end of the furthest path.
    return [Block(end[1], end[2], 0)]


def _backtrack(trail: list[dict[int, int]], x: int, y: int) -> list[Block]:
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

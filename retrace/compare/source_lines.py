"""What each source line contributes in addition, or no longer, compared to an earlier program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from retrace.compare.alignment import Alignment, Hunk, align, hunks
from retrace.compare.equation import SAME, inner, primitive, relate
from retrace.model import Frame, Listing, Stack
from retrace.model.row import Row

Listings: TypeAlias = Mapping[str, Listing]

_MAX_DEPTH = 40
_MAX_DISTANCE = 16
"""Two equations of a hunk at most this far apart may count as one that changed."""


class LineChange(Row):
    """The equations that one source line added, removed or changed, counted by primitive."""

    place: Frame | None
    added: tuple[tuple[str, int], ...]
    removed: tuple[tuple[str, int], ...]
    changed: tuple[tuple[str, int], ...]


def place(listing: Listing, index: int) -> Frame | None:
    """The innermost line of user code that produced an equation."""
    if not listing.places:
        return None
    return own_frame(listing.stacks[listing.places[index]])


def own_frame(stack: Stack) -> Frame | None:
    """The innermost frame of user code, or else of a library."""
    return next((frame for frame in stack if not frame.in_library), stack[0] if stack else None)


def changed_pairs(old: Listing, new: Listing, hunk: Hunk) -> list[tuple[int | None, int | None]]:
    """The equations of a hunk; an old one and the new one that replaced it form a pair."""
    pairs: list[tuple[int | None, int | None]] = []
    y = hunk.new
    if hunk.old == hunk.old_end or y == hunk.new_end:
        pairs += [(x, None) for x in range(hunk.old, hunk.old_end)]
        pairs += [(None, i) for i in range(y, hunk.new_end)]
        return pairs
    names = [primitive(text) for text in new.equations[y : hunk.new_end]]
    for x in range(hunk.old, hunk.old_end):
        name = primitive(old.equations[x])
        try:
            match = hunk.new + names.index(name, y - hunk.new, y - hunk.new + _MAX_DISTANCE)
        except ValueError:
            match = None
        if match is None:
            pairs.append((x, None))
            continue
        pairs += [(None, i) for i in range(y, match)]
        pairs.append((x, match))
        y = match + 1
    return pairs + [(None, i) for i in range(y, hunk.new_end)]


class _Tally:
    def __init__(self, listings: Listings) -> None:
        self.listings = listings
        self.lines: dict[Frame | None, tuple[Counter[str], Counter[str], Counter[str]]] = {}
        self._frames: dict[str, list[Frame | None]] = {}
        self.seen: set[tuple[str, str]] = set()
        self.minimal = True

    def add(self, at: Frame | None, which: int, name: str) -> None:
        row = self.lines.get(at)
        if row is None:
            row = self.lines[at] = (Counter(), Counter(), Counter())
        row[which][name] += 1

    def place(self, listing: Listing, index: int) -> Frame | None:
        frames = self._frames.get(listing.id)
        if frames is None:
            frames = self._frames[listing.id] = [own_frame(stack) for stack in listing.stacks]
        return frames[listing.places[index]] if listing.places else None

    def programs(
        self,
        old: Listing,
        new: Listing,
        outer: Frame | None,
        depth: int,
        alignment: Alignment | None = None,
    ) -> None:
        if (old.hash, new.hash) in self.seen or depth > _MAX_DEPTH:
            return
        self.seen.add((old.hash, new.hash))
        if alignment is None:
            alignment = align(old.equations, new.equations)
        self.minimal = self.minimal and alignment.minimal
        for hunk in hunks(alignment, len(old.equations), len(new.equations)):
            for x, y in changed_pairs(old, new, hunk):
                if y is None:
                    assert x is not None
                    self.add(self.place(old, x) or outer, 1, primitive(old.equations[x]))
                elif x is None:
                    self.add(self.place(new, y) or outer, 0, primitive(new.equations[y]))
                else:
                    self._changed(old, x, new, y, outer, depth)

    def _changed(
        self, old: Listing, x: int, new: Listing, y: int, outer: Frame | None, depth: int
    ) -> None:
        a, b = old.equations[x], new.equations[y]
        at = self.place(new, y) or outer
        before = [self.listings.get(old.inner.get(hash_, "")) for hash_ in inner(a)]
        after = [self.listings.get(new.inner.get(hash_, "")) for hash_ in inner(b)]
        found = relate(a, b)
        only_inside = found is not None and found == SAME._replace(inner=found.inner)
        if not only_inside or None in before or None in after:
            self.add(at, 2, primitive(b))
        for p, q in zip(before, after, strict=False):
            if p is not None and q is not None and p.hash != q.hash:
                self.programs(p, q, at, depth + 1)


def line_changes(
    old: Listing, new: Listing, alignment: Alignment, listings: Listings
) -> tuple[tuple[LineChange, ...], bool]:
    """The lines that differ, most changed first, and whether the edits are minimal."""
    tally = _Tally(listings)
    tally.programs(old, new, None, 0, alignment)
    found = [
        LineChange(at, *(tuple(counter.most_common()) for counter in row))
        for at, row in tally.lines.items()
    ]
    found.sort(key=lambda line: -sum(n for part in line[1:] for _, n in part))
    return tuple(found), tally.minimal

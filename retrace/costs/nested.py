"""Nested branches and loops: each level is traced and compiled separately."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from retrace.compare.equation import inner, primitive
from retrace.compare.source_lines import place
from retrace.model import Frame, Listing

CONTROL = frozenset(("cond", "while", "scan"))
"""`switch` is a `cond` with more branches; `fori_loop` is a `while` or a `scan`."""
_MIN_DEPTH = 4
_MAX_DEPTH = 60


class Nest(NamedTuple):
    """A program's deepest nest of branches and loops."""

    frame: Frame | None
    """The line of the outermost level."""
    primitive: str
    """The most frequent primitive among the levels."""
    depth: int
    equations: int
    """Equations inside the outermost level; sub-programs count once for each call."""


class _Found(NamedTuple):
    depth: int
    chain: tuple[str, ...]
    """The primitives, outermost first."""
    frame: Frame | None
    equations: int


_NONE = _Found(0, (), None, 0)


def nest(listing: Listing, listings: Mapping[str, Listing]) -> Nest | None:
    """The deepest nest of a program, or None if no nest is deep."""
    found = _deepest(listing, listings, {}, 0)
    if found.depth < _MIN_DEPTH:
        return None
    most = max(found.chain, key=found.chain.count)
    return Nest(found.frame, most, found.depth, found.equations)


def _deepest(
    listing: Listing, listings: Mapping[str, Listing], known: dict[str, _Found], level: int
) -> _Found:
    if listing.id in known:
        return known[listing.id]
    known[listing.id] = _NONE  # a hostile recording may nest a program in itself
    best = _NONE
    for index, text in enumerate(listing.equations):
        if "@" not in text or level >= _MAX_DEPTH:
            continue
        subs = [
            sub
            for hash_ in inner(text)
            if (sub := listings.get(listing.inner.get(hash_, ""))) is not None
        ]
        if not subs:
            continue
        below = max((_deepest(sub, listings, known, level + 1) for sub in subs), key=_order)
        name = primitive(text)
        if name in CONTROL:
            held = 1 + sum(sub.size for sub in subs)
            chain = (name, *below.chain)
            below = _Found(below.depth + 1, chain, place(listing, index) or below.frame, held)
        best = max(best, below, key=_order)
    known[listing.id] = best
    return best


def _order(found: _Found) -> tuple[int, int]:
    return found.depth, found.equations

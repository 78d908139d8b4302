"""Blocks of a program that its loops unrolled a different number of times than before."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from retrace.compare.alignment import Alignment
from retrace.compare.repeats import Repeat, inserted, repeats
from retrace.model import Listing

_MAX_PLACES = 200
"""Maximum number of places where two programs differ, if loops are to explain them."""
_MAX_WORK = 8_000_000
"""Loops are only searched for while equations (of both) times differing places stay below it."""


def repeated(old: Listing, new: Listing, alignment: Alignment) -> list[Repeat]:
    """Return the blocks that explain every difference of two programs; empty if they do not."""
    # A loop grows in few places, and searching for blocks costs more than aligning programs.
    places = len(alignment.blocks)
    if places > _MAX_PLACES or places * (len(old.equations) + len(new.equations)) > _MAX_WORK:
        return []
    for tokens in (_exact, numberless):
        sides = tokens(old), tokens(new)
        if found := repeats(*sides) or _inserted(old, new, *sides):
            return found
    return []


def _inserted(
    old: Listing, new: Listing, before: Sequence[Hashable], after: Sequence[Hashable]
) -> list[Repeat]:
    for block in inserted(before, after):
        longer = new if block.new_times else old
        if _is_one_loop(longer, block.new, block):
            return [block]
    return []


def _is_one_loop(listing: Listing, start: int, block: Repeat) -> bool:
    """Whether all rounds were traced on the same lines, as in a loop."""
    # Code written twice under an `if` also gives equal blocks, but on different lines.
    end = start + block.length * max(block.old_times, block.new_times)
    places = listing.places[start:end]
    return bool(places) and places[block.length :] == places[: -block.length]


def _exact(listing: Listing) -> Sequence[Hashable]:
    return listing.equations


def numberless(listing: Listing) -> Sequence[Hashable]:
    """Return the equations without literals and indices."""
    # `weights[i]` in a loop over i: the same block with different numbers.
    known: dict[str, Hashable] = {}
    for text in set(listing.equations):
        name, arguments, *rest = text.split("\t")
        bare = " ".join("$" if a == "$" else f"#{a.partition(':')[2]}" for a in arguments.split())
        kept = [r for r in rest if not r.startswith(("start_indices", "limit_indices", "index"))]
        known[text] = (name, bare, *kept)
    return [known[text] for text in listing.equations]

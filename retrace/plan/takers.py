"""Functions outside of a step that are called with the arrays that it pads or converts.

What is padded in the loader is padded for them as well, and no program of theirs shows what it
does with added rows: they were called with one size. What becomes a float is no index any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrace.model import Miss
from retrace.model.advice import Advice, OneDtype
from retrace.plan.candidate import Candidate
from retrace.plan.reach import Reach, arrays_of
from retrace.reason.evidence import is_whole


def other_takers(
    members: Sequence[Candidate], padded: Iterable[Miss], reach: Reach
) -> tuple[str, ...]:
    """The other functions that the same file calls with arrays of the dtype and shape."""
    columns = [one for member in members for one in reach.columns(member)]
    own = {history.function.site for history, _ in columns}
    if all(one.family == "shape" for one in members):
        # What comes in several sizes elsewhere, too, has a step of its own.
        own |= {
            history.function.site
            for history in reach.histories
            if any(column.family == "shape" for column in history.columns)
        }
    if own.issuperset(reach.sites):
        return ()
    paths = {part.path for _, column in columns for part in column.parts}
    found: dict[str, str] = {}
    for array in {one for miss in padded for one in arrays_of(miss, paths)}:
        found |= reach.takers.get(array, {})
    return tuple(dict.fromkeys(sorted(name for site, name in found.items() if site not in own)))


def takers_of_integers(
    members: Sequence[Candidate], advised: Advice | None, reach: Reach
) -> tuple[str, ...]:
    """The other functions that get integers of the shape of those that are to become floats."""
    if not isinstance(advised, OneDtype):
        return ()
    whole = {one for one in advised.dtypes if is_whole(one)}
    if not whole or len(whole) == len(advised.dtypes):
        return ()
    rows = [row for one in members for history, _ in reach.columns(one) for row in history.rows]
    cast = [
        row.miss
        for row in rows
        if any(leaf.path in advised.paths and leaf.dtype in whole for leaf in row.miss.key.leaves)
    ]
    return other_takers(members, cast, reach)

"""Functions outside of a step that are called with the arrays that it pads or converts.

What is padded in the loader is padded for them as well, and no program of theirs shows what it
does with added rows: they were called with one size. What becomes a float is no index any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from retrace.model import Kind, Miss, Verdict
from retrace.model.advice import Advice, OneDtype
from retrace.plan.candidate import Candidate
from retrace.plan.reach import Reach

_Array: TypeAlias = tuple[str, str, object]
"""A file that calls, with the dtype and the shape of an array."""


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
    paths = {part.path for _, column in columns for part in column.parts}
    arrays = {one for miss in padded for one in _arrays(miss, paths)}
    if not arrays:
        return ()
    found = (
        verdict.miss.function.name
        for verdict in reach.verdicts.values()
        if _is_called(verdict, own) and not arrays.isdisjoint(_arrays(verdict.miss))
    )
    return tuple(dict.fromkeys(found))


def takers_of_integers(
    members: Sequence[Candidate], advised: Advice | None, reach: Reach
) -> tuple[str, ...]:
    """The other functions that get integers of the shape of those that are to become floats."""
    if not isinstance(advised, OneDtype):
        return ()
    whole = {one for one in advised.dtypes if one.startswith(_INTEGERS)}
    if not whole or len(whole) == len(advised.dtypes):
        return ()
    rows = [row for one in members for history, _ in reach.columns(one) for row in history.rows]
    cast = [
        row.miss
        for row in rows
        if any(leaf.path in advised.paths and leaf.dtype in whole for leaf in row.miss.key.leaves)
    ]
    return other_takers(members, cast, reach)


_INTEGERS = ("int", "uint", "bool")


def _is_called(verdict: Verdict, own: set[str]) -> bool:
    function = verdict.miss.function
    return function.kind is not Kind.OP and not verdict.miss.nested and function.site not in own


def _arrays(miss: Miss, paths: set[str] | None = None) -> Iterator[_Array]:
    site = miss.call_site
    if site is None or site.in_library:
        return
    for leaf in miss.key.leaves:
        if leaf.shape and (paths is None or leaf.path in paths):
            yield site.file, leaf.dtype, leaf.shape

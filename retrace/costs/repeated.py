"""Functions that a program traces several times alike, and that `jax.jit` would trace once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from retrace.compare.equation import inner
from retrace.model import Frame, Listing, Stack

_MIN_CALLS = 3
"""Fewer equal calls are not reported."""
_MIN_EQUATIONS = 20
"""Minimum number of equations in a call; tracing fewer is as fast as a cache lookup."""
_MAX_DEPTH = 12
"""Maximum number of stack frames examined."""
_MAX_FUNCTIONS = 4_000
_MAX_VISITED = 4_000_000
"""Maximum number of equations visited, once for each enclosing function."""

_Function: TypeAlias = tuple[str, int, str]


class Repeated(NamedTuple):
    """A function that was called several times with the same equations each time."""

    frame: Frame
    """The first line of the function."""
    times: int
    equations: int
    """Equations of one call; sub-programs count once for each call."""

    @property
    def saved(self) -> int:
        """Equations that would not have to be traced again."""
        return (self.times - 1) * self.equations


def repeated(listing: Listing, listings: Mapping[str, Listing]) -> list[Repeated]:
    """Functions that the program traces several times with equal results, most equations first.

    Of nested functions, only those that leave the fewest equations. Jitted functions are
    sub-programs and do not count.
    """
    if not listing.places:
        return []
    sizes = [_size(listing, index, listings) for index in range(len(listing.equations))]
    found: list[Repeated] = []
    for function, calls in _calls(listing).items():
        kinds = Counter(tuple(listing.equations[rows.start : rows.stop]) for rows in calls)
        at = {tuple(listing.equations[rows.start : rows.stop]): rows for rows in calls}
        saved = {kind: sum(sizes[r] for r in at[kind]) * (n - 1) for kind, n in kinds.items()}
        times = kinds[max(saved, key=lambda kind: saved[kind])]
        # In a gradient, a call's forward and backward equations are apart.
        equations = sum(sum(sizes[r] for r in at[kind]) for kind in kinds if kinds[kind] == times)
        if times >= _MIN_CALLS and equations >= _MIN_EQUATIONS:
            file, line, name = function
            frame = Frame(file, line, name, line, in_library=False)
            found.append(Repeated(frame, times, equations))
    return sorted(found, key=lambda one: -one.saved)


def _calls(listing: Listing) -> dict[_Function, list[range]]:
    """The calls of each of the user's functions, as contiguous rows."""
    kinds = [list(_enclosing(stack)) for stack in listing.stacks]
    found: defaultdict[_Function, list[range]] = defaultdict(list)
    open_: dict[tuple[_Function, Stack], int] = {}
    budget = _MAX_VISITED
    for index, at in enumerate(listing.places):
        here = kinds[at]
        budget -= len(here)
        if budget < 0 or len(found) > _MAX_FUNCTIONS:
            break
        for call in [call for call in open_ if call not in here]:
            found[call[0]].append(range(open_.pop(call), index))
        for call in here:
            open_.setdefault(call, index)
    else:
        for call, start in open_.items():
            found[call[0]].append(range(start, len(listing.places)))
    return found


def _enclosing(stack: Stack) -> Iterator[tuple[_Function, Stack]]:
    """The user's functions around an equation, each with the stack above it."""
    own = [frame for frame in stack if not frame.in_library]
    # The outermost function is the jitted one.
    for depth, frame in enumerate(own[:-1][:_MAX_DEPTH]):
        yield (frame.file, frame.first_line, frame.function), tuple(own[depth + 1 :])


def _size(listing: Listing, index: int, listings: Mapping[str, Listing]) -> int:
    hashes = inner(listing.equations[index])
    called = (listings.get(listing.inner.get(hash_, "")) for hash_ in hashes)
    return 1 + sum(one.size for one in called if one is not None)

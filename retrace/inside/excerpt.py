"""Some misses of a running program, with the others that are needed to show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from retrace.inside.live import here
from retrace.model import Listing, Miss, Recording, Run, Verdict
from retrace.present.view import View


def excerpt(
    numbers: Iterable[int],
    miss_of: Callable[[int], Miss | None],
    verdict_of: Callable[[Miss], Verdict],
) -> dict[int, Verdict]:
    """The verdicts on some misses, on those around them, and on those that these refer to.

    Args:
        numbers: the misses.
        miss_of: the miss with a number, if it is known.
        verdict_of: judges a miss.

    Returns:
        The verdicts by number, in order.
    """
    found: dict[int, Verdict] = {}

    def add(number: int, *, whole: bool = True) -> None:
        miss = miss_of(number)
        if miss is None or number in found:
            return
        verdict = found[number] = verdict_of(miss)
        if not whole:
            return
        for other in (verdict.follows, verdict.nearest and verdict.nearest.id):
            if other is not None:
                add(number_of(other), whole=False)
        if miss.parent is not None:
            add(number_of(miss.parent))

    for number in numbers:
        add(number)
    return {number: found[number] for number in sorted(found)}


def view_of(
    run: Run,
    verdicts: Sequence[Verdict],
    position: Callable[[Miss], int],
    listings: Mapping[str, Listing] | None = None,
) -> View:
    """A view of an excerpt.

    Args:
        run: the process.
        verdicts: the verdicts, in the order in which the misses began.
        position: the position of a miss among all of its function, from 1.
        listings: the texts of the programs, if they are known.
    """
    misses = [verdict.miss for verdict in verdicts]
    view = View(Recording([run], misses, listings or {}), verdicts, here())
    view.count_as({miss.id: position(miss) for miss in misses})
    return view


def number_of(name: str) -> int:
    """The number of a miss in its process, from its id."""
    return int(name.rpartition("-")[2])

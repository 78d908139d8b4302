"""Processes that did the same, which are judged once.

The processes of a job do, as a rule: of 256, to judge each took most of the time of a report.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter

from retrace.model import Miss, Recording, Verdict
from retrace.reason.verdict import judge

_OF_ITS_PROCESS = ("id", "run", "time", "began", "since", "slow", "said")
"""No verdict depends on these, where no two threads missed at the same time."""
MOST_KINDS = 8
"""How many of the latest processes that did something different are remembered."""
_APART = ("parent", "stages", "persistent_cache")
_plain = attrgetter(
    *(field.name for field in fields(Miss) if field.name not in (*_OF_ITS_PROCESS, *_APART))
)


class Judged:
    """Judges one process after the other."""

    def __init__(self) -> None:
        self._known: deque[tuple[object, list[Verdict]]] = deque(maxlen=MOST_KINDS)

    def of(self, part: Recording) -> list[Verdict]:
        """The verdicts on one process: those on an earlier one that did the same, or its own.

        Args:
            part: all of its misses.

        Returns:
            What `judge` returns of it.
        """
        misses = part.misses
        if overlap(misses):
            return judge(part)
        done = tuple(what_was_done(misses))
        for other, verdicts in self._known:
            if other == done:
                return list(_again(verdicts, misses))
        found = judge(part)
        self._known.append((done, found))
        return found


def overlap(misses: Sequence[Miss]) -> bool:
    """Whether a call may have had to wait for another thread: that goes by when they came."""
    ends: dict[str, float] = {}
    for miss in misses:
        if any(end > miss.time for thread, end in ends.items() if thread != miss.thread):
            return True
        ends[miss.thread] = max(ends.get(miss.thread, 0.0), miss.time + miss.seconds)
    return False


def what_was_done(misses: Sequence[Miss]) -> Iterator[object]:
    """All of the misses that a verdict may depend on, equal in processes that did the same."""
    numbers: Mapping[str, int] = {miss.id: miss.number for miss in misses}
    for miss in misses:
        cache = miss.persistent_cache
        yield (
            *_plain(miss),  # keys and functions are the same objects as a rule: soon compared
            None if miss.parent is None else numbers.get(miss.parent, -1),
            tuple(miss.stages),
            cache and cache.outcome,
        )


def _again(verdicts: Sequence[Verdict], misses: Sequence[Miss]) -> Iterator[Verdict]:
    """The same verdicts on the misses of another process, one after the other."""
    places = {verdict.miss.id: place for place, verdict in enumerate(verdicts)}
    for verdict, miss in zip(verdicts, misses, strict=True):
        near = verdict.nearest and misses[places[verdict.nearest.id]]
        follows = verdict.follows and misses[places[verdict.follows]].id
        yield replace(verdict, miss=miss, nearest=near, follows=follows)

"""Judges processes that did the same only once.

The processes of one job usually do the same: judging each of 256 took most of a report's time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from operator import attrgetter

from retrace.model import Miss, Recording, Verdict
from retrace.reason.verdict import judge

_OF_ITS_PROCESS = ("id", "run", "time", "began", "since", "slow", "said")
"""Verdicts do not depend on these unless two threads had misses at the same time."""
MAX_KINDS = 8
"""Number of distinct processes remembered, latest first."""
_COMPARED_SEPARATELY = ("parent", "stages", "persistent_cache")
_plain = attrgetter(
    *(
        field.name
        for field in fields(Miss)
        if field.name not in (*_OF_ITS_PROCESS, *_COMPARED_SEPARATELY)
    )
)


class Judged:
    """Judges one process after another."""

    def __init__(self) -> None:
        self._known: deque[_Process] = deque(maxlen=MAX_KINDS)

    def of(self, part: Recording) -> list[Verdict]:
        """The verdicts on one process, reused from an earlier process that did the same.

        Args:
            part: all misses of the process.

        Returns:
            What `judge` returns for it.
        """
        misses = part.misses
        if overlap(misses):
            return judge(part)
        own = _Process(misses)
        for other in self._known:
            if other.done == own.done:
                return list(_again(other.verdicts, misses))
        own.verdicts = judge(part)
        self._known.append(own)
        return own.verdicts


class _Process:
    """A process and the verdicts on it."""

    def __init__(self, misses: list[Miss]) -> None:
        self._misses = misses
        self.verdicts: list[Verdict] = []

    @cached_property
    def done(self) -> tuple[object, ...]:
        """What it did; not asked for if there is no other process."""
        return tuple(what_was_done(self._misses))


def overlap(misses: Sequence[Miss]) -> bool:
    """Whether a call may have waited for another thread; verdicts then depend on times."""
    ends: dict[str, float] = {}
    for miss in misses:
        if any(end > miss.time for thread, end in ends.items() if thread != miss.thread):
            return True
        ends[miss.thread] = max(ends.get(miss.thread, 0.0), miss.time + miss.seconds)
    return False


def what_was_done(misses: Sequence[Miss]) -> Iterator[object]:
    """Everything verdicts may depend on; equal for processes that did the same."""
    numbers: Mapping[str, int] = {miss.id: miss.number for miss in misses}
    for miss in misses:
        cache = miss.persistent_cache
        yield (
            *_plain(miss),  # keys and functions are usually the same objects, so this is quick
            None if miss.parent is None else numbers.get(miss.parent, -1),
            tuple(miss.stages),
            cache and cache.outcome,
        )


def _again(verdicts: Sequence[Verdict], misses: Sequence[Miss]) -> Iterator[Verdict]:
    """The same verdicts, applied one by one to the misses of another process."""
    places = {verdict.miss.id: place for place, verdict in enumerate(verdicts)}
    for verdict, miss in zip(verdicts, misses, strict=True):
        near = verdict.nearest and misses[places[verdict.nearest.id]]
        follows = verdict.follows and misses[places[verdict.follows]].id
        yield replace(verdict, miss=miss, nearest=near, follows=follows)

"""Verdicts with no more in them than a difference of recordings tells.

The processes of a job do the same, as a rule. Such a process is judged once, and the others get
what was concluded of it: of 256 processes, to judge each took most of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter

from retrace.model import Change, Miss, Recording, Stage, Verdict
from retrace.reason.verdict import judge

_NOTHING_BEGAN: dict[Stage, float] = {}
_OF_ITS_PROCESS = ("id", "run", "time", "began", "since", "slow", "said")
"""No verdict depends on these, where no two threads missed at the same time."""
_MOST_KINDS = 8
"""So many processes that did otherwise are remembered, the latest."""
_APART = ("parent", "stages", "persistent_cache")
_plain = attrgetter(
    *(field.name for field in fields(Miss) if field.name not in (*_OF_ITS_PROCESS, *_APART))
)


class Bare:
    """Makes bare verdicts, which take half the memory of whole ones.

    What processes have alike is concluded and held once.
    """

    def __init__(self) -> None:
        self._changes: dict[tuple[int, ...], tuple[object, tuple[Change, ...]]] = {}
        self._judged: deque[tuple[object, Sequence[Verdict]]] = deque(maxlen=_MOST_KINDS)

    def judged(self, part: Recording) -> list[Verdict]:
        """The verdicts on one process; its misses are made smaller as well.

        Args:
            part: all of its misses.

        Returns:
            A verdict for each miss, in their order.
        """
        misses = part.misses
        if _overlap(misses):
            return [self.of(verdict) for verdict in judge(part)]
        done = tuple(_what_was_done(misses))
        for other, verdicts in self._judged:
            if other == done:
                return list(map(_again, verdicts, misses))
        found = [self.of(verdict) for verdict in judge(part)]
        self._judged.append((done, found))
        return found

    def of(self, verdict: Verdict) -> Verdict:
        """A verdict on the same miss, which is made smaller as well."""
        miss = verdict.miss
        miss.began = _NOTHING_BEGAN
        found: tuple[Change, ...] = ()
        for change in verdict.changes[:1]:
            if verdict.cause.value.startswith(change.component.value.replace("_", "-")):
                found = self._same(change, verdict)
        return Verdict(miss, verdict.cause, None, found, None, verdict.avoidable, None)

    def _same(self, change: Change, verdict: Verdict) -> tuple[Change, ...]:
        keys = verdict.miss.key, verdict.nearest and verdict.nearest.key
        # The parts of equal keys are the same objects, which are kept: no id is given again.
        name = id(keys[0]), id(keys[1])
        known = self._changes.get(name)
        if known is None or known[1][0] != change:
            known = self._changes[name] = keys, (change,)
        return known[1]


def _overlap(misses: Sequence[Miss]) -> bool:
    """Whether a call may have had to wait for another thread: that goes by when they came."""
    ends: dict[str, float] = {}
    for miss in misses:
        if any(end > miss.time for thread, end in ends.items() if thread != miss.thread):
            return True
        ends[miss.thread] = max(ends.get(miss.thread, 0.0), miss.time + miss.seconds)
    return False


def _again(verdict: Verdict, miss: Miss) -> Verdict:
    miss.began = _NOTHING_BEGAN
    return Verdict(miss, verdict.cause, None, verdict.changes, None, verdict.avoidable, None)


def _what_was_done(misses: Sequence[Miss]) -> Iterator[object]:
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

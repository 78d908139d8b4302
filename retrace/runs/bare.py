"""Verdicts reduced to what comparing two recordings needs.

Processes of a job usually do the same, so such a process is judged once and the others reuse its
conclusions: judging each of 256 processes took most of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from retrace.model import Change, Miss, Recording, Stage, Verdict
from retrace.reason.alike import MAX_KINDS, overlap, what_was_done
from retrace.reason.verdict import judge

_NOTHING_BEGAN: dict[Stage, float] = {}


class Bare:
    """Makes reduced verdicts, which take half the memory of full ones.

    What processes have in common is concluded and held once.
    """

    def __init__(self) -> None:
        self._changes: dict[tuple[int, ...], tuple[object, tuple[Change, ...]]] = {}
        self._judged: deque[tuple[object, Sequence[Verdict]]] = deque(maxlen=MAX_KINDS)

    def judged(self, part: Recording) -> list[Verdict]:
        """The verdicts on one process; its misses are reduced as well.

        Args:
            part: all misses of the process.

        Returns:
            A verdict for each miss, in the same order.
        """
        misses = part.misses
        if overlap(misses):
            return [self.of(verdict) for verdict in judge(part)]
        done = tuple(what_was_done(misses))
        for other, verdicts in self._judged:
            if other == done:
                return list(map(_again, verdicts, misses))
        found = [self.of(verdict) for verdict in judge(part)]
        self._judged.append((done, found))
        return found

    def of(self, verdict: Verdict) -> Verdict:
        """A verdict on the same miss, with the miss reduced as well."""
        miss = verdict.miss
        miss.began = _NOTHING_BEGAN
        found: tuple[Change, ...] = ()
        for change in verdict.changes[:1]:
            if verdict.cause.value.startswith(change.component.value.replace("_", "-")):
                found = self._same(change, verdict)
        return Verdict(miss, verdict.cause, None, found, None, verdict.avoidable, None)

    def _same(self, change: Change, verdict: Verdict) -> tuple[Change, ...]:
        keys = verdict.miss.key, verdict.nearest and verdict.nearest.key
        # Parts of equal keys are the same objects and stay alive, so no id is reused.
        name = id(keys[0]), id(keys[1])
        known = self._changes.get(name)
        if known is None or known[1][0] != change:
            known = self._changes[name] = keys, (change,)
        return known[1]


def _again(verdict: Verdict, miss: Miss) -> Verdict:
    miss.began = _NOTHING_BEGAN
    return Verdict(miss, verdict.cause, None, verdict.changes, None, verdict.avoidable, None)

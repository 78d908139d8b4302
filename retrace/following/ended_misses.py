"""The misses of this process, each judged when it ends."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import replace

from retrace.inside.excerpt import excerpt, number_of, view_of
from retrace.inside.explained import ExplainedMiss, explained
from retrace.model import Miss, Run, Stage, Verdict
from retrace.reason.history import revise
from retrace.reason.patterns import recognise
from retrace.reason.verdict import Judge
from retrace.store.programs import BEGINNING, Library
from retrace.store.reader import Reader

SETTLED = 1.0
"""Seconds. A miss that stops before it is compiled (`lower`, `eval_shape`) counts as ended once
none of its stages has run for this long: there may be no later call that would show it sooner."""

_MAX_EARLIER = 24
"""How many earlier misses of a function are searched for a pattern."""


class EndedMisses:
    """Reads the lines of this process's recording and explains each miss when it has ended.

    The verdicts are those of a report made at that moment. What only later misses show (a
    pattern that begins, a second function with the same name) is not known yet.
    """

    def __init__(self) -> None:
        self._reader = Reader()
        self._read = 0
        self._programs = Library()
        self._judge = Judge(self._programs)
        self._misses: dict[int, Miss] = {}
        self._own: set[int] = set()
        """Misses to hand over; the others are earlier ones."""
        self._open: list[int] = []
        """Misses to hand over that have not ended, in order."""
        self._idle: dict[int, tuple[int, float]] = {}
        """For open misses: how many stages have run, and since when nothing has."""
        self._ended: set[int] = set()
        self._unjudged: list[int] = []
        self._verdicts: dict[int, Verdict] = {}
        self._sites: dict[str, list[int]] = {}

    def add(self, text: str) -> None:
        """Read newly written lines."""
        for line in text.split("\n"):
            if line.startswith(BEGINNING):
                self._programs.add_line(line)
            else:
                self._reader.add(line)
        _, new = self._reader.since(self._read)
        self._read += len(new)
        for miss in new:
            self._own.add(miss.number)
            insort(self._open, miss.number)
            self._register(miss)

    def add_earlier(self, misses: Iterable[Miss]) -> None:
        """Add earlier misses of this process, which are not handed over."""
        first = min(self._own, default=0)
        for miss in misses:
            # Later misses of that recording are in this one too.
            if miss.number < first and miss.number not in self._misses:
                self._ended.add(miss.number)
                self._register(miss)

    @property
    def has_begun(self) -> bool:
        """Whether any miss has begun."""
        return bool(self._own)

    def _register(self, miss: Miss) -> None:
        known = miss.number in self._misses
        self._misses[miss.number] = miss
        if known:  # added as an earlier miss from another recording
            return
        insort(self._unjudged, miss.number)
        insort(self._sites.setdefault(miss.function.site, []), miss.number)

    @property
    def run(self) -> Run:
        """The description of this process."""
        return self._reader.since(self._read)[0]

    def ended(self, now: float, *, everything: bool = False) -> list[int]:
        """The misses that have ended since the last call, in order.

        Args:
            now: the current monotonic time.
            everything: treat all that have begun as ended.
        """
        found = [
            number
            for number in self._open
            if everything or self._has_ended(self._root(self._misses[number]), now)
        ]
        if found:
            self._ended.update(found)
            self._open = [number for number in self._open if number not in self._ended]
            for number in found:
                self._idle.pop(number, None)
        return found

    @property
    def running(self) -> int:
        """How many misses have begun and not ended, as far as known."""
        return len(self._open)

    @property
    def settles(self) -> bool:
        """Whether a miss may have ended, which only waiting will show."""
        return bool(self._idle)

    def _has_ended(self, miss: Miss, now: float) -> bool:
        if miss.in_flight is not None:
            self._idle.pop(miss.number, None)
            return False
        if Stage.COMPILE in miss.stages or miss.raised is not None:
            return True
        stages, since = self._idle.get(miss.number, (-1, now))
        if stages != len(miss.stages):
            self._idle[miss.number] = len(miss.stages), now
            return False
        return now - since >= SETTLED

    def _root(self, miss: Miss) -> Miss:
        """The outermost miss whose time includes it. A backward program runs after its parent."""
        while miss.derived is None and miss.parent is not None:
            outer = self._misses.get(number_of(miss.parent))
            if outer is None or outer.number >= miss.number:
                break
            miss = outer
        return miss

    def thread(self, number: int) -> str:
        """The thread of a miss."""
        return self._misses[number].thread

    def explained(self, number: int) -> ExplainedMiss:
        """A miss that has ended, explained as in a report."""
        self._judge_ended()
        wanted = excerpt([number], self._misses.get, self._verdict)
        verdict = wanted[number] = self._with_history(wanted[number])
        view = view_of(self.run, list(wanted.values()), self._position, self._programs)
        (found,) = explained(view, [verdict])
        return found

    def _judge_ended(self) -> None:
        """Judge the misses that have ended, up to the first one still running."""
        done = 0
        while done < len(self._unjudged) and (number := self._unjudged[done]) in self._ended:
            self._verdicts[number] = self._judge.judge(self._misses[number])
            self._ended.discard(number)
            done += 1
        del self._unjudged[:done]

    def _verdict(self, miss: Miss) -> Verdict:
        known = self._verdicts.get(miss.number)
        if known is not None:
            return known
        running = [
            one
            for other in self._unjudged[: bisect_left(self._unjudged, miss.number)]
            if (one := self._misses[other]).function.site == miss.function.site
        ]
        return self._judge.look(miss, running)

    def _with_history(self, verdict: Verdict) -> Verdict:
        """The verdict, revised by the latest misses of its function."""
        numbers = self._sites[verdict.miss.function.site]
        at = bisect_left(numbers, verdict.miss.number)
        latest = (
            self._verdicts.get(number) for number in numbers[max(0, at - _MAX_EARLIER) : at]
        )
        revised = revise([*(one for one in latest if one is not None), verdict])
        pattern = recognise(revised).get(verdict.miss.id)
        return revised[-1] if pattern is None else replace(revised[-1], pattern=pattern)

    def _position(self, miss: Miss) -> int:
        """The position of a miss among those of its function, from 1."""
        numbers: Sequence[int] = self._sites.get(miss.function.site, ())
        return bisect_left(numbers, miss.number) + 1

"""What is known of the misses of this process, judged one by one as each comes to its end."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import replace

from retrace.inside.explained import ExplainedMiss, explained
from retrace.inside.live import here
from retrace.model import Miss, Recording, Run, Stage, Verdict
from retrace.present.view import View
from retrace.reason.history import revise
from retrace.reason.patterns import recognise
from retrace.reason.verdict import Judge
from retrace.store.programs import BEGINNING, Library
from retrace.store.reader import Reader

SETTLED = 1.0
"""A miss that stops before it is compiled (`lower`, `eval_shape`) has ended when nothing of it
has run for this many seconds. Only a later call could tell sooner, and there need not be one."""

_LATEST = 24
"""How many earlier misses of a function are searched for a pattern; each one costs time."""


class Heard:
    """Takes in the lines of this process's recording; explains a miss when it has ended.

    The verdicts are those that a report would give if the program ended at that moment. What
    only later misses show (a pattern that begins, a name that a second function gets) is not
    known yet.
    """

    def __init__(self) -> None:
        self._reader = Reader()
        self._read = 0
        self._programs = Library()
        self._judge = Judge(self._programs)
        self._misses: dict[int, Miss] = {}
        self._own: set[int] = set()
        """Those that are to be handed over; the others were there before."""
        self._open: list[int] = []
        """Those of them that have not ended, in order."""
        self._idle: dict[int, tuple[int, float]] = {}
        """Of an open one: how many stages it had run, and since when nothing has run."""
        self._ended: set[int] = set()
        self._unjudged: list[int] = []
        self._verdicts: dict[int, Verdict] = {}
        self._sites: dict[str, list[int]] = {}

    def add(self, text: str) -> None:
        """Take in lines as they were written."""
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
            self._know(miss)

    def add_earlier(self, misses: Iterable[Miss]) -> None:
        """Take in what was recorded of this process before; it is not handed over."""
        first = min(self._own, default=0)
        for miss in misses:
            # The rest of that recording goes on beside this one.
            if miss.number < first and miss.number not in self._misses:
                self._ended.add(miss.number)
                self._know(miss)

    @property
    def has_begun(self) -> bool:
        """Whether any miss was heard of."""
        return bool(self._own)

    def _know(self, miss: Miss) -> None:
        known = miss.number in self._misses
        self._misses[miss.number] = miss
        if known:  # as an earlier one, by the recording of somebody else
            return
        insort(self._unjudged, miss.number)
        insort(self._sites.setdefault(miss.function.site, []), miss.number)

    @property
    def run(self) -> Run:
        """This process."""
        return self._reader.since(self._read)[0]

    def ended(self, now: float, *, everything: bool = False) -> list[int]:
        """The misses that have come to their end since this was last asked, in order.

        Args:
            now: on the clock by which `SETTLED` is measured.
            everything: take all that have begun as ended.
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
        """How many have begun and not ended, as far as is known."""
        return len(self._open)

    @property
    def settles(self) -> bool:
        """Whether a miss may have ended, and only time can tell."""
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
        """The miss in whose seconds it lies. A backward program runs after its parent."""
        while miss.derived is None and miss.parent is not None:
            outer = self._misses.get(_number(miss.parent))
            if outer is None or outer.number >= miss.number:
                break
            miss = outer
        return miss

    def thread(self, number: int) -> str:
        """The thread that a miss was made in."""
        return self._misses[number].thread

    def explained(self, number: int) -> ExplainedMiss:
        """A miss that has ended, with all that a report says of it."""
        self._judge_ended()
        wanted: dict[int, Verdict] = {}
        self._add(number, wanted)
        verdict = wanted[number] = self._with_history(wanted[number])
        verdicts = [wanted[each] for each in sorted(wanted)]
        recording = Recording([self.run], [one.miss for one in verdicts], self._programs)
        view = View(recording, verdicts, here())
        view.count_as({one.miss.id: self._position(one.miss) for one in verdicts})
        (told,) = explained(view, [verdict])
        return told

    def _judge_ended(self) -> None:
        """Judge all that have ended and of which no earlier one still runs."""
        done = 0
        while done < len(self._unjudged) and (number := self._unjudged[done]) in self._ended:
            self._verdicts[number] = self._judge.judge(self._misses[number])
            self._ended.discard(number)
            done += 1
        del self._unjudged[:done]

    def _verdict(self, number: int) -> Verdict:
        known = self._verdicts.get(number)
        if known is not None:
            return known
        miss = self._misses[number]
        found = self._judge.look(miss)
        between = [
            one
            for other in self._unjudged[: bisect_left(self._unjudged, number)]
            if (one := self._misses[other]).function.site == miss.function.site
        ]
        if not between:
            return found
        # Some that began earlier still run, in other threads. The nearest of all is the nearest
        # of those that were judged, or one of these.
        few = Judge(self._programs)
        for one in (found.nearest, *between):
            if one is not None:
                few.judge(one)
        return few.look(miss)

    def _with_history(self, verdict: Verdict) -> Verdict:
        """The same with what the latest misses of its function say of it."""
        numbers = self._sites[verdict.miss.function.site]
        at = bisect_left(numbers, verdict.miss.number)
        latest = (self._verdicts.get(number) for number in numbers[max(0, at - _LATEST) : at])
        revised = revise([*(one for one in latest if one is not None), verdict])
        pattern = recognise(revised).get(verdict.miss.id)
        return revised[-1] if pattern is None else replace(revised[-1], pattern=pattern)

    def _add(self, number: int, wanted: dict[int, Verdict], *, named: bool = False) -> None:
        """A verdict with those of the misses around it, and those that are named in these."""
        if number in wanted or number not in self._misses:
            return
        verdict = wanted[number] = self._verdict(number)
        if named:
            return
        for other in (verdict.follows, verdict.nearest and verdict.nearest.id):
            if other is not None:
                self._add(_number(other), wanted, named=True)
        if verdict.miss.parent is not None:
            self._add(_number(verdict.miss.parent), wanted)

    def _position(self, miss: Miss) -> int:
        """Which miss of its function it is, from 1."""
        numbers: Sequence[int] = self._sites.get(miss.function.site, ())
        return bisect_left(numbers, miss.number) + 1


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])

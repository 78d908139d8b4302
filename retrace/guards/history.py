"""What guards know of earlier misses: judged once, as they come, by definition site.

A guard asks about one miss at a time, in the middle of the program. Judging all that came
before it again each time would make the thousandth miss a thousand times as expensive as
the first one, so the judge of a site is kept, and goes on from where it stands.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable

from retrace.model import Kind, Miss, Stage, Verdict
from retrace.reason.verdict import Judge

_PATIENCE = 64
"""A miss that never ends (its thread died) is taken as it is when this many more have begun."""


class _Site:
    """The misses of one definition site, in order, and the judge that has read most of them."""

    def __init__(self, window: int) -> None:
        self.window = window
        """The window in which it was last used."""
        self.objects: set[int] = set()
        """The function objects whose misses are in it."""
        self._misses: list[Miss] = []
        self._numbers: list[int] = []
        self._judge = Judge()
        self._judged = 0
        self._verdicts: dict[int, Verdict] = {}

    def add(self, misses: Iterable[Miss]) -> None:
        """Take in misses, in any order."""
        for miss in misses:
            at = bisect_left(self._numbers, miss.number)
            if at < len(self._numbers) and self._numbers[at] == miss.number:
                continue
            self._numbers.insert(at, miss.number)
            self._misses.insert(at, miss)
            if at < self._judged:
                self._judge, self._judged = Judge(), 0
                self._verdicts.clear()

    def verdict(self, miss: Miss, running: Container[int]) -> Verdict:
        """The verdict on one miss, given those that began before it.

        Args:
            miss: of this site; it need not be in the history yet.
            running: the numbers of the misses that may still change.
        """
        at = bisect_left(self._numbers, miss.number)
        while self._judged <= at and self._judged < len(self._misses):
            one = self._misses[self._judged]
            if one.number > miss.number or one.number in running:
                break
            self._verdicts[one.number] = self._judge.judge(one)
            self._judged += 1
        if (known := self._verdicts.get(miss.number)) is not None:
            return known
        found = self._judge.look(miss)
        unjudged = self._misses[self._judged : at]
        if not unjudged:
            return found
        # Some that began earlier still run. The nearest of all is the nearest among those
        # that have ended, or one of these.
        few = Judge()
        for one in (found.nearest, *unjudged):
            if one is not None:
                few.judge(one)
        return few.look(miss)

    def number(self, miss: Miss) -> int:
        """Which miss of its site it is, from 1."""
        return bisect_left(self._numbers, miss.number) + 1

    def latest(self, miss: Miss, most: int) -> list[Verdict]:
        """The last verdicts before a miss, for patterns that several misses make together."""
        at = bisect_left(self._numbers, miss.number)
        numbers = self._numbers[max(0, at - most) : at]
        return [known for n in numbers if (known := self._verdicts.get(n)) is not None]


class History:
    """All that is known of the misses of this process, ready to judge the next one.

    What was watched before the present window counts only where the very same function
    object comes again: a test's verdict must not depend on the tests before it. What others
    recorded of this process always counts.
    """

    def __init__(self) -> None:
        self._window = 0
        self._since = 0
        self._sites: dict[str, _Site] = {}
        self._own: dict[tuple[str, int], list[Miss]] = {}
        """By definition site and function object."""
        self._others: dict[str, list[Miss]] = {}
        self._misses: dict[int, Miss] = {}
        self._pending: list[Miss] = []
        """Operations whose name may still change."""
        self._last: dict[str, Miss] = {}
        """The last miss of each thread."""
        self._unended: dict[int, Miss] = {}
        self._newest = -1

    def begin(self, number: int) -> None:
        """A new window begins with the miss of this number."""
        self._window += 1
        self._since = number

    def add(self, misses: Iterable[Miss]) -> None:
        """Take in misses that were watched, as they were read."""
        ready: list[Miss] = []
        for miss in misses:
            self._misses[miss.number] = self._unended[miss.number] = miss
            self._newest = max(self._newest, miss.number)
            last = self._last.get(miss.thread)
            if last is None or last.number < miss.number:
                self._last[miss.thread] = miss
            self._pending.append(miss)
        waiting: list[Miss] = []
        for miss in self._pending:
            if _may_be_renamed(miss) and self._newest - miss.number < _PATIENCE:
                waiting.append(miss)
            else:
                ready.append(miss)
        self._pending = waiting
        for miss in ready:
            self._admit(miss)

    def add_others(self, misses: Iterable[Miss]) -> None:
        """Take in what others recorded of this process, and no window saw."""
        for miss in misses:
            if self._misses.setdefault(miss.number, miss) is not miss:
                continue
            self._others.setdefault(miss.function.site, []).append(miss)
            if (site := self._sites.get(miss.function.site)) is not None:
                site.add([miss])

    def miss(self, number: int) -> Miss | None:
        """The miss of a number."""
        return self._misses.get(number)

    def verdict(self, miss: Miss) -> Verdict:
        """Why it missed."""
        return self._site(miss).verdict(miss, self._running())

    def label(self, miss: Miss) -> int:
        """Which miss of its definition site it is, from 1."""
        return self._site(miss).number(miss)

    def before(self, miss: Miss, most: int = 200) -> list[Verdict]:
        """The verdicts on the last misses of its site before it."""
        return self._site(miss).latest(miss, most)

    def _running(self) -> Container[int]:
        for number in [n for n, miss in self._unended.items() if self._has_ended(miss)]:
            del self._unended[number]
        return self._unended.keys()

    def _has_ended(self, miss: Miss) -> bool:
        if self._newest - miss.number >= _PATIENCE:
            return True
        if miss.in_flight is not None:
            return False
        # Between two of its stages nothing runs; only what its thread did next tells.
        done = Stage.COMPILE in miss.stages or miss.raised is not None
        return done or self._last[miss.thread] is not miss

    def _admit(self, miss: Miss) -> None:
        function = miss.function
        self._own.setdefault((function.site, function.object), []).append(miss)
        if miss.number < self._since:
            return
        site = self._sites.get(function.site)
        if site is None or (
            site.window != self._window and not site.objects <= {function.object}
        ):
            site = self._new(function.site)
        site.window = self._window
        if function.object in site.objects:
            site.add([miss])
        else:
            site.objects.add(function.object)
            site.add(self._own[function.site, function.object])

    def _new(self, name: str) -> _Site:
        site = self._sites[name] = _Site(self._window)
        site.add(self._others.get(name, ()))
        return site

    def _site(self, miss: Miss) -> _Site:
        name = miss.function.site
        return self._sites.get(name) or self._new(name)


def _may_be_renamed(miss: Miss) -> bool:
    """Whether it is an operation that began with its body, and is not known in full yet."""
    return (
        miss.function.kind is Kind.OP
        and bool(miss.bodies)
        and miss.in_flight not in (Stage.LOWER, Stage.COMPILE)
        and miss.stages.keys().isdisjoint((Stage.LOWER, Stage.COMPILE))
    )

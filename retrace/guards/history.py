"""Earlier misses as guards know them: each judged once, as it comes, by definition site.

A guard asks about one miss at a time, in the middle of the program. Judging all earlier misses
again each time would make the thousandth miss a thousand times as expensive as the first, so
the judge of each site is kept and continues where it stopped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable

from retrace.model import Kind, Miss, Stage, Verdict
from retrace.reason.verdict import Judge

_MAX_UNENDED = 64
"""A miss that never ends (its thread died) counts as ended once this many more have begun."""


class _Site:
    """The misses of one definition site, in order, and the judge that has seen most of them."""

    def __init__(self, window: int) -> None:
        self.window = window
        """The window that used it last."""
        self.objects: set[int] = set()
        """The function objects whose misses it contains."""
        self._misses: list[Miss] = []
        self._numbers: list[int] = []
        self._judge = Judge()
        self._judged = 0
        self._verdicts: dict[int, Verdict] = {}

    def add(self, misses: Iterable[Miss]) -> None:
        """Add misses, in any order."""
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
            miss: a miss of this site, perhaps not added yet.
            running: the numbers of misses that may still change.
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
        return self._judge.look(miss, self._misses[self._judged : at])

    def number(self, miss: Miss) -> int:
        """The position of a miss within its site, from 1."""
        return bisect_left(self._numbers, miss.number) + 1

    def latest(self, miss: Miss, limit: int) -> list[Verdict]:
        """The last verdicts before a miss, to find patterns over several misses."""
        at = bisect_left(self._numbers, miss.number)
        numbers = self._numbers[max(0, at - limit) : at]
        return [known for n in numbers if (known := self._verdicts.get(n)) is not None]


class History:
    """All known misses of this process, ready to judge the next one.

    Misses watched before the current window only count for the same function object: the
    verdict of a test must not depend on the tests before it. Misses in other recordings of
    this process always count.
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
        """Operations that may still be renamed."""
        self._last: dict[str, Miss] = {}
        """The last miss of each thread."""
        self._not_ended: dict[int, Miss] = {}
        self._newest = -1
        self._verdicts: dict[int, Verdict] = {}
        """The verdicts since anything more became known: a message asks for the same again."""

    def begin(self, number: int) -> None:
        """Start a new window with this miss number."""
        self._window += 1
        self._since = number
        self.more_is_known()

    def add(self, misses: Iterable[Miss]) -> None:
        """Add misses from the guards' own recording."""
        ready: list[Miss] = []
        for miss in misses:
            self._misses[miss.number] = self._not_ended[miss.number] = miss
            self._newest = max(self._newest, miss.number)
            last = self._last.get(miss.thread)
            if last is None or last.number < miss.number:
                self._last[miss.thread] = miss
            self._pending.append(miss)
        waiting: list[Miss] = []
        for miss in self._pending:
            if _may_be_renamed(miss) and self._newest - miss.number < _MAX_UNENDED:
                waiting.append(miss)
            else:
                ready.append(miss)
        self._pending = waiting
        for miss in ready:
            self._admit(miss)

    def add_others(self, misses: Iterable[Miss]) -> None:
        """Add misses from other recordings of this process."""
        self.more_is_known()
        for miss in misses:
            if self._misses.setdefault(miss.number, miss) is not miss:
                continue
            self._others.setdefault(miss.function.site, []).append(miss)
            if (site := self._sites.get(miss.function.site)) is not None:
                site.add([miss])

    def miss(self, number: int) -> Miss | None:
        """The miss with this number."""
        return self._misses.get(number)

    def verdict(self, miss: Miss) -> Verdict:
        """Why a miss happened."""
        known = self._verdicts.get(miss.number)
        if known is None or known.miss is not miss:
            known = self._site(miss).verdict(miss, self._running())
            self._verdicts[miss.number] = known
        return known

    def more_is_known(self) -> None:
        """A miss was added or amended: what was judged so far may change."""
        self._verdicts.clear()

    def label(self, miss: Miss) -> int:
        """The position of a miss within its definition site, from 1."""
        return self._site(miss).number(miss)

    def before(self, miss: Miss, limit: int = 200) -> list[Verdict]:
        """The verdicts on the misses of the same site just before this one."""
        return self._site(miss).latest(miss, limit)

    def _running(self) -> Container[int]:
        for number in [n for n, miss in self._not_ended.items() if self._has_ended(miss)]:
            del self._not_ended[number]
        return self._not_ended.keys()

    def _has_ended(self, miss: Miss) -> bool:
        if self._newest - miss.number >= _MAX_UNENDED:
            return True
        if miss.in_flight is not None:
            return False
        # Between two stages nothing runs: only the thread's next miss shows that this one ended.
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
    """Whether it is an operation whose body was seen first and whose name may still change."""
    return (
        miss.function.kind is Kind.OP
        and bool(miss.bodies)
        and miss.in_flight not in (Stage.LOWER, Stage.COMPILE)
        and miss.stages.keys().isdisjoint((Stage.LOWER, Stage.COMPILE))
    )

"""The misses of one function and cause, taken together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Literal

from retrace.causes import Cause
from retrace.model import CallSite, Change, Component, Detail, Stage, Verdict
from retrace.model.advice import Advice, FewSizes, JitBlock, LeaveEager, LibraryCall
from retrace.model.parts import BY_COMPONENT
from retrace.plan.step import Proposal
from retrace.present import verdict_detail
from retrace.present.changes import sides
from retrace.present.detail import detail
from retrace.present.words import clean, count, listed, operation, times, turned
from retrace.reason.cards import card

_MIN_REPEATS = 3
"""Minimum number of repeated eager operations for a line to get its own message."""
_MIN_SHARE = 0.005
"""Fraction of all seconds below which misses not clearly avoidable are only listed."""
_MAX_SHAPES = 4
"""Maximum number of other shapes shown; the rest are counted."""
_URGENCY = {"yes": 0, "maybe": 1, "no": 2}
_LEAF = (Component.SHAPE, Component.DTYPE, Component.WEAK_TYPE)
_ARRAYS = {cause: part for cause in Cause for part in card(cause).components if part in _LEAF}
_VALUES = (*BY_COMPONENT, Component.SIGNATURE)


class Group:
    """The misses of one function and cause, or the eager operations of one line.

    What is shown about all of them is summed up, so that the misses need not be kept.
    """

    __slots__ = (
        *("_folded", "_misses", "_sums", "began", "cause", "count", "functions", "places"),
        *("planned", "remedy", "seconds", "shown", "worths"),
    )

    def __init__(self, first: Verdict) -> None:
        """`first` is the first of them; it must still be added."""
        self.cause: Cause = first.cause
        self.shown = first
        """The miss that represents the group: the first of those most worth avoiding."""
        self.began = first.miss.time
        self.count = 0
        self.seconds = 0.0
        self.functions = 1
        """The number of definition sites, or of lines with eager operations."""
        self.places: tuple[CallSite, ...] = ()
        """The lines, if eager operations of several are shown together."""
        self.planned = False
        """Whether a step of the plan is about most of them."""
        self.remedy: Proposal | None = None
        """The shared remedy, unless the advice on one miss covers it."""
        self.worths: Counter[Literal["yes", "no", "maybe"]] = Counter()
        """How many misses are clearly, maybe or not avoidable."""
        self._sums = Sums()
        self._misses: list[Verdict] = []
        self._folded: list[Verdict] = []

    @classmethod
    def alone(cls, verdict: Verdict) -> Group:
        """A group of a single miss."""
        group = cls(verdict)
        group.add(verdict)
        return group

    @classmethod
    def together(cls, groups: Sequence[Group], remedy: Proposal | None = None) -> Group:
        """Merge groups: one cause on one calling line, or eager operations of several lines.

        Args:
            groups: the groups to merge.
            remedy: what to do about all of them, if it is not the advice on one.
        """
        places: tuple[CallSite, ...] = ()
        if groups[0].cause is Cause.EAGER_OP:
            places = tuple(site for group in groups if (site := group.site) is not None)
            remedy_line = None if remedy is None else (remedy.file, remedy.line)
            shown = max(
                groups,
                key=lambda group: (
                    group.site is not None and (group.site.file, group.site.line) == remedy_line,
                    group.seconds,
                ),
            ).shown
        else:
            shown = min(groups, key=lambda group: (_URGENCY[group.avoidable], group.began)).shown
        whole = cls(shown)
        whole.functions = len(groups)
        whole.places = places if len(groups) > 1 else ()
        whole.remedy = remedy
        whole.planned = any(group.planned for group in groups)
        whole.began = min(group.began for group in groups)
        for group in groups:
            whole.count += group.count
            whole.seconds += group.seconds
            whole.worths.update(group.worths)
            whole._sums.merge(group.sums)
        return whole

    @property
    def site(self) -> CallSite | None:
        """The user's line of eager operations."""
        return self.shown.miss.entry or self.shown.miss.call_site

    def add(self, verdict: Verdict) -> None:
        """Add another miss."""
        self.count += 1
        self.seconds += verdict.miss.seconds
        self.worths[verdict.avoidable] += 1
        shown = self.shown
        if self.cause is Cause.EAGER_OP:
            better = _telling_operation(verdict) > _telling_operation(shown)
        else:
            better = _URGENCY[verdict.avoidable] < _URGENCY[shown.avoidable]
        if better:
            self.shown = verdict
        self._misses.append(verdict)

    def fold(self, verdict: Verdict) -> None:
        """Add a miss that is nested in, or derived from, one of the group."""
        if verdict.miss.derived is not None:
            self.seconds += verdict.miss.seconds
        self._folded.append(verdict)

    @property
    def sums(self) -> Sums:
        """The sums over all of them."""
        self.settle()
        return self._sums

    def settle(self) -> None:
        """Compute the sums, and drop all misses except the one that is shown."""
        for verdict in self._misses:
            self._sums.add(verdict)
        for verdict in self._folded:
            self._sums.fold(verdict)
        self._misses.clear()
        self._folded.clear()

    @property
    def told(self) -> int:
        """The number of its eager operations that the advice on the shown one is about."""
        fix = self.shown.fix
        if not isinstance(fix, LibraryCall) or fix.of is None:
            return self.count
        return self.sums.called[fix.of]

    @property
    def lacks_advice(self) -> bool:
        """Whether there is no advice on most of its misses, or one that fits any such line."""
        fix = self.shown.fix
        return fix is None or isinstance(fix, FewSizes | JitBlock) or self.is_told_in_part

    @property
    def is_told_in_part(self) -> bool:
        """Whether the advice on the shown operation is about a part of them only."""
        return self.told < self.count

    @property
    def avoidable(self) -> Literal["yes", "no", "maybe"]:
        """The strongest classification of any of its misses."""
        return min(self.worths, key=_URGENCY.__getitem__)

    def is_small(self, total: float) -> bool:
        """Whether it is neither clearly avoidable nor a fair part of the total."""
        return self.avoidable != "yes" and self.seconds < total * _MIN_SHARE

    @property
    def is_quiet(self) -> bool:
        """Whether a line in a list is enough: first traces, first eager operations of a line."""
        if self.cause is Cause.EAGER_OP:
            # What a library runs for itself is not avoidable, but its message says who runs it.
            first = 0 if isinstance(self.shown.fix, LeaveEager) else self.worths["no"]
            few = self.count - first < _MIN_REPEATS
            return self.avoidable != "yes" and few and not self.planned
        return self.cause is Cause.FIRST_TRACE


def _telling_operation(verdict: Verdict) -> tuple[bool, bool]:
    """How much the message of an eager operation says for all of its line.

    One that the user's own function ran below a library can be changed, those that the library
    runs around it cannot; where one draws random numbers, that holds for what is done with them;
    and a comparison with a repeated one says more than a first one.
    """
    fix = verdict.fix
    called = isinstance(fix, LibraryCall) and fix.of is not None
    return called or (isinstance(fix, FewSizes) and fix.draws), bool(verdict.changes)


class Sums:
    """Sums over all misses of a group, besides their number and seconds."""

    __slots__ = (
        *("_changed", "_types", "advised", "after", "called", "derived", "details", "folded"),
        *("in_flight", "nested", "on_disk", "operations", "raised", "runs", "stages", "wasted"),
    )

    def __init__(self) -> None:
        self.stages: dict[Stage, float] = {}
        self.in_flight: Stage | None = None
        self.on_disk = 0
        """The number found in JAX's on-disk cache."""
        self.runs: set[str] = set()
        self.raised: Counter[str] = Counter()
        self.details: Counter[Detail] = Counter()
        self.advised: dict[tuple[str, tuple[str, ...]], tuple[Advice, int]] = {}
        """The first advice of each kind and on each value, and how many misses have it."""
        self.operations: Counter[str] = Counter()
        """Eager operations, by name."""
        self.called: Counter[str] = Counter()
        """Those run by functions of the user's that a library calls, by function."""
        self.folded = 0
        self.nested: set[str] = set()
        """Definition sites of the nested functions."""
        self.derived: Counter[str] = Counter()
        self.after = 0.0
        """Seconds of derived programs."""
        self.wasted = 0
        """The number with the same program as the closest earlier key."""
        self._types: dict[int, tuple[str, str]] = {}
        """Paths and texts of changed arguments, by the hash of an argument and its type."""
        self._changed: Counter[str] = Counter()

    def add(self, verdict: Verdict) -> None:
        """Add another miss."""
        miss = verdict.miss
        for stage, spent in miss.stages.items():
            self.stages[stage] = self.stages.get(stage, 0.0) + spent
        if self.in_flight is None:
            self.in_flight = miss.in_flight
        cache = miss.persistent_cache
        self.on_disk += cache is not None and cache.outcome == "hit"
        self.wasted += verdict.program is not None and verdict.program.is_wasted
        self.runs.add(miss.run)
        if miss.raised is not None:
            self.raised[clean(miss.raised)] += 1
        if verdict.detail is not None:
            self.details[verdict.detail] += 1
        if (fix := verdict.fix) is not None:
            first, number = self.advised.get(what := (fix.code, fix.paths), (fix, 0))
            self.advised[what] = first, number + 1
        if verdict.cause is Cause.EAGER_OP:
            self.operations[operation(miss)] += 1
            if isinstance(fix, LibraryCall) and fix.of is not None:
                self.called[fix.of] += 1
        if (change := _of_array(verdict)) is not None:
            known = _type(verdict, change)
            if known not in self._types:
                room_left = len(self._types) <= _MAX_SHAPES
                text = sides(verdict, change)[1] if room_left else ""
                self._types[known] = change.path or "", text
        if (change is None or verdict.cause not in _ARRAYS) and (text := _telling(verdict)):
            self._changed[text] += 1

    def merge(self, other: Sums) -> None:
        """Add the sums of another group."""
        for stage, spent in other.stages.items():
            self.stages[stage] = self.stages.get(stage, 0.0) + spent
        self.in_flight = self.in_flight or other.in_flight
        self.on_disk += other.on_disk
        self.runs |= other.runs
        self.nested |= other.nested
        self.folded += other.folded
        self.after += other.after
        self.wasted += other.wasted
        for own, theirs in (
            (self.raised, other.raised),
            (self.derived, other.derived),
            (self.operations, other.operations),
            (self.called, other.called),
            (self._changed, other._changed),
        ):
            own.update(theirs)
        self.details.update(other.details)
        for what, (first, number) in other.advised.items():
            known, before = self.advised.get(what, (first, 0))
            self.advised[what] = known, before + number
        self._types |= other._types

    def fold(self, verdict: Verdict) -> None:
        """Add a miss that is nested in, or derived from, one of them."""
        miss = verdict.miss
        self.folded += 1
        if miss.raised is not None and not self.raised:  # caught inside the program
            self.raised[clean(miss.raised)] += 1
        if miss.derived is None:
            self.nested.add(miss.function.site)
        else:
            self.derived[clean(miss.derived)] += 1
            self.after += miss.seconds

    def other_ways(self, shown: Verdict) -> str:
        """The other ways in which misses of the group came about."""
        others = [
            f"{turned(verdict_detail.in_words(text) or '', 80)} ({times(number)})"
            for text, number in self.details.items()
            if text != shown.detail
        ]
        return f"also {listed(others, 3, 'other way')}" if others else ""

    def others(self, shown: Verdict) -> str:
        """What the other misses changed, in one line."""
        if (first := _of_array(shown)) is not None:
            own = _type(shown, first)
            others = [one for known, one in self._types.items() if known != own]
            texts = (
                # Without its path it would be read as another type of the array above.
                text if path == first.path else f"{clean(path, 40)} {text}"
                for path, text in others
                if text  # of most, only their number is kept
            )
            shapes = list(islice(texts, _MAX_SHAPES))
            more = len(others) - len(shapes)
            # Two operations may reach one type through different arguments.
            shapes = list(dict.fromkeys(shapes))
            if more > 0:
                what = "shape" if first.component is Component.SHAPE else "type"
                shapes.append(count(more, f"other {what}"))
            return f"also {listed(shapes, _MAX_SHAPES + 1)}" if shapes else ""
        same = _telling(shown)
        phrases = [
            f"{what} ({times(number)})" if number > 1 else what
            for what, number in self._changed.most_common()
            if what != same
        ]
        return f"also {listed(phrases, 3, 'other change')}" if phrases else ""


def _of_array(verdict: Verdict) -> Change | None:
    """The array change that each miss of a group has in its own way."""
    wanted = _ARRAYS.get(verdict.cause, Component.SHAPE)
    for change in verdict.changes:
        if change.component is wanted:
            return change
    return None


def _type(verdict: Verdict, change: Change) -> int:
    path = change.path
    return hash((path, *[str(other.new) for other in verdict.changes if other.path == path]))


def _telling(verdict: Verdict) -> str:
    for change in verdict.changes:
        if change.component not in (Component.FUNCTION, Component.PROGRAM):
            path = "" if change.path is None else f" {clean(change.path, 40)}"
            text = change.component.value.replace("_", " ") + path
            # For other components the new value differs each time and says little.
            return f"{text} {turned(detail(change))}" if change.component in _VALUES else text
    return ""

"""Sums up a report: counts, seconds, and the misses by function and cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Self, TypeAlias

from retrace.causes import Cause
from retrace.model import Callback, Function, Miss, Stage, Verdict
from retrace.plan.step import Plan, Proposal, Step
from retrace.present.group import Group
from retrace.present.view import View
from retrace.present.words import count, seconds
from retrace.runs.again import Again, compiled
from retrace.runs.outcomes import Outcomes

_MIN_FUNCTIONS = 3
"""Minimum number of functions for one cause on one calling line to be reported once."""
_FAIR = 0.05
"""Fraction of all seconds that a step may save for its lines to be told above the list."""
_MOST = 0.5
"""Fraction of a line's seconds that a step of the plan must remove to be shown for the line."""
Rank: TypeAlias = tuple[int, float]
Sort: TypeAlias = Literal["saving", "seconds", "count", "time"]


class Totals:
    """Counts and seconds of a set of misses; each second is counted once."""

    def __init__(self) -> None:
        self.misses = 0
        self.ran: Counter[Stage] = Counter()
        self.seconds: dict[Stage, float] = dict.fromkeys(Stage, 0.0)
        self.avoidable = 0
        self.avoidable_calls = 0
        """Those of them that a plan counts: outermost, and not eager operations."""
        self.avoidable_seconds = 0.0
        self.repeated = 0
        """Misses that had been traced before, but raised or were cut off."""
        self.disk = Outcomes()
        """What the on-disk cache did for them."""

    def add(self, view: View, verdicts: Sequence[Verdict]) -> None:
        """Add misses of processes that were not counted yet."""
        self.misses += len(verdicts)
        # JAX only lets a job's first process write to the on-disk cache.
        others = {
            run.id
            for run in view.recording.runs
            if (run.process_index or 0) > 0 and (run.process_count or 0) > 1
        }
        among = {verdict.miss.id for verdict in verdicts}
        for verdict in verdicts:
            miss = verdict.miss
            self.ran.update(miss.stages.keys())
            self.repeated += verdict.repeat
            self.disk.add(miss.persistent_cache, writes=miss.run not in others)
            if not any(outer.id in among for outer in view.outward(miss)):
                for stage, spent in miss.stages.items():
                    self.seconds[stage] += spent
            if verdict.avoidable == "yes":
                self.avoidable += 1
                if miss.parent is None and verdict.cause is not Cause.EAGER_OP:
                    self.avoidable_calls += 1
                around = [view.by_id[outer.id] for outer in view.outward(miss)]
                if not any(v.avoidable == "yes" and v.miss.id in among for v in around):
                    self.avoidable_seconds += miss.seconds

    @property
    def worth(self) -> str:
        """How much is avoidable, in words."""
        if not self.avoidable:
            return "none clearly avoidable"
        text = f"{self.avoidable:,} clearly avoidable"
        if self.avoidable_calls < self.avoidable:
            text += f" ({count(self.avoidable_calls, 'call')})"
        return f"{text}, {seconds(self.avoidable_seconds)}"

    @property
    def all_seconds(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())


class OfCause:
    """The misses of one cause."""

    def __init__(self) -> None:
        self.misses = 0
        self.seconds = 0.0


class OfFunction:
    """The misses of one definition site."""

    def __init__(self, function: Function) -> None:
        """`function` is that of the first miss."""
        self.function = function
        self.misses = 0
        self.first_traces = 0
        self.seconds = 0.0
        """Excluding the seconds of nested misses, as for a cause."""
        self.causes: Counter[str] = Counter()


class Tally:
    """The misses of a report, added up one set of processes after another."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.causes: dict[Cause, OfCause] = {}
        self.functions: dict[str, OfFunction] = {}
        """By definition site."""
        self.slow: dict[str, tuple[Miss, dict[Callback, None]]] = {}
        """What makes each call of a function slow, by definition site."""
        self.again = Again()
        """What several processes compiled."""
        self.unfolded = Totals()
        """The groups of misses that have their own group."""
        self.among = 0
        """The total number of misses if only some are included, otherwise 0."""
        self._steps: dict[tuple[object, ...], int] = {}
        """The first step of the plan that removes misses of a group, by the group's key."""
        self._one_remedy: list[tuple[list[tuple[object, ...]], Proposal]] = []
        """The lines whose eager operations one step of the plan removes, with the step."""
        self._groups: dict[tuple[object, ...], Group] = {}
        self._together: dict[tuple[object, ...], Group] = {}
        """By the same keys, for groups that are shown together."""

    @property
    def counted(self) -> str:
        """`155 misses`, or `3 of 155 misses` if the others were left out."""
        misses = self.totals.misses
        if self.among > misses:
            return f"{misses:,} of {count(self.among, 'miss', 'misses')}"
        return count(misses, "miss", "misses")

    def compiled_once(self, view: View) -> str | None:
        """`4 programs` if every miss is one that each run must compile, otherwise None.

        Nested misses were traced for these, so they are not counted separately.
        """
        programs = self.totals.ran[Stage.COMPILE]
        if not programs or self.among or len(view.missed) != 1 or view.losses():
            return None
        groups = self._groups.values()
        if any(group.cause not in (Cause.FIRST_TRACE, Cause.EAGER_OP) for group in groups):
            return None
        if any(group.avoidable != "no" or group.sums.raised for group in groups):
            return None
        if sum(group.count for group in groups) != programs or self.unfolded.repeated:
            return None
        return count(programs, "program")

    @classmethod
    def of(cls, view: View, verdicts: Sequence[Verdict] | None = None) -> Self:
        """All misses of a view, or some of them."""
        tally = cls()
        tally.add(view, view.verdicts if verdicts is None else verdicts)
        return tally

    def add(self, view: View, verdicts: Sequence[Verdict]) -> None:
        """Add misses of processes that were not counted yet."""
        self.totals.add(view, verdicts)
        self._compiled(view, verdicts)
        for verdict in verdicts:
            self._count(view, verdict)
        among = {verdict.miss.id for verdict in verdicts}
        of_miss: dict[str, Group] = {}
        own: list[Verdict] = []
        folded: list[Verdict] = []
        for verdict in verdicts:
            root = view.root(verdict.miss)
            if root is not verdict.miss and root.id in among and _folds(view, verdict, root):
                folded.append(verdict)
                continue
            own.append(verdict)
            key = _key(verdict)
            if (group := self._groups.get(key)) is None:
                group = self._groups[key] = Group(verdict)
            group.add(verdict)
            of_miss[verdict.miss.id] = group
        for verdict in folded:
            of_miss[view.root(verdict.miss).id].fold(verdict)
        self.unfolded.add(view, own)

    def _compiled(self, view: View, verdicts: Sequence[Verdict]) -> None:
        by_run: dict[str, list[Miss]] = {}
        for verdict in verdicts:
            by_run.setdefault(verdict.miss.run, []).append(verdict.miss)
        runs = {run.id: run for run in view.recording.runs if run.id in by_run}
        for name, run in runs.items():
            self.again.add(compiled(by_run[name], run, view.recording.listings), name)

    def _count(self, view: View, verdict: Verdict) -> None:
        function, spent = verdict.miss.function, view.own[verdict.miss.id]
        if (cause := self.causes.get(verdict.cause)) is None:
            cause = self.causes[verdict.cause] = OfCause()
        cause.misses += 1
        cause.seconds += spent
        if (row := self.functions.get(function.site)) is None:
            row = self.functions[function.site] = OfFunction(function)
        row.misses += 1
        row.first_traces += verdict.cause is Cause.FIRST_TRACE and not verdict.repeat
        row.seconds += spent
        row.causes[verdict.cause.value] += 1
        if found := view.slow_dispatch(verdict):
            self.slow.setdefault(function.site, (verdict.miss, {}))[1].update(
                dict.fromkeys(found)
            )

    def group_of(self, verdict: Verdict) -> Group | None:
        """The group of a miss; None if it is folded into another one, or not included."""
        key = _key(verdict)
        return self._together.get(key) or self._groups.get(key)

    def groups(self, sort: Sort = "seconds") -> list[Group]:
        """The misses by function and cause, eager operations by line; worst first."""
        found = self._gathered()
        if sort in ("seconds", "saving"):
            found.sort(key=lambda group: group.seconds, reverse=True)
        elif sort == "count":
            found.sort(key=lambda group: group.count, reverse=True)
        else:
            found.sort(key=lambda group: group.began)
        if sort == "saving":
            steps: dict[int, int] = {}
            for key, step in self._steps.items():
                if (group := self._together.get(key) or self._groups.get(key)) is not None:
                    steps[id(group)] = min(step, steps.get(id(group), step))
            # Groups that no step of the plan removes save nothing and come last.
            found.sort(key=lambda group: steps.get(id(group), len(self._steps)))
        return found

    def follow(self, view: View, plan: Plan) -> None:
        """Make `saving` follow the plan: causes are sorted in the order of its steps."""
        for number, step in enumerate(plan.steps):
            for key in self._keys(view, step):
                self._steps.setdefault(key, number)

    def gather(self, view: View, plan: Plan) -> None:
        """Show the step of the plan that removes most eager operations of some lines.

        Lines of which a step removes the most are merged. A step about a small part of a line,
        such as a function that a library calls there, says too little about the rest.
        """
        known: set[tuple[object, ...]] = set()
        for step in plan.steps:
            removed: dict[tuple[object, ...], float] = {}
            for name in step.misses:
                if (verdict := view.by_id.get(name)) is not None:
                    key = _key(verdict)
                    removed[key] = removed.get(key, 0.0) + verdict.miss.seconds
            own = [
                key
                for key, spent in removed.items()
                if (group := self._groups.get(key)) is not None
                and group.cause is Cause.EAGER_OP
                and spent >= group.seconds * _MOST
                and key not in known
            ]
            if step.gone.seconds.high >= plan.now.seconds.high * _FAIR:
                for key in own:
                    self._groups[key].planned = True
            if len(own) > 1 or (own and self._groups[own[0]].lacks_advice):
                known.update(own)
                self._one_remedy.append((own, step.proposal))

    def _keys(self, view: View, step: Step) -> list[tuple[object, ...]]:
        """The groups of the misses that a step of the plan removes."""
        found: dict[tuple[object, ...], None] = {}
        for name in step.misses:
            if (verdict := view.by_id.get(name)) is None:
                continue
            key = _key(verdict)
            if key not in self._groups:  # folded into the miss that it is nested in
                key = _key(view.by_id[view.root(verdict.miss).id])
            found[key] = None
        return list(found)

    def _gathered(self) -> list[Group]:
        """The groups; those of one cause on one calling line, or with one remedy, are merged."""
        lines: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
        for key, group in self._groups.items():
            if (line := _line(group)) is not None:
                lines.setdefault((group.cause, *line), []).append(key)
        found = [(keys, None) for keys in lines.values() if len(keys) >= _MIN_FUNCTIONS]
        self._together = {}
        for keys, remedy in (*found, *self._one_remedy):
            whole = Group.together([self._groups[key] for key in keys], remedy)
            self._together |= dict.fromkeys(keys, whole)
        groups = [self._together.get(key, group) for key, group in self._groups.items()]
        return list(dict.fromkeys(groups))

    def ranks(self, verdicts: Sequence[Verdict], sort: Sort) -> list[Rank]:
        """The positions of misses in the order of `groups`, smallest rank first."""
        if sort == "time":
            return [(0, verdict.miss.time) for verdict in verdicts]
        if sort == "seconds":
            return [(0, -verdict.miss.seconds) for verdict in verdicts]
        place = {id(group): number for number, group in enumerate(self.groups(sort))}
        last = len(place)
        return [
            (place.get(id(self.group_of(verdict)), last), -verdict.miss.seconds)
            for verdict in verdicts
        ]

    def settle(self) -> Iterator[Verdict]:
        """Compute the sums; return the misses that are still shown."""
        for group in self._groups.values():
            group.settle()
            yield group.shown


def _folds(view: View, verdict: Verdict, root: Miss) -> bool:
    # Consequences of a loud root are not repeated; a quiet root hides nothing loud.
    if verdict.cause is Cause.EAGER_OP:
        return False
    # The user cannot change anything about a library's functions inside a program.
    return (
        verdict.cause is Cause.FIRST_TRACE
        or view.by_id[root.id].cause is not Cause.FIRST_TRACE
        or verdict.miss.function.in_library
    )


def _key(verdict: Verdict) -> tuple[object, ...]:
    miss = verdict.miss
    if verdict.cause is Cause.EAGER_OP:
        site = miss.entry or miss.call_site
        return (verdict.cause, *((site.file, site.line) if site else (miss.function.site,)))
    return (verdict.cause, miss.function.site, miss.derived)


def _line(group: Group) -> tuple[str, int] | None:
    """The user's calling line of a group that is shown by function."""
    miss, site = group.shown.miss, group.shown.miss.call_site
    if group.cause in (Cause.EAGER_OP, Cause.FIRST_TRACE) or miss.parent is not None:
        return None
    return None if site is None or site.in_library else (site.file, site.line)


def split_by_worth(tally: Tally, groups: Iterable[Group]) -> tuple[list[Group], list[Group]]:
    """The groups that deserve a message, and those that deserve a line."""
    loud = [group for group in groups if not group.is_quiet]
    total = tally.unfolded.all_seconds
    small = [group for group in loud if group.is_small(total)]
    return [group for group in loud if not group.is_small(total)], small


def rest_summary(rest: Sequence[Group]) -> str:
    """`3 more causes, 17 misses, 12.4 s`, for groups that are only counted."""
    misses = count(sum(group.count for group in rest), "miss", "misses")
    spent = seconds(sum(group.seconds for group in rest))
    return f"{count(len(rest), 'more cause')}, {misses}, {spent}"

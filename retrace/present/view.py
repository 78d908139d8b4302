"""What every presenter shows: labels, seconds, folded misses, groups, totals."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from retrace.causes import Cause
from retrace.model import Miss, Recording, Run, Stage, Verdict
from retrace.present import words

Sort: TypeAlias = Literal["seconds", "count", "time"]

_SMALL = 0.005
"""The share of all seconds below which what is not surely avoidable is only listed."""

_MANY = 3
"""From so many repeated eager operations on, a line is worth a message of its own."""


@dataclass(slots=True)
class Group:
    """The misses of one function and cause, or the eager operations of one line."""

    cause: Cause
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    folded: list[Verdict] = field(default_factory=list[Verdict])
    """Misses nested in, or derived from, those of the group."""
    seconds: float = 0.0

    @classmethod
    def alone(cls, verdict: Verdict) -> Group:
        """One miss by itself."""
        return cls(verdict.cause, [verdict], seconds=verdict.miss.seconds)

    @property
    def shown(self) -> Verdict:
        """The miss that stands for the group: the first of those most worth avoiding."""
        if self.cause is Cause.EAGER_OP:  # what a repeated one was compared with says most
            return next((v for v in self.verdicts if v.changes), self.verdicts[0])
        return min(self.verdicts, key=lambda verdict: _URGENCY[verdict.avoidable])

    @property
    def avoidable(self) -> Literal["yes", "no", "maybe"]:
        """The strongest word that can be said of any of its misses."""
        return min((v.avoidable for v in self.verdicts), key=_URGENCY.__getitem__)

    def is_small(self, total: float) -> bool:
        """Whether it is neither worth avoiding for certain nor a fair part of the total."""
        return self.avoidable != "yes" and self.seconds < total * _SMALL

    @property
    def is_quiet(self) -> bool:
        """Whether a line in a list is enough: first traces, a line's first eager operations."""
        if self.cause is Cause.EAGER_OP:
            again = sum(verdict.avoidable != "no" for verdict in self.verdicts)
            return self.avoidable != "yes" and again < _MANY
        return self.cause is Cause.FIRST_TRACE


_URGENCY = {"yes": 0, "maybe": 1, "no": 2}


@dataclass(slots=True)
class Totals:
    """Counts and seconds over a set of misses, each second counted once."""

    misses: int = 0
    ran: Counter[Stage] = field(default_factory=Counter[Stage])
    seconds: dict[Stage, float] = field(default_factory=lambda: dict.fromkeys(Stage, 0.0))
    avoidable: int = 0
    avoidable_seconds: float = 0.0

    @property
    def all_seconds(self) -> float:
        """Seconds of all stages together."""
        return sum(self.seconds.values())


def _home(recording: Recording) -> str:
    """The directory of the user's own files."""
    called = (miss.call_site for miss in recording.misses)
    sites = {site.file for site in called if site is not None and not site.library}
    directories = {os.path.dirname(file) for file in sites if os.path.isabs(file)}
    return os.path.commonpath(directories) if directories else ""


class View:
    """A recording and the verdicts on it, ready to be shown.

    Args:
        recording: what was recorded, whole: labels count all misses of a function.
        verdicts: what was concluded, in the order of the recording.
        here: directory of the reader; places beneath it are written relative to it.
    """

    def __init__(self, recording: Recording, verdicts: Iterable[Verdict], here: str = "") -> None:
        self.recording = recording
        self.verdicts = list(verdicts)
        self.bases = (here, _home(recording))
        self.by_id = {verdict.miss.id: verdict for verdict in self.verdicts}
        self.number: dict[str, int] = {}
        """Position of each miss among those of its function, from 1."""
        self.own: dict[str, float] = {}
        """Seconds of each miss without those of the misses nested in it."""
        self._labelled: dict[str, list[Miss]] = {}
        self._runs = {run.id: index for index, run in enumerate(recording.runs)}
        seen: Counter[tuple[str, str]] = Counter()
        for verdict in self.verdicts:
            miss = verdict.miss
            seen[miss.run, miss.function.site] += 1
            self.number[miss.id] = seen[miss.run, miss.function.site]
            self.own[miss.id] = miss.seconds
            self._labelled.setdefault(self.short_label(miss), []).append(miss)
        for verdict in self.verdicts:
            outer = self.enclosing(verdict.miss)
            if outer is not None:
                self.own[outer.id] = max(0.0, self.own[outer.id] - verdict.miss.seconds)

    def short_label(self, miss: Miss) -> str:
        """`train_step #3`."""
        return f"{words.name(miss.function)} #{self.number[miss.id]}"

    def label(self, miss: Miss) -> str:
        """`train_step #3`, with place and process where another miss has the same."""
        label = self.short_label(miss)
        alike = self._labelled[label]
        if len(alike) == 1:
            return label
        said: list[str] = []
        if len({other.function.site for other in alike}) > 1:
            said.append(self.place(miss))
        if len({other.run for other in alike}) > 1:
            said.append(self.process(miss.run))
        return f"{label} ({', '.join(said)})"

    def earlier(self, nearest: Miss, miss: Miss) -> str:
        """The label of the nearest, short where the place is that of the miss beside it."""
        if nearest.run == miss.run and nearest.function.site == miss.function.site:
            return self.short_label(nearest)
        return self.label(nearest)

    def place(self, miss: Miss) -> str:
        """Where its function was written."""
        function = miss.function
        if function.file is None:
            return self.called_from(miss) or "inside jax"
        return words.place(function.file, function.line, self.bases)

    def called_from(self, miss: Miss) -> str | None:
        """The line that asked for it."""
        return words.called_from(miss.call_site, self.bases)

    def process(self, run: str) -> str:
        """A process among several, in words."""
        index = self._runs.get(run)
        if index is None:
            return f"process {run}"
        given = self.recording.runs[index].process_index
        return f"process {index if given is None else given}"

    def find(self, text: str) -> list[Verdict]:
        """The misses that an id, a label, or the beginning of either means; best match only."""
        text = text.strip()
        if text in self.by_id:
            return [self.by_id[text]]
        wanted = re.sub(r"\s*#\s*(?=\d+)", " #", text)
        matches: tuple[Callable[[Verdict], bool], ...] = (
            lambda v: self.label(v.miss) == wanted,
            lambda v: self.short_label(v.miss) == wanted,
            lambda v: v.miss.id.startswith(text),
            lambda v: self.short_label(v.miss).startswith(wanted),
        )
        for match in matches if text else ():
            if found := [verdict for verdict in self.verdicts if match(verdict)]:
                return found
        return []

    def enclosing(self, miss: Miss) -> Miss | None:
        """The miss in whose seconds it lies. A backward program runs after its parent."""
        if miss.parent is None or miss.derived is not None or miss.parent == miss.id:
            return None
        outer = self.by_id.get(miss.parent)
        return None if outer is None else outer.miss

    def root(self, miss: Miss) -> Miss:
        """The outermost miss that it is nested in or derived from."""
        seen = {miss.id}
        while miss.parent is not None and miss.parent not in seen:
            outer = self.by_id.get(miss.parent)
            if outer is None:
                break
            miss = outer.miss
            seen.add(miss.id)
        return miss

    def totals(self, verdicts: Sequence[Verdict] | None = None) -> Totals:
        """Totals over all misses, or over some."""
        verdicts = self.verdicts if verdicts is None else verdicts
        total = Totals(len(verdicts))
        among = {verdict.miss.id for verdict in verdicts}
        for verdict in verdicts:
            miss = verdict.miss
            total.ran.update(miss.stages.keys())
            if not any(outer.id in among for outer in self._outward(miss)):
                for stage, spent in miss.stages.items():
                    total.seconds[stage] += spent
            if verdict.avoidable == "yes":
                total.avoidable += 1
                around = [self.by_id[outer.id] for outer in self._outward(miss)]
                if not any(v.avoidable == "yes" and v.miss.id in among for v in around):
                    total.avoidable_seconds += miss.seconds
        return total

    def _outward(self, miss: Miss) -> Iterator[Miss]:
        seen = {miss.id}
        while (outer := self.enclosing(miss)) is not None and outer.id not in seen:
            yield outer
            seen.add(outer.id)
            miss = outer

    def groups(
        self, verdicts: Sequence[Verdict] | None = None, sort: Sort = "seconds"
    ) -> list[Group]:
        """The misses by function and cause, eager operations by line; worst first."""
        groups: dict[tuple[object, ...], Group] = {}
        of_miss: dict[str, Group] = {}
        folded: list[Verdict] = []
        verdicts = self.verdicts if verdicts is None else verdicts
        among = {verdict.miss.id for verdict in verdicts}
        for verdict in verdicts:
            root = self.root(verdict.miss)
            if root is not verdict.miss and root.id in among and self._folds(verdict, root):
                folded.append(verdict)
                continue
            group = groups.setdefault(self._key(verdict), Group(verdict.cause))
            group.verdicts.append(verdict)
            group.seconds += verdict.miss.seconds
            of_miss[verdict.miss.id] = group
        for verdict in folded:
            group = of_miss[self.root(verdict.miss).id]
            group.folded.append(verdict)
            if verdict.miss.derived is not None:
                group.seconds += verdict.miss.seconds
        found = list(groups.values())
        if sort == "seconds":
            found.sort(key=lambda group: group.seconds, reverse=True)
        elif sort == "count":
            found.sort(key=lambda group: len(group.verdicts), reverse=True)
        else:
            found.sort(key=lambda group: group.verdicts[0].miss.time)
        return found

    def _folds(self, verdict: Verdict, root: Miss) -> bool:
        # What follows from a loud root is not told twice; a quiet root hides nothing loud.
        if verdict.cause is Cause.EAGER_OP:
            return False
        return (
            verdict.cause is Cause.FIRST_TRACE
            or self.by_id[root.id].cause is not Cause.FIRST_TRACE
        )

    def _key(self, verdict: Verdict) -> tuple[object, ...]:
        miss = verdict.miss
        if verdict.cause is Cause.EAGER_OP:
            site = miss.call_site
            return (verdict.cause, *((site.file, site.line) if site else (miss.function.site,)))
        return (verdict.cause, miss.function.site, miss.derived)

    def unfinished(self) -> list[tuple[Run, Miss | None]]:
        """The processes that did not close their recording, each with what it was at."""
        at = {v.miss.run: v.miss for v in self.verdicts if v.miss.in_flight is not None}
        return [(run, at.get(run.id)) for run in self.recording.runs if not run.complete]

    def losses(self) -> Counter[str]:
        """What could not be recorded or read, by reason."""
        lost: Counter[str] = Counter()
        for run in self.recording.runs:
            lost.update(run.losses)
        return lost

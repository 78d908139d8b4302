"""What every presenter asks about a recording: labels, places, and how misses are nested."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from retrace.causes import Cause
from retrace.model import Callback, Function, Miss, Recording, Run, Verdict
from retrace.present import words
from retrace.reason.dispatch import slow_dispatch
from retrace.runs import ended

if TYPE_CHECKING:
    from retrace.present.hosts import DivergenceReport
    from retrace.reason.stale import Audited


class View:
    """A recording and the verdicts on it, ready to be shown.

    Args:
        recording: the whole recording, because labels count all misses of a function.
        verdicts: the verdicts, in the order of the recording.
        here: the reader's directory; places below it are written relative to it.
    """

    def __init__(self, recording: Recording, verdicts: Iterable[Verdict], here: str = "") -> None:
        self.recording = recording
        self.verdicts: list[Verdict] = []
        self.by_id: dict[str, Verdict] = {}
        self.number: dict[str, int] = {}
        """Position of each miss among those of its function, from 1."""
        self.own: dict[str, float] = {}
        """Seconds of each miss, excluding misses nested in it."""
        self.missed: dict[str, None] = {}
        """The processes that had misses."""
        self.hosts: DivergenceReport | None = None
        """Differences between processes of one job; None if no job has two."""
        self._runs: dict[str, Run] = {}
        self.bases = (here, "")
        self._folders: set[str] = set()
        """The base folders of the user's own files."""
        self._named: dict[str, dict[tuple[str, str], int]] = {}
        """The number of misses of each process and definition site under a name."""
        self._written: dict[str, tuple[object, ...]] = {}
        """What a label can add to the name of each definition site."""
        self._processes: tuple[object, dict[str, tuple[str, ...]]] = None, {}
        """The names of processes, and how many there were when they were named."""
        self._audited: Audited | None = None
        self.add(verdicts)

    def add(self, verdicts: Iterable[Verdict]) -> None:
        """Add all misses of processes that are among the runs of the recording."""
        verdicts = list(verdicts)
        self.verdicts += verdicts
        self.count(verdict.miss for verdict in verdicts)
        for verdict in verdicts:
            self.by_id[verdict.miss.id] = verdict
            self.own[verdict.miss.id] = verdict.miss.seconds
        for verdict in verdicts:
            outer = self.enclosing(verdict.miss)
            if outer is not None:
                self.own[outer.id] = max(0.0, self.own[outer.id] - verdict.miss.seconds)

    def count(self, misses: Iterable[Miss]) -> None:
        """Count the misses of processes for labels, which need no verdicts."""
        seen: Counter[tuple[str, str]] = Counter()
        called: set[str] = set()
        for miss in misses:
            origin = miss.run, miss.function.site
            seen[origin] += 1
            self.number[miss.id] = seen[origin]
            self.missed[miss.run] = None
            self._named.setdefault(words.name(miss.function), {})[origin] = seen[origin]
            if miss.function.site not in self._written:
                function = miss.function
                at = function.file, function.line, function.around, function.wrappers[:1]
                self._written[function.site] = at
            if (site := miss.call_site) is not None and not site.in_library:
                called.add(site.file)
        self._folders |= {os.path.dirname(file) for file in called if os.path.isabs(file)}
        self.bases = (self.bases[0], os.path.commonpath(self._folders) if self._folders else "")

    def conclude(self, found: Audited | None) -> None:
        """Add what the audits of one process found, for a recording read in parts."""
        from retrace.reason.stale import together

        self._audited = together(self._audited, found)

    @property
    def audited(self) -> Audited | None:
        """What all audits found, or None if there were none."""
        if self._audited is not None or not self.recording.audits:
            return self._audited
        from retrace.reason.stale import audited

        return audited(self.recording)

    def forget(self, but: Iterable[Verdict]) -> None:
        """Drop all misses but these, and everything about them.

        Labels still count all misses; unfinished processes and slow misses are still reported.
        """
        kept: dict[str, Verdict] = {}
        numbers: dict[str, int] = {}
        flying = (
            verdict
            for verdict in self.verdicts
            if verdict.miss.in_flight is not None or _is_observed(verdict.miss)
        )
        for verdict in (*but, *flying):
            kept[verdict.miss.id] = verdict
            nearest = verdict.nearest
            for named in (verdict.miss.id, nearest and nearest.id, verdict.follows):
                if named in self.number:
                    numbers[named] = self.number[named]
            if verdict.follows in self.by_id:
                kept[verdict.follows] = self.by_id[verdict.follows]
        self.verdicts, self.by_id, self.number = list(kept.values()), kept, numbers
        self.own = {name: self.own[name] for name in kept}

    def count_as(self, numbers: Mapping[str, int]) -> None:
        """Number misses as among all of their function, if only some are here."""
        for name, number in numbers.items():
            miss = self.by_id[name].miss
            self.number[name] = number
            known = self._named[words.name(miss.function)]
            origin = miss.run, miss.function.site
            known[origin] = max(known[origin], number)

    def did(self, verdict: Verdict) -> str:
        """Which stages ran: `traced again`, or `traced` if nothing earlier is known."""
        first = verdict.cause is Cause.UNKNOWN and self.number[verdict.miss.id] == 1
        return words.did(verdict.miss, "" if first else "again")

    @property
    def names(self) -> Iterable[str]:
        """The names of all functions that missed."""
        return self._named.keys()

    def short_label(self, miss: Miss) -> str:
        """`train_step #3`."""
        return f"{words.name(miss.function)} #{self.number[miss.id]}"

    def label(self, miss: Miss) -> str:
        """`train_step #3`, with place and process if another miss has the same label."""
        label, number = self.short_label(miss), self.number[miss.id]
        origins = self._named[words.name(miss.function)]
        alike = [origin for origin, most in origins.items() if most >= number]
        if len(alike) == 1:
            return label
        texts: list[str] = []
        if len({site for _, site in alike}) > 1:
            texts.append(self.place(miss))
            texts += self.around(miss.function)
            # Two lambdas on one line differ only in the column.
            own = self._written.get(miss.function.site)
            same = dict.fromkeys(site for _, site in origins if self._written.get(site) == own)
            if len(same) > 1:
                texts.append(f"{words.ordinal(list(same).index(miss.function.site) + 1)} there")
        if len({run for run, _ in alike}) > 1:
            texts += self.process(miss.run)
        return f"{label} ({', '.join(texts)})"

    def around(self, function: Function, mark: str = "") -> tuple[str, ...]:
        """`around actor`, if one decorator created several functions with the same name."""
        if function.wrappers and function.site.startswith(f"{function.wrappers[0]} of "):
            return (f"by {mark}{words.clean(function.wrappers[0])}{mark}",)
        written = _written(function.site)
        sites = {site for _, site in self._named.get(words.name(function), ())}
        if not function.around or sum(_written(site) == written for site in sites) < 2:
            return ()
        held = [f"{mark}{words.clean(one, 48)}{mark}" for one in function.around]
        return (f"around {words.listed(held, 2)}",)

    def earlier(self, nearest: Miss, miss: Miss) -> str:
        """The label of the closest miss; short if its place is that of the given miss."""
        if nearest.run == miss.run and nearest.function.site == miss.function.site:
            return self.short_label(nearest)
        return self.label(nearest)

    def place(self, miss: Miss) -> str:
        """Where its function is defined."""
        function = miss.function
        if function.file is None:
            return self.called_from(miss) or self._unplaced(miss)
        return words.place(function.file, function.line, self.bases)

    def called_from(self, miss: Miss) -> str | None:
        """The line that called it."""
        return words.called_from(miss.call_site, self.bases)

    def caused_at(self, miss: Miss) -> str:
        """The user's line that an eager operation comes from, past libraries in between."""
        return words.called_from(miss.entry or miss.call_site, self.bases) or self._unplaced(miss)

    def _unplaced(self, miss: Miss) -> str:
        """The place of something without a line: logs omit most, and others are JAX's own."""
        run = self._run(miss)
        return "not in the log" if run is not None and run.source == "log" else "inside jax"

    def _run(self, miss: Miss) -> Run | None:
        if len(self._runs) != len(self.recording.runs):
            self._runs = {run.id: run for run in self.recording.runs}
        return self._runs.get(miss.run)

    def process(self, run: str) -> tuple[str, ...]:
        """A process among several, in words: `process 1`.

        Processes on one host may all have index 0: these are distinguished by pid, and by their
        script (`child.py`, `process 14658`) if that differs as well.
        """
        state = len(self.recording.runs), len(self.missed)
        if self._processes[0] != state:
            self._processes = state, _processes(self.recording.runs, self.missed)
        return self._processes[1].get(run) or (f"process {run}",)

    def find(self, text: str) -> list[Verdict]:
        """The misses that match an id, a label, or the start of either; best match only."""
        if text.strip() in self.by_id:
            return [self.by_id[text.strip()]]
        found = self.meant(text, [verdict.miss for verdict in self.verdicts])
        return [self.by_id[miss.id] for miss in found]

    def meant(self, text: str, misses: Iterable[Miss]) -> list[Miss]:
        """Those of the misses that match an id, a label, or the start of either."""
        text, wanted = _wanted(text)
        matches: tuple[Callable[[Miss], bool], ...] = (
            lambda miss: miss.id == text,
            lambda miss: self.label(miss) == wanted,
            lambda miss: self.short_label(miss) == wanted,
            lambda miss: miss.id.startswith(text),
            lambda miss: self.short_label(miss).startswith(wanted),
        )
        misses = list(misses)
        for match in matches if text else ():
            if found := [miss for miss in misses if match(miss)]:
                return found
        return []

    def may_be_meant(self, text: str, miss: Miss) -> bool:
        """Whether a text could match it, whatever processes are still to come."""
        text, wanted = _wanted(text)
        label = self.short_label(miss)
        return bool(text) and (
            miss.id.startswith(text) or label.startswith(wanted) or wanted.startswith(label)
        )

    def enclosing(self, miss: Miss) -> Miss | None:
        """The miss whose seconds include it. A backward program runs after its parent."""
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

    def outward(self, miss: Miss) -> Iterator[Miss]:
        """The misses whose seconds include it, innermost first."""
        seen = {miss.id}
        while (outer := self.enclosing(miss)) is not None and outer.id not in seen:
            yield outer
            seen.add(outer.id)
            miss = outer

    def slow_dispatch(self, verdict: Verdict) -> tuple[Callback, ...]:
        """What makes each later call of the function slow."""
        return slow_dispatch(verdict, self._run(verdict.miss))

    def unfinished(self) -> list[tuple[Run, Miss | None]]:
        """The processes that did not close their recording, each with what it was doing."""
        return ended.unfinished(self.recording.runs, (v.miss for v in self.verdicts))

    def ended_idle(self) -> dict[int, list[Run]]:
        """Idle processes that their parent ended with a signal, by the parent's number."""
        return ended.ended_idle(self.recording.runs, (v.miss for v in self.verdicts))

    def losses(self) -> Counter[str]:
        """What could not be recorded or read, by reason."""
        lost: Counter[str] = Counter()
        for run in self.recording.runs:
            lost.update(run.losses)
        return lost


def _wanted(text: str) -> tuple[str, str]:
    """The search text as an id and as a label."""
    text = text.strip()
    return text, re.sub(r"\s*#\s*(?=\d+)", " #", text)


def _is_observed(miss: Miss) -> bool:
    """Whether it was recorded where its seconds went; a report shows the slowest of these."""
    slow = miss.slow
    return slow is not None and (slow.tracing is not None or slow.compiling is not None)


def _written(site: str) -> str:
    """The part of a definition site that locates the function's own code."""
    return site.partition(" around ")[0]


def _processes(runs: list[Run], missed: Container[str]) -> dict[str, tuple[str, ...]]:
    alike: dict[int, list[Run]] = {}
    for position, run in enumerate(runs):
        index = position if run.process_index is None else run.process_index
        alike.setdefault(index, []).append(run)
    names: dict[str, tuple[str, ...]] = {}
    for index, own in alike.items():
        # A launcher without misses takes no index away from a worker.
        if sum(run.id in missed for run in own) < 2:
            names.update((run.id, (f"process {index}",)) for run in own)
            continue
        hosts = {run.host for run in own}
        scripts = {words.script(run.argv) for run in own}
        same = Counter((run.pid, run.host) for run in own)
        for run in own:
            script = (words.script(run.argv),) if len(scripts) > 1 else ()
            host = f" on {words.clean(run.host, 24)}" if len(hosts) > 1 else ""
            again = (f"recording {run.id}",) if same[run.pid, run.host] > 1 else ()
            names[run.id] = (*script, f"process {run.pid}{host}", *again)
    return names

"""What a set of misses adds up to: calls, eager operations and seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from retrace.causes import Cause
from retrace.model import Run, Verdict
from retrace.plan.amount import Amount, Span, exactly
from retrace.reason.verdict import Site, site_of

_MIN_SHARE = 0.01
"""Fraction of all seconds that a change must save if it only avoids nested traces."""
_MIN_SECONDS = 0.05
"""Seconds that a change must save to be distinguishable from nothing."""
_SLOWDOWN = 1.25
"""A program this many times slower than a similar one may have run on a busy machine."""


def outermost(verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
    """The verdicts that are not nested in another one: nested misses go with the outer one."""
    every = {verdict.miss.id for verdict in verdicts}
    return [verdict for verdict in verdicts if verdict.miss.parent not in every] or verdicts


class Ledger:
    """Adds up the misses of all processes.

    Processes of one job that all do the same (`jax.distributed`) are not added up, because they
    run at the same time: counts are per process, and seconds are those of the slowest.
    """

    def __init__(self, runs: Sequence[Run], verdicts: Sequence[Verdict]) -> None:
        self.verdicts = {verdict.miss.id: verdict for verdict in verdicts}
        self._known: dict[frozenset[str], Amount] = {}
        self._own = {name: verdict.miss.seconds for name, verdict in self.verdicts.items()}
        for verdict in verdicts:
            miss = verdict.miss
            # A backward program runs after its parent, not in it.
            if miss.parent in self._own and miss.derived is None and miss.parent != miss.id:
                self._own[miss.parent] = max(0.0, self._own[miss.parent] - miss.seconds)
        self._least = _least_shares(verdicts)
        self._missed = list(dict.fromkeys(verdict.miss.run for verdict in verdicts))
        indices = [run.process_index for run in runs if run.id in self._missed]
        self.processes = len(self._missed)
        distinct = None not in indices and len(set(indices)) == len(indices)
        self.each = len(indices) > 1 and distinct
        spent_by = dict.fromkeys(self._missed, 0.0)
        for name, verdict in self.verdicts.items():
            spent_by[verdict.miss.run] += self._own[name]
        self._slowest = max(spent_by, key=spent_by.__getitem__, default="")
        now = self.amount(self.verdicts)
        self.now = now._replace(seconds=exactly(now.seconds.high))

    def seconds(self, names: Iterable[str]) -> float:
        """Total seconds of these misses; of one process only if all did the same."""
        return sum(self._own[name] for name in self._counted(names))

    def _counted(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if not self.each or self.verdicts[name].miss.run == self._slowest:
                yield name

    def _span_of_seconds(self, names: Sequence[str]) -> Span:
        """The measured seconds, and the least they would be on an idle machine."""
        low = sum(self._own[name] * self._least.get(name, 1.0) for name in self._counted(names))
        return Span(low, self.seconds(names))

    def amount(self, names: Iterable[str]) -> Amount:
        """What these misses add up to; one step is asked about several times."""
        names = list(names)
        asked = frozenset(names)
        if (known := self._known.get(asked)) is None:
            known = self._known[asked] = self._amount(names)
        return known

    def _amount(self, names: Sequence[str]) -> Amount:
        calls, eager = Counter[str](), Counter[str]()
        for name in names:
            verdict = self.verdicts[name]
            if verdict.miss.parent is None:
                kind = eager if verdict.cause is Cause.EAGER_OP else calls
                kind[verdict.miss.run] += 1
        return Amount(self._span(calls), self._span(eager), self._span_of_seconds(names))

    def is_worth(self, gone: Amount) -> bool:
        """Whether the saving is distinguishable from nothing. A saved call always is."""
        if gone.calls.high > 0:
            return True
        return gone.seconds.low >= max(_MIN_SECONDS, _MIN_SHARE * self.now.seconds.high)

    def _span(self, counted: Counter[str]) -> Span:
        if not self.each:
            return exactly(counted.total())
        numbers = [counted[run] for run in self._missed]
        return Span(min(numbers, default=0), max(numbers, default=0))


def _least_shares(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """The fraction of its seconds that a miss certainly takes, if less than 1.

    Whatever else ran at the time is part of what was measured. Other programs of the same
    function show how fast the machine can be: seconds per equation, for the same stages. Nested
    misses were measured at the same time, so the same fraction applies to them.
    """
    rates: dict[tuple[str, Site, tuple[str, ...]], list[tuple[str, float]]] = {}
    for verdict in verdicts:
        miss = verdict.miss
        program, stages = miss.program, tuple(str(stage) for stage in miss.stages)
        known = program is not None and program.equations and miss.raised is None
        if miss.parent is None and known and verdict.cause is not Cause.EAGER_OP:
            assert program is not None
            rate = miss.seconds / program.equations
            rates.setdefault((miss.run, site_of(miss), stages), []).append((miss.id, rate))
    found: dict[str, float] = {}
    for own in rates.values():
        least = min(rate for _, rate in own)
        found |= {name: least / rate for name, rate in own if rate > _SLOWDOWN * least}
    for verdict in sorted(verdicts, key=lambda verdict: verdict.miss.number):
        miss = verdict.miss
        if miss.parent in found and miss.derived is None:
            found[miss.id] = found[miss.parent]
    return found

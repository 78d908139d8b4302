"""What any set of misses comes to: calls, eager operations and seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from retrace.causes import Cause
from retrace.model import Run, Verdict
from retrace.plan.amount import Amount, Span, exactly
from retrace.reason.verdict import Site, site_of

_SMALL = 0.01
"""The share of all seconds below which to spare nested traces is not worth a change."""
_NOISE = 0.05
"""Seconds below which what is spared cannot be told from nothing."""
_VARIES = 1.25
"""So many times what a program of its size took elsewhere, the machine may have been busy."""


def outermost(verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
    """Those that are not inside another of them: what is nested goes with what is around it."""
    every = {verdict.miss.id for verdict in verdicts}
    return [verdict for verdict in verdicts if verdict.miss.parent not in every] or verdicts


class Ledger:
    """The misses of all processes, added up.

    Processes of one job that all do the same (`jax.distributed`) are not added: nobody waits for
    all of them in turn. Their counts are those of each, their seconds those of the slowest.
    """

    def __init__(self, runs: Sequence[Run], verdicts: Sequence[Verdict]) -> None:
        self.verdicts = {verdict.miss.id: verdict for verdict in verdicts}
        self._own = {name: verdict.miss.seconds for name, verdict in self.verdicts.items()}
        for verdict in verdicts:
            miss = verdict.miss
            # A backward program runs after its parent, not in it.
            if miss.parent in self._own and miss.derived is None and miss.parent != miss.id:
                self._own[miss.parent] = max(0.0, self._own[miss.parent] - miss.seconds)
        self._least = _least(verdicts)
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
        """Seconds of these misses, each counted once; of processes that did the same, of one."""
        return sum(self._own[name] for name in self._counted(names))

    def _counted(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if not self.each or self.verdicts[name].miss.run == self._slowest:
                yield name

    def _span_of_seconds(self, names: Sequence[str]) -> Span:
        """What was measured, and the least that it takes on a machine with nothing else to do."""
        low = sum(self._own[name] * self._least.get(name, 1.0) for name in self._counted(names))
        return Span(low, self.seconds(names))

    def amount(self, names: Iterable[str]) -> Amount:
        """What these misses come to."""
        names = list(names)
        calls, eager = Counter[str](), Counter[str]()
        for name in names:
            verdict = self.verdicts[name]
            if verdict.miss.parent is None:
                kind = eager if verdict.cause is Cause.EAGER_OP else calls
                kind[verdict.miss.run] += 1
        return Amount(self._span(calls), self._span(eager), self._span_of_seconds(names))

    def is_worth(self, gone: Amount) -> bool:
        """Whether what is gone can be told from nothing: a call always can."""
        if gone.calls.high > 0:
            return True
        return gone.seconds.low >= max(_NOISE, _SMALL * self.now.seconds.high)

    def _span(self, counted: Counter[str]) -> Span:
        if not self.each:
            return exactly(counted.total())
        numbers = [counted[run] for run in self._missed]
        return Span(min(numbers, default=0), max(numbers, default=0))


def _least(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """The share of its seconds that a miss takes for certain, where that is not all of them.

    What was measured holds whatever ran beside it. Another program of the same function tells
    how quick this machine can be: seconds for each equation, of those that ran the same stages.
    What is nested in a miss was measured at the same time, and has the same share.
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
        found |= {name: least / rate for name, rate in own if rate > _VARIES * least}
    for verdict in sorted(verdicts, key=lambda verdict: verdict.miss.number):
        miss = verdict.miss
        if miss.parent in found and miss.derived is None:
            found[miss.id] = found[miss.parent]
    return found

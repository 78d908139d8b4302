"""What any set of misses comes to: calls, eager operations and seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from retrace.causes import Cause
from retrace.model import Run, Verdict
from retrace.plan.amount import Amount, Span, exactly

_SMALL = 0.01
"""The share of all seconds below which to spare nested traces is not worth a change."""
_NOISE = 0.05
"""Seconds below which what is spared cannot be told from nothing."""


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
        self._missed = list(dict.fromkeys(verdict.miss.run for verdict in verdicts))
        indices = [run.process_index for run in runs if run.id in self._missed]
        self.processes = len(self._missed)
        distinct = None not in indices and len(set(indices)) == len(indices)
        self.each = len(indices) > 1 and distinct
        spent_by = dict.fromkeys(self._missed, 0.0)
        for name, verdict in self.verdicts.items():
            spent_by[verdict.miss.run] += self._own[name]
        self._slowest = max(spent_by, key=spent_by.__getitem__, default="")
        self.now = self.amount(self.verdicts)

    def seconds(self, names: Iterable[str]) -> float:
        """Seconds of these misses, each counted once; of processes that did the same, of one."""
        return sum(
            self._own[name]
            for name in names
            if not self.each or self.verdicts[name].miss.run == self._slowest
        )

    def amount(self, names: Iterable[str]) -> Amount:
        """What these misses come to."""
        names = list(names)
        calls, eager = Counter[str](), Counter[str]()
        for name in names:
            verdict = self.verdicts[name]
            if verdict.miss.parent is None:
                kind = eager if verdict.cause is Cause.EAGER_OP else calls
                kind[verdict.miss.run] += 1
        return Amount(self._span(calls), self._span(eager), exactly(self.seconds(names)))

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

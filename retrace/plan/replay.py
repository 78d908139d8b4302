"""Recorded keys replayed in order under some fixes: which misses would not have been.

A key that an earlier miss left an entry for is served, and so are the misses inside it. First
programs stay. What was recorded is the truth for no fix at all: a miss that no fix touches is
still a miss, whatever its key.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from retrace.model import Verdict
from retrace.plan.history import History

Mapped: TypeAlias = tuple[int, ...]
"""For each value of a column the value that it has under a fix."""

Edits: TypeAlias = Mapping[int, Mapped]
"""What a fix makes of the columns of one history."""


class Replay:
    """What is gone under any set of edits; what was found once is kept."""

    def __init__(self, histories: list[History], verdicts: Iterable[Verdict]) -> None:
        self.histories = histories
        self._known: dict[tuple[int, Hashable], frozenset[str]] = {}
        self._without = [self._served(history, {}) for history in histories]
        self._inside: dict[str, list[str]] = {}
        for verdict in verdicts:
            miss = verdict.miss
            for outer in {miss.parent, verdict.follows} - {None, miss.id}:
                self._inside.setdefault(str(outer), []).append(miss.id)

    def served(self, index: int, edits: Edits) -> frozenset[str]:
        """The misses of one history that the edits of its columns take away."""
        key = index, tuple(sorted(edits.items()))
        if (known := self._known.get(key)) is None:
            found = self._served(self.histories[index], edits) - self._without[index]
            known = self._known[key] = frozenset(found)
        return known

    def with_inner(self, served: Iterable[str], gone: set[str]) -> set[str]:
        """Those of `served` that are not gone yet, with all that lies in or follows them."""
        found: set[str] = set()
        waiting = list(served)
        while waiting:
            name = waiting.pop()
            if name in gone or name in found:
                continue
            found.add(name)
            waiting += self._inside.get(name, ())
        return found

    def _served(self, history: History, edits: Edits) -> set[str]:
        columns = [
            (column.values, edits.get(index)) for index, column in enumerate(history.columns)
        ]
        seen: set[Hashable] = set()
        nested: set[Hashable] = set()
        found: set[str] = set()
        for row, verdict in enumerate(history.rows):
            key = tuple(
                [
                    values[row] if mapped is None else mapped[values[row]]
                    for values, mapped in columns
                ]
            )
            miss = verdict.miss
            if key in seen or (miss.nested and key in nested):
                found.add(miss.id)
            elif miss.raised is None:
                (nested if miss.nested else seen).add(key)
        return found

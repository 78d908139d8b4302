"""Replays recorded keys in order under some fixes, to see which misses would not have happened.

A key is served if an earlier miss left an entry for it, and so are the misses nested in it. First
programs remain. The recording is the truth when there is no fix: a miss that no fix touches is
still a miss, whatever its key.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from retrace.model import Verdict
from retrace.plan.history import History

Mapped: TypeAlias = tuple[int, ...]
"""For each value of a column, its value under a fix."""

Edits: TypeAlias = Mapping[int, Mapped]
"""The mapped values of each changed column of a history."""


class Replay:
    """Finds the misses that are gone under a set of edits; results are cached."""

    def __init__(self, histories: list[History], verdicts: Iterable[Verdict]) -> None:
        self.histories = histories
        self._known: dict[tuple[int, Hashable], frozenset[str]] = {}
        self._without = [self._served(history, {}) for history in histories]
        self._inside: dict[str, list[str]] = {}
        verdicts = tuple(verdicts)
        nested = {verdict.miss.id for verdict in verdicts if verdict.miss.parent is not None}
        for verdict in verdicts:
            miss = verdict.miss
            # A call that was served the trace made inside another call still compiles by itself.
            follows = (
                None if miss.parent is None and verdict.follows in nested else verdict.follows
            )
            for outer in {miss.parent, follows} - {None, miss.id}:
                self._inside.setdefault(str(outer), []).append(miss.id)

    def served(self, index: int, edits: Edits) -> frozenset[str]:
        """The misses of a history that are gone under these edits."""
        key = index, tuple(sorted(edits.items()))
        if (known := self._known.get(key)) is None:
            found = self._served(self.histories[index], edits) - self._without[index]
            known = self._known[key] = frozenset(found)
        return known

    def with_inner(self, served: Iterable[str], gone: set[str]) -> set[str]:
        """The `served` misses that are not gone yet, plus those nested in or following them."""
        if not self._inside:
            return {*served} - gone
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

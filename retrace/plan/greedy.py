"""The order of the steps: always take the change that saves most of the remaining seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from retrace.model import ShapeChange, Verdict, WeakTypeChange
from retrace.model.parts import OF_ARGUMENTS
from retrace.model.row import Row
from retrace.plan.candidate import Candidate
from retrace.plan.history import History
from retrace.plan.ledger import Ledger
from retrace.plan.replay import Mapped, Replay
from retrace.reason.evidence import is_another_function

Cells: TypeAlias = dict[tuple[int, int], Mapped]
Members: TypeAlias = tuple[Candidate, ...]
"""The changes of one step."""


class Choice(Row):
    """One step: the changes it makes and the misses they remove."""

    members: tuple[Candidate, ...]
    gone: frozenset[str]
    """At best, after the previous steps."""
    certain: frozenset[str]
    """For certain, after the previous steps."""
    alone: frozenset[str]
    alone_certain: frozenset[str]


def at_best(candidate: Candidate) -> Cells:
    """The candidate's edits at best."""
    return candidate.at


def for_certain(candidate: Candidate) -> Cells:
    """The candidate's edits that are certain."""
    return candidate.certain


class Edited:
    """The program after all steps so far, and the misses it avoids."""

    def __init__(self, replay: Replay, edits: Callable[[Candidate], Cells]) -> None:
        self._replay, self._edits_of = replay, edits
        self.edits: dict[int, dict[int, Mapped]] = {}
        self.gone: set[str] = set()

    def more(self, members: Iterable[Candidate]) -> set[str]:
        """The additional misses that these changes would remove."""
        edits: dict[int, dict[int, Mapped]] = {}
        for member in members:
            for (index, column), mapped in self._edits_of(member).items():
                if index not in edits:
                    edits[index] = dict(self.edits.get(index, {}))
                edits[index][column] = mapped
        served: list[str] = []
        for index, own in edits.items():
            served += self._replay.served(index, own)
        return self._replay.with_inner(served, self.gone)

    def take(self, members: Iterable[Candidate]) -> frozenset[str]:
        """Apply the changes; return the additional misses they remove."""
        members = tuple(members)
        found = self.more(members)
        for member in members:
            for (index, column), mapped in self._edits_of(member).items():
                self.edits.setdefault(index, {})[column] = mapped
        self.gone |= found
        return frozenset(found)


class Greedy:
    """Repeatedly takes the change that saves most."""

    def __init__(self, replay: Replay, ledger: Ledger, found: list[Candidate]) -> None:
        self._replay, self._ledger = replay, ledger
        self._left: list[Candidate] = found
        self._begin()

    def _begin(self) -> None:
        self._best = Edited(self._replay, at_best)
        self._certain = Edited(self._replay, for_certain)
        self._saved: dict[int, tuple[bool, float]] = {}
        self._found: dict[int, set[str]] = {}

    def choices(self) -> Iterator[Choice]:
        """The steps in order."""
        left = list(self._steps())
        self._begin()
        # A step of several changes is only found after the others, and may save most.
        while left:
            members = max(left, key=self._gain)
            if self._gain(members)[1] < 0:
                return
            left.remove(members)
            choice = Choice(
                members,
                self._best.take(members),
                self._certain.take(members),
                Edited(self._replay, at_best).take(members),
                Edited(self._replay, for_certain).take(members),
            )
            self._forget(members, choice.gone, left)
            yield choice

    def _steps(self) -> Iterator[Members]:
        """The changes of each step, in the order in which they are found."""
        left: list[Members] = [(one,) for one in self._left]
        while left:
            best = max(left, key=self._gain)
            members = best if self._gain(best)[1] >= 0 else self._together()
            if not members:
                return
            gone = self._best.take(members)
            self._left = [one for one in self._left if one not in members]
            left = [step for step in left if step[0] not in members]
            self._forget(members, gone, left)
            yield members

    def _forget(self, members: Members, gone: frozenset[str], left: Iterable[Members]) -> None:
        """Forget savings that the step may have changed: nothing is saved twice."""
        touched = {index for member in members for index, _ in member.at}
        for step in left:
            found = self._found.get(id(step), set[str]())
            if not gone.isdisjoint(found) or any(i in touched for m in step for i, _ in m.at):
                self._saved.pop(id(step), None)

    def _gain(self, members: Members) -> tuple[bool, float]:
        """Whether the step is worthwhile now, and the seconds it saves; -1 if none."""
        if (known := self._saved.get(id(members))) is None:
            found = self._found[id(members)] = self._best.more(members)
            known = (False, -1.0)
            if found:
                amount = self._ledger.amount(found)
                known = self._ledger.is_worth(amount), amount.seconds.high
            self._saved[id(members)] = known
        return known

    def _together(self) -> tuple[Candidate, ...]:
        """Changes that only remove misses together, not alone."""
        best: tuple[Candidate, ...] = ()
        most = -1.0
        tried: set[tuple[int, ...]] = set()
        for index, history in enumerate(self._replay.histories):
            numbers = {number: one for one in self._left for at, number in one.at if at == index}
            for members in self._needed(index, history, numbers) if len(numbers) > 1 else ():
                if (key := tuple(map(id, members))) in tried:
                    continue
                tried.add(key)
                found = self._best.more(members)
                if found and (spent := self._ledger.seconds(found)) > most:
                    best, most = members, spent
        return best

    def _needed(
        self, index: int, history: History, numbers: dict[int, Candidate]
    ) -> Iterator[tuple[Candidate, ...]]:
        """For each remaining miss, the changes that would have made its key an earlier one."""
        rows = {verdict.miss.id: row for row, verdict in enumerate(history.rows)}
        done = self._best.edits.get(index, {})
        for row, verdict in enumerate(history.rows):
            near = verdict.nearest
            if near is None or near.id not in rows or verdict.miss.id in self._best.gone:
                continue
            before = rows[near.id]
            differing = [
                number
                for number, column in enumerate(history.columns)
                if column.values[row] != column.values[before] and number not in done
            ]
            if len(differing) < 2 or any(number not in numbers for number in differing):
                continue
            members = tuple(dict.fromkeys(numbers[number] for number in differing))
            if not _is_another_program(verdict, members):
                yield members


def _is_another_program(verdict: Verdict, members: Members) -> bool:
    """Whether another function, or the same over other structures, makes another program.

    Then no change makes one program of the two: both are needed.
    """
    if verdict.program is None or verdict.program.kind != "different":
        return False
    families = {member.family for member in members}
    if _starts_as_number(verdict):
        families.discard("rank")  # which an array from the start makes one program
    return any(map(is_another_function, verdict.changes)) or not (
        families.isdisjoint(_FUNCTIONS) or families.isdisjoint(_STRUCTURES)
    )


def _starts_as_number(verdict: Verdict) -> bool:
    """Whether each array with another number of axes was a Python number before."""
    weak = {change.path for change in verdict.changes if isinstance(change, WeakTypeChange)}
    shapes = [change for change in verdict.changes if isinstance(change, ShapeChange)]
    return all(not change.old and change.path in weak for change in shapes)


_FUNCTIONS = frozenset(("function", "bodies", *OF_ARGUMENTS))
_STRUCTURES = frozenset(("tree", "rank"))

"""Whether the applied steps of a plan saved what they promised."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from retrace.causes import Cause
from retrace.errors import UsageError
from retrace.model import Run, Verdict
from retrace.model.advice import JitBlock, JitInit
from retrace.model.parts import passed
from retrace.plan.amount import Amount
from retrace.plan.order import plan
from retrace.plan.step import Plan, Step
from retrace.runs.difference import Difference
from retrace.runs.ended import cut_short
from retrace.runs.functions import Group
from retrace.runs.sides import Side

_STEPS = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_SLOWER = 1.2
"""Factor by which compiling one program varies from run to run."""
_NOISE = 1.0
"""Seconds that are no reason to change anything again."""
_MAKES_ARRAYS = ("convert_element_type", "stage")
"""The operations that make an array of a value. A step that asks to pass one adds them."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What was promised, and what came of it."""

    numbers: tuple[int, ...]
    """The numbers of the steps, starting at 1."""
    steps: tuple[Step, ...]
    before: Amount
    promised: Amount
    """What the plan says is left."""
    actual: Amount
    """What the new recording contains."""
    gone: tuple[str, ...]
    """Misses of the steps that are gone, or are now nested."""
    still: tuple[str, ...]
    """Misses of the steps that are still there."""
    varying: tuple[tuple[str, str], ...]
    """What the steps make the same and is not the same yet: a part of the key, and its path."""
    settled: bool
    """Whether the steps are only about what can be seen to be the same, as a dtype can."""
    new: tuple[Verdict, ...]
    """Outermost misses that are not in the old recording."""
    cut: tuple[tuple[Run, str | None], ...]
    """Processes that were cut short in the new recording but not in the old one, each with the
    exception that ended it."""
    both_cut: bool
    """Whether both recordings were cut short: only what they did by then is compared."""
    as_often: bool
    """Whether each function of these misses that a call runs misses as often as before."""
    jitted: int
    """The number of functions that the steps jit for the first time."""
    programs: tuple[Verdict, ...]
    """The misses of these functions in the new recording, each with a program."""
    removed: float
    """Seconds that the misses which are gone took."""
    conversions: int
    """New operations that only make arrays of values which the steps ask to pass as such."""

    @property
    def added(self) -> float:
        """Seconds that the programs of newly jitted functions take."""
        return sum(verdict.miss.seconds for verdict in self.programs)

    @property
    def is_slower(self) -> bool:
        """Whether those take clearly longer than all that they replace, as unrolled loops do."""
        return self.added > self.removed * _SLOWER + _NOISE

    @property
    def is_unchanged(self) -> bool:
        """Whether every miss that the steps should remove is still there.

        Also with another key: a function misses as often if only one of two things that differed
        does no longer. Of calls that differed in one thing, any may be the one that is left.
        """
        is_there = bool(self.still) and not self.gone and not self.settled
        return self.as_often or bool(self.varying) or is_there

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was promised, as for a step that saves something after another one."""
        return self.promised == self.before

    @property
    def came_true(self) -> bool:
        """Whether no more is left than promised, nothing new misses, and it takes no longer.

        The promise may be a range that starts at zero, but a program in which nothing changed
        does not fulfil it.
        """
        calls, eager = (promised.high for promised in self.promised[:2])
        return (
            not (self.new or self.cut or self.is_unchanged or self.is_slower)
            # One for each shape, and one for a gradient, but not one for each operation.
            and len(self.programs) <= max(self.jitted, len(self.gone) // 2)
            and self.actual.calls.low <= calls + len(self.programs)
            and self.actual.eager.low <= eager + self.conversions
        )


def expected(found: Difference, text: str) -> Expected:
    """Compare the new recording with the plan made from the old one.

    Args:
        found: the comparison of the two recordings.
        text: which steps were applied: `2` or `1-3`.

    Raises:
        UsageError: there are no such steps.
    """
    before, after = (_plan(side) for side in (found.old, found.new))
    numbers = _numbers(text, before)
    steps = tuple(before.steps[number - 1] for number in numbers)
    promised = _left(before, numbers)
    meant = [name for step in steps for name in step.misses]
    # A miss with an equal one in the new recording was not removed.
    there = {pair.old.miss.id for pair in found.pairs if not pair.is_changed}
    # A function that runs operations one by one has no advice of a single miss.
    jitted = sum(_jits(step) for step in steps)
    unexpected, programs = _unexpected(found, jitted)
    arrays = _conversions(steps, unexpected)
    was_cut, cut = bool(cut_short(found.old.recording)), cut_short(found.new.recording)
    gone = tuple(name for name in meant if name not in there)
    taken = {verdict.miss.id: verdict.miss.seconds for verdict in found.old.verdicts}
    return Expected(
        numbers,
        steps,
        before.now,
        promised,
        after.now,
        gone,
        tuple(name for name in meant if name in there),
        _varying(found, steps),
        all(one.family in _SEEN for step in steps for one in step.proposal.changes),
        tuple(one for one in unexpected if one not in arrays),
        () if was_cut else tuple(cut),
        was_cut and bool(cut),
        _as_often(found, frozenset(meant)),
        jitted,
        tuple(programs),
        sum(taken[name] for name in gone),
        len(arrays),
    )


_SEEN = ("dtype", "sharding", "weak_type")
"""What a step makes the same at every call."""


def _varying(found: Difference, steps: Sequence[Step]) -> tuple[tuple[str, str], ...]:
    wanted = {
        (name, change.family, path): (change.family, path)
        for step in steps
        for name in step.functions
        for change in step.proposal.changes
        if change.family in _SEEN
        for path in change.paths
    }
    seen = [
        wanted.get((verdict.miss.function.name, change.component.value, str(change.path)))
        for verdict in found.new.verdicts
        if verdict.miss.parent is None
        for change in verdict.changes
    ]
    return tuple(dict.fromkeys(one for one in seen if one is not None))


def _as_often(found: Difference, meant: frozenset[str]) -> bool:
    both = {pair.old.function.site: pair for pair in found.functions.both}
    sites = {
        verdict.miss.function.site
        for verdict in found.old.verdicts
        if verdict.miss.id in meant and verdict.miss.parent is None
    }
    return bool(sites) and all(
        site in both and _calls(both[site].new) >= _calls(both[site].old) for site in sites
    )


def _calls(group: Group) -> int:
    return sum(verdict.miss.parent is None for verdict in group.verdicts)


def _conversions(steps: Sequence[Step], added: Sequence[Verdict]) -> list[Verdict]:
    """New operations that make arrays, no more than there are values to make arrays of."""
    changes = [change for step in steps for change in step.proposal.changes]
    own = [change for change in changes if not change.family.startswith("eager")]
    most = sum(max(1, len(change.paths), len(change.held)) for change in own)
    found = [
        one
        for one in added
        if one.cause is Cause.EAGER_OP and one.miss.function.jax_name in _MAKES_ARRAYS
    ]
    return found[:most]


def _jits(step: Step) -> bool:
    """Whether the step jits something for the first time: operations, or a library's loop."""
    by_code = step.proposal.code in (JitInit.code, JitBlock.code)
    return by_code or any(change.family == "eager" for change in step.proposal.changes)


def _operation(verdict: Verdict) -> tuple[object, ...]:
    key = verdict.miss.key
    static = tuple((name, value.text) for name, value in passed(key))
    return verdict.miss.function.name, key.leaves, static


def _plan(side: Side) -> Plan:
    return plan(side.recording, side.verdicts)


def _numbers(text: str, found: Plan) -> tuple[int, ...]:
    parts = _STEPS.fullmatch(text.strip())
    if parts is None:
        raise UsageError(f"--expect {text}: name one step (2) or the first few (1-3)")
    first, last = int(parts[1]), int(parts[2] or parts[1])
    if first not in (1, last):
        raise UsageError(f"--expect {text}: a range starts at the first step: 1-{last}")
    if not 1 <= first <= last <= len(found.steps):
        many = len(found.steps)
        said = f"the plan of A has {many} step{'' if many == 1 else 's'}"
        raise UsageError(f"--expect {text}: {said}; `retrace plan` lists them")
    return tuple(range(first, last + 1))


def _left(found: Plan, numbers: Sequence[int]) -> Amount:
    """What is left once these steps are done."""
    last = found.steps[numbers[-1] - 1]
    if len(numbers) == 1:
        return found.now.minus(last.alone)
    # `left` ignores steps that are not worthwhile; if one was done anyway, less is left.
    done = found.now
    for number in numbers:
        done = done.minus(found.steps[number - 1].gone)
    return done.hull(last.left)


def _unexpected(found: Difference, jitted: int) -> tuple[list[Verdict], list[Verdict]]:
    """Outermost misses without a counterpart, not counting functions that replace an old one.

    Functions that the steps jit are traced for the first time; their misses are returned as
    well. An operation that several lines ran is compiled for the next of them once
    the first no longer runs it.
    """
    strangers = {group.function.site for group in found.functions.new}
    firsts = [
        one.miss.function.site
        for one in found.added
        if one.cause is Cause.FIRST_TRACE and one.miss.parent is None
    ]
    # A function that was known before is one that the steps change.
    sites = [site for site in dict.fromkeys(firsts) if site in strangers] or firsts
    made = frozenset(sites[:jitted])
    programs: list[Verdict] = []
    eager = Cause.EAGER_OP
    moved = Counter(_operation(v) for v in found.gone if v.cause is eager)
    added: list[Verdict] = []
    for one in found.added:
        if one.miss.function.site in made and one.cause is not eager:
            programs += [one] if one.miss.parent is None else []
        elif one.cause is eager and moved[_operation(one)]:
            moved[_operation(one)] -= 1
        elif one.miss.parent is None:
            added.append(one)
    replaced = {
        kind: sum(
            1
            for group in found.functions.gone
            if any(v.miss.parent is None and (v.cause is eager) == kind for v in group.verdicts)
        )
        for kind in (False, True)
    }
    unexpected: list[Verdict] = []
    for one in added:
        kind = one.cause is eager
        if one.miss.function.site in strangers and replaced[kind] > 0:
            replaced[kind] -= 1
        else:
            unexpected.append(one)
    return unexpected, programs

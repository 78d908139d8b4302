"""The plan: what each step removes after the previous steps, and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrace.causes import Cause
from retrace.model import FieldChange, Recording, Verdict
from retrace.model.advice import FewMapped, Sure
from retrace.model.parts import OF_ARGUMENTS, OF_CONTEXT, OF_OPTIONS
from retrace.model.row import Row
from retrace.plan.advice import CAUSES, eager_proposal, proposal
from retrace.plan.amount import Amount
from retrace.plan.candidate import PASSED_BY_CALLER, candidates
from retrace.plan.data import Data
from retrace.plan.eager import roots
from retrace.plan.greedy import Choice, Greedy
from retrace.plan.history import table
from retrace.plan.joint import joined
from retrace.plan.ledger import Ledger, outermost
from retrace.plan.reach import Reach
from retrace.plan.replay import Replay
from retrace.plan.root import Root
from retrace.plan.step import Plan, Step
from retrace.plan.structures import with_branches
from retrace.plan.variables import size_candidates
from retrace.reason.held import is_in
from retrace.reason.precedence import cause_of_function
from retrace.reason.traits import looks_equal, looks_the_same
from retrace.reason.verdict import Site, site_of


def plan(recording: Recording, verdicts: Sequence[Verdict], data: Data | None = None) -> Plan:
    """What to change first, and what is left afterwards.

    Args:
        recording: the recording to plan for.
        verdicts: the verdict on each miss.
        data: how often each size is called, if known.
    """
    rows: dict[tuple[str, Site], list[Verdict]] = {}
    for verdict in sorted(verdicts, key=lambda verdict: verdict.miss.number):
        rows.setdefault((verdict.miss.run, site_of(verdict.miss)), []).append(verdict)
    histories = [table(run, own) for (run, _), own in rows.items() if len(own) > 1]
    for history in histories:
        history.columns = with_branches(history, history.columns)
    for history in histories:
        joined(history)
    replay = Replay(histories, verdicts)
    ledger = Ledger(recording.runs, verdicts)
    found = [
        *candidates(histories, recording.listings),
        *size_candidates(histories, recording.listings, data or Data()),
    ]
    reach = Reach(histories, ledger.verdicts)
    steps = [_step(choice, ledger, reach) for choice in Greedy(replay, ledger, found).choices()]
    gone = {name for draft in steps for name in draft.step.misses}
    for root in roots(verdicts, recording.listings):
        if (draft := _eager_step(root, ledger, gone)) is not None:
            _insert(steps, draft)
    return _added_up(steps, ledger)


class _Draft(Row):
    """A step before it is known what is left after it."""

    step: Step
    certain: frozenset[str]
    """The misses that it certainly removes, after the previous steps."""


def _step(choice: Choice, ledger: Ledger, reach: Reach) -> _Draft:
    names = sorted(choice.gone, key=lambda name: ledger.verdicts[name].miss.number)
    about = reach.own(choice.members, names)
    functions, causes = _functions_and_causes(about, ledger, choice)
    gone = ledger.amount(choice.gone).hull(ledger.amount(choice.certain))
    proposed = proposal(choice.members, about, reach)
    # No miss shows what this part of the key alone does to the program.
    advice = proposed.advice
    is_unsaid = advice is None and choice.members[0].family in _MAY_BE_MEANT
    is_asked = is_unsaid or proposed.takers or (advice is not None and advice.makers)
    step = Step(
        misses=tuple(names),
        functions=functions,
        causes=causes,
        proposal=proposed,
        gone=gone,
        alone=ledger.amount(choice.alone).hull(ledger.amount(choice.alone_certain)),
        left=Amount(),
        sure="ask" if is_asked else _how_sure(choice, about, ledger, reach),
        worth=ledger.is_worth(gone),
    )
    return _Draft(step, choice.certain)


_MAY_BE_MEANT = ("tree", "dtype", "weak_type", "signature")
"""Families of which each value may be meant, with a program of its own."""


def _eager_step(root: Root, ledger: Ledger, gone: set[str]) -> _Draft | None:
    names = [v.miss.id for v in root.verdicts if v.miss.id not in gone]
    if not names:
        return None
    certain = [v.miss.id for v in root.certain if v.miss.id not in gone]
    if root.certain and not certain and root.worth:
        return None  # what made it worthwhile has gone with an earlier step
    functions, causes = _functions_and_causes(names, ledger)
    spared = ledger.amount(names).hull(ledger.amount(certain))
    step = Step(
        misses=tuple(names),
        functions=functions,
        causes=causes,
        proposal=eager_proposal(root),
        gone=spared,
        alone=spared,
        left=Amount(),
        sure=root.sure,
        worth=root.worth or spared.calls.low > 0,
    )
    return _Draft(step, frozenset(certain))


def _insert(drafts: list[_Draft], draft: _Draft) -> None:
    """Insert a step by the seconds that it certainly saves, then by those that it may save.

    Steps that are not worthwhile come last, by those that they may save.

    The others keep their order.
    """
    for position, (other, _) in enumerate(drafts):
        if _rank(draft.step) > _rank(other):
            drafts.insert(position, draft)
            return
    drafts.append(draft)


def _rank(step: Step) -> tuple[bool, float, float]:
    # Of steps that may not be worthwhile, what is certain says little.
    certain = step.gone.seconds.low if step.worth else 0.0
    return step.worth, certain, step.gone.seconds.high


def _added_up(drafts: Sequence[_Draft], ledger: Ledger) -> Plan:
    """Add up what is left after each step; steps that are not worthwhile do not count.

    A later step may remove what an earlier one leaves, so the ranges of the steps cannot be
    subtracted. Instead, what is gone at best and what is certainly gone are added up per miss.
    """
    steps_done: list[Step] = []
    done, every = _Gone(), _Gone()
    for draft in drafts:
        every = every.plus(draft, ledger)
        if draft.step.worth:
            done = done.plus(draft, ledger)
        steps_done.append(draft.step.changed(left=ledger.now.minus(done.amount)))
    floor = ledger.now.minus(every.amount)
    return Plan(
        now=ledger.now,
        steps=tuple(steps_done),
        floor=floor,
        processes=ledger.processes,
        each=ledger.each,
    )


class _Gone(Row):
    """What several steps remove."""

    at_best: Amount = Amount()
    certain: Amount = Amount()

    def plus(self, draft: _Draft, ledger: Ledger) -> _Gone:
        return _Gone(
            self.at_best.plus(ledger.amount(draft.step.misses)),
            self.certain.plus(ledger.amount(draft.certain)),
        )

    @property
    def amount(self) -> Amount:
        return self.at_best.hull(self.certain)


def _functions_and_causes(
    names: Sequence[str], ledger: Ledger, choice: Choice | None = None
) -> tuple[tuple[str, ...], tuple[Cause, ...]]:
    verdicts = [ledger.verdicts[name] for name in names]
    own = outermost(verdicts)
    functions = dict.fromkeys(verdict.miss.function.name for verdict in own)
    causes = tuple(dict.fromkeys(verdict.cause for verdict in own))
    families = [] if choice is None else [member.family for member in choice.members]
    wanted = frozenset[Cause]().union(*(CAUSES.get(family, ()) for family in families))
    wanted_causes = tuple(c for c in causes if c in wanted)
    wanted_causes = (
        (*wanted_causes, *_hidden_causes(families, own, wanted_causes))
        if len(families) > 1 or wanted
        else wanted_causes
    )
    return tuple(functions), wanted_causes or causes


def _hidden_causes(
    families: Sequence[str], own: Sequence[Verdict], found_causes: tuple[Cause, ...]
) -> Iterator[Cause]:
    """The causes of changes that only remove a miss together and rank behind its own cause."""
    for family in families:
        away = CAUSES.get(family, frozenset[Cause]())
        if not away or not away.isdisjoint(found_causes):
            continue
        if family != "function":
            yield next(iter(away))
        elif (found := next((v for v in own if v.nearest is not None), None)) is not None:
            assert found.nearest is not None
            yield cause_of_function(found.nearest.function, found.miss.function)


_QUESTIONS = (
    *OF_OPTIONS,
    *OF_CONTEXT,
    *("code", "again", "state", "meta"),
)


def _is_about(verdict: Verdict, paths: Sequence[str]) -> bool:
    """Whether its advice is about these paths and nothing else."""
    advised = verdict.fix
    if advised is None or not advised.paths or advised.others:
        return False
    if set(paths).issuperset(advised.paths):  # the case for nearly every miss
        return True
    return all(is_in(path, paths) for path in advised.paths)


def _needs_more(verdict: Verdict) -> bool:
    """Whether Python values changed that its advice only names, and hold something else."""
    if verdict.fix is None or not verdict.fix.others:
        return False
    others = {path for path, _ in verdict.fix.others}
    return any(
        change.path in others
        and (change.component in OF_ARGUMENTS or isinstance(change, FieldChange))
        and not looks_the_same(change)
        and not looks_equal(change)
        for change in verdict.changes
    )


def _how_sure(choice: Choice, names: Sequence[str], ledger: Ledger, reach: Reach) -> Sure:
    """How sure it is that the step works, whatever the program means.

    If some of its misses have advice about this change, the others are judged by them: their
    other differences from the closest key also occur in an earlier one.
    """
    verdicts = [ledger.verdicts[name] for name in names]
    own = outermost(verdicts)
    paths = [path for member in choice.members for path in reach.paths(member) if path]
    own = [verdict for verdict in own if _is_about(verdict, paths)] or own
    worths = {verdict.avoidable for verdict in own}
    if all(m.family in PASSED_BY_CALLER for m in choice.members) and all(
        verdict.miss.function.in_library and verdict.miss.through is not None for verdict in own
    ):
        return "ask"  # the user may be unable to change what a library passes to itself
    asked = any(member.sure == "ask" for member in choice.members) or any(map(_needs_more, own))
    if worths == {"yes"} and not asked:
        return "clear"
    if asked:
        return "ask"
    if any(verdict.fix is not None and verdict.fix.sure == "ask" for verdict in own):
        return "ask"
    if any(m.family == "shape" for m in choice.members) and all(
        verdict.miss.function.in_library for verdict in own
    ):
        return "ask"  # either the library or the user splits the data for a library's step
    questions = [member.family for member in choice.members if member.family in _QUESTIONS]
    if all(isinstance(verdict.fix, FewMapped) for verdict in own):
        questions = [family for family in questions if family not in OF_CONTEXT]  # only a size
    if questions or worths == {"no"}:
        return "ask"
    return "likely"

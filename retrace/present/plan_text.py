"""The plan in words: a table for a terminal, and parts shared with other formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from retrace.plan.amount import Amount
from retrace.plan.step import Change, Plan, Proposal, Step
from retrace.present import amounts as amount
from retrace.present.layout import Paint, plain, wrapped
from retrace.present.message import origin
from retrace.present.missing import unfinished, warned
from retrace.present.plan_sizes import size_lines
from retrace.present.plan_titles import titles
from retrace.present.plan_words import sentence
from retrace.present.view import View
from retrace.present.words import cells, clean, count, cut, cut_between, padded, place, seconds

if TYPE_CHECKING:
    from retrace.plan.warm import Warmth  # a report has none

_HEADS = ("saves calls", "seconds", "left")
_GAPS = (1, 2, 3)
"""The columns before each of these."""
_MAX_REPEATED = 100
"""Length of a sentence from which it is not repeated for another step."""
_MIN_ROOM = 18
"""Minimum columns for what to change; with fewer, each step takes several lines."""
_MIN_SLOW = 5.0
"""Seconds from which one miss is worth a look at what it compiles."""
SHORT = 3
"""The number of steps shown in a report and in the summary of a run."""


def whole(
    view: View,
    plan: Plan,
    warmth: Warmth | None = None,
    top: int = 10,
    width: int = 80,
    paint: Paint = plain,
    *,
    ended: bool = True,
) -> str:
    """Everything `retrace plan` shows; `ended` is false if the program is known to be running."""
    out = [*_opening(view, plan, width, paint)]
    if ended:
        out += warned(unfinished(view), width, paint)
    if plan.steps:
        out += _table(view, plan, top, width, paint)
        out += _advice(plan, top, width)
        for number, step in enumerate(plan.steps[:top], 1):
            if (step.proposal.sizes or step.proposal.pairs) is not None:
                out += ["", *size_lines(number, step, width)]
    if slow := list(slowest(view, width)):
        out += ["", *slow]
    if warmth is not None:
        out += ["", *warmup_lines(warmth, width)]
    return "\n".join(out) + "\n"


def block(view: View, plan: Plan, width: int = 80, paint: Paint = plain) -> Iterator[str]:
    """The first steps and what is needed, for the top of a report; nothing without steps."""
    if any(step.worth for step in plan.steps):
        yield from _table(view, plan, SHORT, width, paint)


def slowest(view: View, width: int) -> Iterator[str]:
    """Where to look for what one call compiles long for, which no step of a plan is about."""
    called = [verdict.miss for verdict in view.verdicts if verdict.miss.parent is None]
    most = max(called, key=lambda miss: miss.seconds, default=None)
    if most is not None and most.seconds >= _MIN_SLOW:
        text = f"{view.label(most)} alone took {seconds(most.seconds)}"
        text += ": `retrace slow` shows what for"
        yield from wrapped(text, width, 2)


def _opening(view: View, plan: Plan, width: int, paint: Paint) -> Iterator[str]:
    first, *rest = wrapped(f"retrace: {headline(view, plan)}", width, 9)
    yield paint(first, "bold")
    yield from rest


def headline(view: View, plan: Plan) -> str:
    """The current state in one sentence."""
    now = plan.now
    if now.is_nothing:
        text = f"no misses in {origin(view)}: nothing to change"
        return text if not view.losses() else f"no misses recorded in {origin(view)}"
    parts: list[str] = []
    if now.calls.high or not now.eager.high:
        noun = "call" if now.calls.high == 1 else "calls"
        parts.append(f"{amount.number(now.calls)} {noun} missed")
    if now.eager.high:
        noun = "eager operation" if now.eager.high == 1 else "eager operations"
        parts.append(f"{amount.number(now.eager)} {noun}{'' if parts else ' compiled'}")
    text = f"{' and '.join(parts)}, {amount.spent(now.seconds)} in all"
    if plan.each:
        text += f", in each of {plan.processes} processes (seconds of the slowest)"
    elif plan.processes > 1:
        text += f" in {plan.processes} processes, added up"
    if not plan.steps:
        text += "; nothing to change"
        if any(run.raised is not None for run in view.recording.runs):
            text += " in what ran until then"
    return text


def _table(view: View, plan: Plan, top: int, width: int, paint: Paint) -> Iterator[str]:
    shown = named_steps(plan, top)
    amounts = [(*amount.saved(step), amount.left(step)) for step, _ in shown]
    columns = [max(map(cells, column)) for column in zip(_HEADS, *amounts, strict=True)]
    room = width - 4 - sum(columns) - sum(_GAPS)
    is_narrow = room < _MIN_ROOM
    head = "What to change"
    if not is_narrow:
        head = f"{head:<{room + 4}}{_right(_HEADS, columns)}"
    yield paint(head, "dim")
    for number, ((step, named), saved) in enumerate(zip(shown, amounts, strict=True), 1):
        if is_narrow:
            yield from _stacked(view, number, step, named, width, paint)
        else:
            yield from _row(view, number, step, named, room, _right(saved, columns), paint)
    if (rest := plan.steps[top:]) and (worth := sum(step.worth for step in rest)) >= 0:
        phrase = f"and {count(len(rest), 'more step')}"
        phrase += f", {worth} worth doing" if worth else ", not worth doing"
        for text in wrapped(f"{phrase}: `retrace plan --top {len(plan.steps)}`", width - 4, 0):
            yield f"    {text}"
    if any(step.sure == "ask" for step in plan.steps[:top]):
        for text in wrapped(ASK, width - 2, 2):
            yield paint(f"  {text}", "dim")
    for text in wrapped(needed(plan), width, 2):
        yield paint(text, "bold")


def _right(values: Sequence[str], columns: Sequence[int]) -> str:
    """The columns beside a step: calls, seconds, and what is left."""
    calls, spent, left = (" " * gap for gap in _GAPS)
    calls += values[0].rjust(columns[0])
    spent += values[1].rjust(columns[1])
    return f"{calls}{spent}{left}{values[2]}"


def named_steps(plan: Plan, top: int) -> list[tuple[Step, str]]:
    """The first steps, with titles that distinguish all steps."""
    return list(zip(plan.steps, titles(plan.steps), strict=True))[:top]


def _stacked(
    view: View, number: int, step: Step, named: str, width: int, paint: Paint
) -> Iterator[str]:
    """A step on a terminal that is too narrow for columns."""
    proposal = step.proposal
    mark = "?" if step.sure == "ask" else ""
    first, *rest = wrapped(cut_between(clean(named, None), 3 * width) + mark, width - 4, 0)
    style = "fix" if step.worth else "dim"
    yield f"{number:>2}  {paint(first, style)}"
    for text in rest:
        yield f"    {paint(text, style)}"
    if proposal.file is not None:
        yield f"    {cut(place(proposal.file, proposal.line, view.bases), width - 4)}"
    phrase = f"saves {amount.saving(step)}   {'left: ' if step.worth else ''}{amount.left(step)}"
    for text in wrapped(phrase, width - 4, 0):
        yield f"    {text}"


def _row(
    view: View, number: int, step: Step, title_: str, room: int, right: str, paint: Paint
) -> Iterator[str]:
    proposal = step.proposal
    mark = "?" if step.sure == "ask" else ""
    named = cut_between(clean(title_, None), 3 * room) + mark
    at = "" if proposal.file is None else place(proposal.file, proposal.line, view.bases)
    style = "fix" if step.worth else "dim"
    if cells(named) + cells(at) + 1 <= room:
        gap = room - cells(named) - cells(at)
        yield f"{number:>2}  {paint(named, style)}{' ' * gap}{at}{right}"
        return
    first, *rest = wrapped(named, room, 0)
    yield f"{number:>2}  {paint(padded(first, room), style)}{right}"
    lines = [*rest, ""] if rest and cells(rest[-1]) + cells(at) + 1 > room else rest or [""]
    for text in lines[:-1]:
        yield f"    {paint(text, style)}"
    last = lines[-1]
    if at:
        yield f"    {paint(last, style)}{' ' * max(room - cells(last) - cells(at), 1)}{at}"
    elif last:
        yield f"    {paint(last, style)}"


ASK = "? check that your program still does what you mean"
"""The meaning of the mark next to a step."""
_TIERS = (("clear", "clear steps save"), ("likely", "likely ones"), ("ask", "those with ?"))


def needed(plan: Plan) -> str:
    """What is left after everything worthwhile was done, or what may be."""
    worth = [step for step in plan.steps if step.worth]
    left = worth[-1].left if worth else plan.now
    if any(map(amount.is_open, plan.steps)):
        left = plan.floor
    tiers = [
        f"{steps} {amount.in_words(total)}"
        for sure, steps in _TIERS
        if not (total := _sum(step.gone for step in worth if step.sure == sure)).is_nothing
    ]
    text = f"needed: {amount.in_words(left)}"
    return f"{text} ({'; '.join(tiers)})" if len(tiers) > 1 else text


def _sum(amounts: Iterator[Amount]) -> Amount:
    total = Amount()
    for one in amounts:
        total = total.plus(one)
    return total


def _advice(plan: Plan, top: int, width: int) -> Iterator[str]:
    yield ""
    known: dict[str, int] = {}
    for number, step in enumerate(plan.steps[:top], 1):
        text = sentence(step.proposal)
        if (first := known.setdefault(_without_number(step.proposal), number)) != number:
            (change, *_) = step.proposal.changes
            kinds = (
                f", with {count(change.seen, 'kind')} of operations" if _is_block(change) else ""
            )
            text = f"the same as for {first}{kinds}." if len(text) > _MAX_REPEATED else text
        yield from wrapped(f"{number:>2}  {clean(text, None)}", width, 4)


def _without_number(proposal: Proposal) -> str:
    """The sentence about a step, which may be that of another with more kinds of operations."""
    changes = [
        change._replace(seen=0) if _is_block(change) else change for change in proposal.changes
    ]
    return sentence(proposal._replace(changes=tuple(changes)))


def _is_block(change: Change) -> bool:
    return change.family == "eager"


def warmup_lines(warmth: Warmth, width: int) -> Iterator[str]:
    text = count(len(warmth.calls), "program")
    yield f"Warm-up: these calls compile what this run needed ({text})"
    for call in warmth.calls:
        name = clean(call.function, 48)
        if call.whole and name.isidentifier():
            yield f"    {name}.lower({clean(call.arguments, None)}).compile()"
        else:
            arguments = clean(call.arguments, 4 * width)
            yield f"    # {name}({arguments}): replace <...> and ... yourself"
    if warmth.escaped:
        yield ""
        yield "Escaped the warm-up"
        for one in warmth.escaped[:20]:
            text = f"    {clean(one.function, 48)}: {clean(one.shapes)} escaped; "
            yield f"{text}closest before: {clean(one.nearest)}"
        if len(warmth.escaped) > 20:
            yield f"    and {len(warmth.escaped) - 20:,} more"


def step_cells(view: View, step: Step, named: str) -> tuple[str, str, str, str, str]:
    """The cells of a step: what, where, calls, seconds, left."""
    proposal = step.proposal
    at = "" if proposal.file is None else place(proposal.file, proposal.line, view.bases)
    named = clean(named, None) + ("?" if step.sure == "ask" else "")
    return named, at, *amount.saved(step), amount.left(step)

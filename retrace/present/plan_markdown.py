"""The plan as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from retrace.plan.step import Plan, Step
from retrace.plan.warm import Warmth
from retrace.present.markdown import code, escaped
from retrace.present.missing import unfinished
from retrace.present.plan_sizes import size_lines
from retrace.present.plan_text import (
    ASK,
    SHORT,
    headline,
    named_steps,
    needed,
    step_cells,
    warmup_lines,
)
from retrace.present.plan_words import sentence
from retrace.present.view import View
from retrace.present.words import count


def whole(view: View, plan: Plan, warmth: Warmth | None = None, top: int = 10) -> str:
    """The plan as Markdown."""
    out = ["# retrace plan", "", f"{escaped(headline(view, plan))}.", ""]
    if texts := list(unfinished(view)):
        out += [*(f"- {escaped(one)}" for one in texts), ""]
    out += table(view, plan, top)
    for number, step in enumerate(plan.steps[:top], 1):
        out += ["", f"{number}. {escaped(sentence(step.proposal))}"]
        if (step.proposal.sizes or step.proposal.pairs) is not None:
            out += ["", "```text", *size_lines(number, step, 80), "```"]
    if warmth is not None:
        out += ["", "```text", *warmup_lines(warmth, 80), "```"]
    return "\n".join(out) + "\n"


def table(view: View, plan: Plan, top: int = SHORT) -> Sequence[str]:
    """The steps as a Markdown table; nothing if there are none."""
    if not plan.steps:
        return []
    out = [
        "| | what to change | place | saves calls | seconds | left |",
        "|---:|---|---|---:|---:|---|",
    ]
    for number, (step, named) in enumerate(named_steps(plan, top), 1):
        out.append(f"| {number} | {' | '.join(_row(view, step, named))} |")
    if len(plan.steps) > top:
        out.append(f"| | and {count(len(plan.steps) - top, 'more step')} | | | | |")
    asked = [ASK, ""] if any(step.sure == "ask" for step in plan.steps[:top]) else []
    return [*out, "", *asked, f"**{needed(plan)}**"]


def _row(view: View, step: Step, named: str) -> tuple[str, str, str, str, str]:
    """The cells of a step: what, where, calls, seconds, left."""
    title, at, *rest = step_cells(view, step, named)
    gone, spent, left = rest
    return escaped(title), code(at) if at else "", gone, spent, left

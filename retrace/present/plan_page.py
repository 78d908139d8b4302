"""The plan as the first section of the page."""

from __future__ import annotations

from collections.abc import Iterator

from retrace.plan.step import Plan
from retrace.present.markup import prose, text
from retrace.present.plan_text import headline, named_steps, needed, step_cells
from retrace.present.view import View
from retrace.present.words import count

_STEPS = 10
"""So many steps are written out."""


def section(view: View, plan: Plan | None) -> Iterator[str]:
    """What to change first; nothing where there is nothing to change."""
    if plan is None or not plan.steps:
        return
    yield f"<p>{prose(headline(view, plan))}</p>"
    yield "<table><thead><tr>"
    for title in ("step", "change", "place", "saves calls", "seconds", "left"):
        yield f'<th scope="col">{title}</th>'
    yield "</tr></thead><tbody>"
    for number, (step, named) in enumerate(named_steps(plan, _STEPS), 1):
        what, at, *rest = step_cells(view, step, named)
        gone, spent, left = map(text, rest)
        yield f'<tr data-step="{number - 1}"><td class="number">{number}</td>'
        yield f"<td>{prose(what)}</td>"
        # To the message of the first miss that it takes away, or the line of it in the list.
        link = f'<a href="#miss-{text(step.misses[0])}">{text(at) or "show"}</a>'
        yield f'<td><span class="at">{link}</span></td><td class="number">{gone}</td>'
        yield f'<td class="number">{spent}</td><td>{left}</td></tr>'
    yield "</tbody></table>"
    if len(plan.steps) > _STEPS:
        more = count(len(plan.steps) - _STEPS, "more step")
        yield f"<p>and {more}: <code>retrace plan --top {len(plan.steps)}</code></p>"
    yield f"<p><strong>{prose(needed(plan))}</strong></p>"

"""The plan as the first section of the page."""

from __future__ import annotations

from collections.abc import Iterator

from retrace.plan.step import Plan
from retrace.present import amounts
from retrace.present.markup import prose, text
from retrace.present.plan_text import ASK, headline, named_steps, needed, step_cells
from retrace.present.view import View
from retrace.present.words import count

MAX_STEPS = 10
"""Maximum number of steps shown."""
_NUMBERS = ("step", "saves calls", "seconds")


def section(view: View, plan: Plan | None, *, linked: bool = True) -> Iterator[str]:
    """What to change first; nothing if there is nothing to change.

    Args:
        view: everything that is known.
        plan: the steps; None if no plan could be made.
        linked: whether the misses of the steps are shown on the same page.
    """
    if plan is None or not plan.steps:
        return
    yield f"<p>{prose(headline(view, plan))}</p>"
    yield "<table><thead><tr>"
    for title in ("step", "change", "place", "saves calls", "seconds", "left"):
        side = ' class="number"' if title in _NUMBERS else ""
        yield f'<th scope="col"{side}>{title}</th>'
    yield "</tr></thead><tbody>"
    for number, (step, named) in enumerate(named_steps(plan, MAX_STEPS), 1):
        what, at, *rest = step_cells(view, step, named)
        gone, spent, left = map(text, rest)
        row = f'<tr data-step="{number - 1}">' if linked else "<tr>"
        yield f'{row}<td class="number">{number}</td>'
        yield f"<td>{prose(what)}</td>"
        place = text(at)
        if linked:
            # Links to the message of the first miss that it removes, or to its line in the list.
            place = f'<a href="#miss-{text(step.misses[0])}">{place or "show"}</a>'
        yield f'<td><span class="at">{place}</span></td><td class="number">{gone}</td>'
        if linked:
            # For a narrow page, without room for columns.
            narrow = f'<span class="narrow">saves {text(amounts.saving(step))}</span>'
            spent = f'<span class="wide">{spent}</span>{narrow}'
        yield f'<td class="number">{spent}</td><td>{left}</td></tr>'
    yield "</tbody></table>"
    if len(plan.steps) > MAX_STEPS:
        more = count(len(plan.steps) - MAX_STEPS, "more step")
        yield f"<p>and {more}: <code>retrace plan --top {len(plan.steps)}</code></p>"
    if any(step.sure == "ask" for step in plan.steps[:MAX_STEPS]):
        yield f'<p class="quiet">{text(ASK)}</p>'
    yield f"<p><strong>{prose(needed(plan))}</strong></p>"

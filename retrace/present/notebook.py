"""The report as HTML for the output of a notebook cell.

A fragment without scripts, readable on light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from retrace.causes import Cause
from retrace.model import Stage, Verdict
from retrace.plan.step import Plan
from retrace.present import plan_page, side_by_side, terminal
from retrace.present.group import Group
from retrace.present.markup import prose, rows, text
from retrace.present.message import Message, compose, eager_row, firsts, raised
from retrace.present.missing import lost
from retrace.present.plan_sizes import size_lines
from retrace.present.plan_text import headline
from retrace.present.plan_words import sentence
from retrace.present.tally import Tally, Totals, split_by_worth
from retrace.present.view import View
from retrace.present.words import count, listed, name, seconds

_OPEN_MESSAGES = 3
"""The number of messages that are open; a click opens the others."""
_MAX_LINES = 40
"""Maximum number of lines of a program difference."""

_STYLE = """<style>
.retrace {font-size: 13px; line-height: 1.5; max-width: 100ch}
.retrace p {margin: .3em 0}
.retrace code, .retrace .at {font: 12px/1.5 ui-monospace, Menlo, Consolas, monospace}
.retrace code {background: rgba(128, 128, 128, .16); padding: 0 .3em; border-radius: 3px;
  color: inherit; overflow-wrap: anywhere}
.retrace details {border-left: 4px solid #888; margin: .5em 0; padding: .1em .8em}
.retrace details.yes {border-color: #d64545}
.retrace details.maybe {border-color: #c98a1b}
.retrace summary {display: list-item; cursor: pointer; font-weight: 600}
.retrace .at, .retrace .quiet {opacity: .75; font-weight: 400}
.retrace .at {margin-left: 1em}
.retrace table {border-collapse: collapse; margin: .3em 0; border: 0; color: inherit;
  font-size: inherit; table-layout: auto}
.retrace tr {background: none !important}
.retrace th, .retrace td {text-align: left !important; vertical-align: top !important; border: 0;
  padding: .05em 1.2em .05em 0; background: none !important; white-space: pre-wrap}
.retrace th {font-weight: 400; opacity: .75}
.retrace td span:not(.turn) {margin-right: 1.2em}
.retrace .turn {white-space: nowrap}
.retrace tr.fix td {font-weight: 600}
.retrace pre {margin: .4em 0; padding: .4em .7em !important; border: 0;
  background: rgba(128, 128, 128, .12) !important;
  color: inherit; font: 12px/1.5 ui-monospace, Menlo, Consolas, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; word-break: normal}
.retrace pre .at {display: block; margin: 0}
.retrace details.program {border: 0; padding: 0}
.retrace .program summary {font-weight: 400; opacity: .75}
.retrace table.diff {width: 100%; table-layout: fixed}
.retrace .diff td, .retrace .diff th {padding: .05em .5em}
.retrace .diff span {margin: 0 !important}
.retrace .diff code {background: none !important; padding: 0}
.retrace td.added {background: rgba(64, 170, 96, .16) !important}
.retrace td.removed {background: rgba(214, 69, 69, .16) !important}
.retrace mark {color: inherit; font-weight: 600; background: rgba(128, 128, 128, .3)}
.retrace .plan th, .retrace .plan td:nth-child(n + 3) {white-space: nowrap}
.retrace .plan td:nth-child(2) {min-width: 14em}
.retrace .plan .at {margin: 0}
.retrace .number {text-align: right !important}
</style>"""


class Report:
    """Misses of a running program, as text and as HTML.

    Args:
        view: everything that is known.
        program: what was run, in words.
        verdicts: the misses to include; None for all.
    """

    def __init__(
        self, view: View, program: str, verdicts: Sequence[Verdict] | None = None
    ) -> None:
        self._view = view
        self._program = program
        self._tally = Tally.of(view, verdicts)

    def __str__(self) -> str:
        text = terminal.report(self._view, self._tally, program=self._program)
        return text.rstrip("\n")

    def html(self) -> str:
        """As a fragment of a page."""
        view, tally = self._view, self._tally
        groups = tally.groups()
        loud, small = split_by_worth(tally, groups)
        out = [_opening(tally.totals, self._program)]
        out += [f"<p>{text(phrase)}</p>" for phrase in lost(view)]
        out += _messages([(compose(view, group), _below(view, group)) for group in loud])
        out += _small(small)
        out += _eager(view, [group for group in groups if group.is_quiet])
        out += _first(view, [group for group in groups if group.is_quiet])
        quiet = [group for group in groups if group.is_quiet]
        out += [f"<p>{text(phrase)}</p>" for phrase in raised(view, [*small, *quiet])]
        return _framed(out)


def planned(view: View, plan: Plan) -> str:
    """What to change first, and how."""
    steps = list(plan_page.section(view, plan, linked=False))
    if not steps:
        return _framed([f"<p>{prose(headline(view, plan))}</p>"])
    out = ['<div class="plan">', *steps, "</div>", "<details open><summary>How</summary><table>"]
    for number, step in enumerate(plan.steps[: plan_page.MAX_STEPS], 1):
        phrase = prose(sentence(step.proposal))
        sizes = "\n".join(map(text, size_lines(number, step, 80)))
        below = f"<pre>{sizes}</pre>" if sizes else ""
        out.append(f'<tr><td class="number">{number}</td><td>{phrase}{below}</td></tr>')
    return _framed([*out, "</table></details>"])


def page(messages: Sequence[Message]) -> str:
    """Several messages below each other."""
    if not messages:
        return _framed(["<p>no misses</p>"])
    return _framed(_messages([(message, "") for message in messages]))


def _framed(parts: Iterable[str]) -> str:
    # These classes keep a notebook from reading `$` in a name as mathematics.
    classes = "retrace tex2jax_ignore mathjax_ignore"
    return "\n".join([f'<div class="{classes}">', _STYLE, *parts, "</div>"])


def _opening(total: Totals, program: str) -> str:
    if not total.misses:
        why = "JAX served every call from its caches, or there was none"
        return f"<p><b>no misses</b> in {text(program)}: {why}</p>"
    ran = [
        f"{stage.value} {seconds(total.seconds[stage])} ({total.ran[stage]:,})"
        for stage in Stage
        if total.ran[stage]
    ]
    misses = count(total.misses, "miss", "misses")
    spent, worth = seconds(total.all_seconds), total.worth
    phrase = f"<p><b>{misses}</b> in {text(program)}, {spent}; <b>{worth}</b>"
    return f'{phrase}<br><span class="quiet">{", ".join(ran)}</span></p>'


def _below(view: View, group: Group) -> str:
    """The call and the program difference of the shown miss."""
    shown = group.shown
    parts = [*side_by_side.call(view, shown), *side_by_side.programs(view, shown, _MAX_LINES)]
    return "".join(parts)


def _messages(messages: Sequence[tuple[Message, str]]) -> Iterator[str]:
    for index, (message, below) in enumerate(messages):
        is_open = " open" if index < _OPEN_MESSAGES else ""
        yield f'<details class="{message.worth}"{is_open}>'
        yield f"<summary>{text(message.heading)}"
        yield f'<span class="at">{text(message.place)}</span></summary>'
        yield f"<table>{''.join(rows(message.lines))}</table>{below}</details>"


def _small(groups: Sequence[Group]) -> Iterator[str]:
    if groups:
        misses = count(sum(group.count for group in groups), "miss", "misses")
        spent = seconds(sum(group.seconds for group in groups))
        texts = [f"{name(g.shown.miss.function)} {g.cause.value}" for g in groups]
        phrase = f"{misses} of little cost, {spent}: {listed(texts, 4)}"
        yield f'<p class="quiet">{text(phrase)}</p>'


def _eager(view: View, groups: Sequence[Group]) -> Iterator[str]:
    found = [group for group in groups if group.cause is Cause.EAGER_OP]
    if not found:
        return
    number = count(sum(group.count for group in found), "eager operation")
    spent = seconds(sum(group.seconds for group in found))
    lines = count(len(found), "line")
    yield f"<details><summary>{number} on {lines}, each compiled separately, {spent}</summary>"
    yield "<table>"
    for group in found:
        often, at, which = eager_row(view, group)
        cells = (seconds(group.seconds), often, at, which)
        yield f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in cells)}</tr>"
    yield "</table></details>"


def _first(view: View, groups: Sequence[Group]) -> Iterator[str]:
    found = [group for group in groups if group.cause is Cause.FIRST_TRACE]
    if found:
        spent = seconds(sum(group.seconds for group in found))
        functions = count(len(found), "function")
        phrase = f"{functions} ran for the first time, {spent}: {listed(firsts(view, found), 4)}"
        yield f'<p class="quiet">{text(phrase)}</p>'

"""The page's tables: functions with all their causes, and everything that is only listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from retrace.causes import Cause
from retrace.present import dispatch, glossary
from retrace.present.group import Group
from retrace.present.markup import prose, text
from retrace.present.message import Line, eager_row, lines, what_raised, where
from retrace.present.tally import OfCause, OfFunction, Tally
from retrace.present.view import View
from retrace.present.words import clean, count, name, place, seconds

_MAX_FUNCTIONS = 200
_MAX_CAUSES = 6
"""Maximum number of causes linked for one function; the rest are counted."""


def functions(
    view: View,
    tally: Tally,
    groups: Sequence[Group],
    anchors: dict[int, str],
    numbers: dict[str, int],
) -> Iterator[str]:
    """Every function with its misses and all its causes, most expensive first.

    Args:
        view: the whole recording.
        tally: the misses to include.
        groups: all groups of misses.
        anchors: where the page explains each group.
        numbers: the number of each function in the page's data, by definition site.
    """
    found = [row for row in tally.functions.values() if row.function.file is not None]
    eager = tally.causes.get(Cause.EAGER_OP)
    if not (found or eager):
        return
    spent = [row.seconds for row in found] + ([eager.seconds] if eager else [])
    reasons: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda group: group.cause is Cause.FIRST_TRACE):
        if group.cause is not Cause.EAGER_OP:
            reasons.setdefault(group.shown.miss.function.site, []).append(group)
    named = Counter((row.function.name, row.function.file, row.function.line) for row in found)
    made: list[tuple[float, str]] = []
    for row in found:
        function = row.function
        own = reasons.get(function.site, [])
        at = place(function.file, function.line, view.bases)
        # A library's functions may look alike and only differ in their caller.
        alike = named[function.name, function.file, function.line] > 1
        if alike and own and (called := view.called_from(own[0].shown.miss)):
            at += f", called from {called}"
        who = f'<code>{text(name(function))}</code><span class="at">{text(at)}</span>'
        why = _why(view, row, own, anchors)
        made.append((row.seconds, _function(who, row, max(spent), why, numbers[function.site])))
    if eager is not None:
        why = '<a href="#eager">eager-op</a> each compiled separately'
        made.append((eager.seconds, _function("eager operations", eager, max(spent), why, -1)))
    made.sort(key=lambda row: row[0], reverse=True)
    yield '<table class="functions"><thead><tr>'
    for title in ("function", "misses", "seconds"):
        yield f'<th scope="col">{title}</th>'
    yield '<td></td><th scope="col">causes</th></tr></thead><tbody>'
    yield from (row for _, row in made[:_MAX_FUNCTIONS])
    yield "</tbody></table>"
    if len(made) > _MAX_FUNCTIONS:
        yield f"<p>and {count(len(made) - _MAX_FUNCTIONS, 'more function')}</p>"


def _function(who: str, row: OfFunction | OfCause, longest: float, why: str, number: int) -> str:
    of = "miss" if row.misses == 1 else "misses"
    return (
        f'<tr data-function="{number}"><th scope="row">{who}</th>'
        f'<td class="number" data-of="{of}">{row.misses:,}</td>'
        f'<td class="number">{seconds(row.seconds)}</td><td>{bar(row.seconds, longest)}</td>'
        f"<td>{why}</td></tr>"
    )


def _why(view: View, row: OfFunction, groups: Sequence[Group], anchors: dict[int, str]) -> str:
    """All causes of a function, each with its count and what changed."""
    texts: list[str] = []
    linked: Counter[str] = Counter()
    for group in groups[:_MAX_CAUSES]:
        linked[group.cause.value] += group.count
        because = ""
        if group.cause is not Cause.FIRST_TRACE:
            phrase = next(
                line for line in lines(view, group) if line.label in ("because", "cost")
            )
            because = _because(group, phrase) if phrase.label == "because" else ""
        code = f'<a href="#{anchors[id(group)]}">{group.cause.value}</a>'
        texts.append(f"{code}{_often(group.count)} {because}")
    # Shown elsewhere: with the enclosing trace, or with other functions of the same line.
    left = {cause: number - linked[cause] for cause, number in row.causes.items()}
    others = [f"{cause}{_often(number)}" for cause, number in left.items() if number > 0]
    if others:
        texts.append(f'<span class="quiet">{", ".join(others)}</span>')
    return "".join(f"<div>{one}</div>" for one in texts)


def _because(group: Group, line: Line) -> str:
    """What changed, on one line: the kind of change, the argument, old and new."""
    what, *rest = line.cells
    paths = {clean(change.path, 40) for change in group.shown.changes if change.path is not None}
    if rest and rest[0] in paths:
        what = f"{what} `{rest.pop(0)}`"
    return prose(f"{what}: {', '.join(rest)}" if rest else what)


def _often(number: int) -> str:
    return f" &times;{number:,}" if number > 1 else ""


def bar(part: float, whole: float) -> str:
    """A drawn share."""
    width = min(100.0, 100 * part / whole) if whole > 0 else 0.0
    rect = f'<rect width="{width:.4g}%" height="100%"/>'
    return f'<svg class="bar" aria-hidden="true">{rect}</svg>'


def small(view: View, groups: Sequence[Group], numbers: dict[int, int]) -> Iterator[str]:
    """Causes of little cost, one line each."""
    yield from _table(
        ("seconds", "misses", "function", "cause"),
        [
            (
                seconds(group.seconds),
                f"{group.count:,}",
                f"{_named(group)}, {where(view, group)}",
                group.cause.value,
            )
            for group in groups
        ],
        [numbers[id(group)] for group in groups],
    )


def _named(group: Group) -> str:
    if group.cause is Cause.EAGER_OP:
        return "eager operations"
    return name(group.shown.miss.function)


def eager(view: View, groups: Sequence[Group], numbers: dict[int, int]) -> Iterator[str]:
    """Eager operations, by the user's line."""
    made = [(seconds(group.seconds), *eager_row(view, group)) for group in groups]
    own = [numbers[id(group)] for group in groups]
    yield from _table(("seconds", "programs", "line", "operations"), made, own)


def first(view: View, groups: Sequence[Group], numbers: dict[int, int]) -> Iterator[str]:
    """First traces."""
    made = [
        (
            seconds(group.seconds),
            f"{name(group.shown.miss.function)}, {where(view, group)}",
            ", ".join(_beside(group)),
        )
        for group in groups
    ]
    own = [numbers[id(group)] for group in groups]
    yield from _table(("seconds", "function", "notes"), made, own)


def slow(view: View, tally: Tally) -> Iterator[str]:
    """Functions that leave JAX's fast path."""
    if made := dispatch.rows(view, tally):
        yield f"<p>{text(dispatch.heading(len(made)))}</p>"
        shown = [(f"{who}, {at}", what) for who, at, what in made]
        yield from _table(("function", "calls back by"), shown)


def _beside(group: Group) -> Iterator[str]:
    if inner := group.sums.folded:
        yield f"with {count(inner, 'trace')} inside"
    yield from [f"raised {phrase}"] if (phrase := what_raised(group)) else ()


def _table(
    titles: Sequence[str], cells: Sequence[Sequence[str]], groups: Sequence[int] = ()
) -> Iterator[str]:
    if not cells:
        return
    numbers = ("seconds", "misses", "programs")
    yield '<table class="plain"><thead><tr>'
    for title in titles:
        side = " class=number" if title in numbers else ""
        yield f'<th scope="col"{side}>{title}</th>'
    yield "</tr></thead><tbody>"
    for index, row in enumerate(cells):
        # On a narrow page the cells become a list, and each shows its own title.
        shown = (
            f'<td{" class=number" if title in numbers else ""} data-title="{title}">'
            f"{text(cell)}</td>"
            for title, cell in zip(titles, row, strict=True)
        )
        of = f' data-group="{groups[index]}"' if groups else ""
        yield f"<tr{of}>{''.join(shown)}</tr>"
    yield "</tbody></table>"


def processes(view: View) -> Iterator[str]:
    """The processes that were recorded."""
    made = [
        (
            ", ".join(view.process(run.id)),
            f"{run.pid} on {clean(run.host)}",
            clean(" ".join(run.argv), 200),
            f"Python {clean(run.python)}, jaxlib {clean(run.jaxlib)}",
        )
        for run in view.recording.runs
    ]
    yield from _table(("process", "pid", "program", "made with"), made)


def words(tally: Tally) -> Iterator[str]:
    """The glossary of the page."""
    yield "<dl>"
    for cause in Cause:
        if cause in tally.causes:
            yield f"<dt><code>{cause.value}</code></dt><dd>{prose(glossary.CAUSES[cause])}</dd>"
    for word, meaning in glossary.TERMS.items():
        yield f"<dt>{word}</dt><dd>{prose(meaning)}</dd>"
    yield "</dl>"

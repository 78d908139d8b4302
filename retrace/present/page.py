"""The report as a page: one file that opens from disk and asks no network for anything.

What it tells stands in it as HTML; the script only filters, sorts and lists the misses that
lie in it as data. A policy inside the page lets no other script run, whatever a program's
names may hold.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from retrace.causes import Cause
from retrace.model import Stage, Verdict
from retrace.plan.step import Plan
from retrace.present import (
    difference,
    dispatch,
    glossary,
    hosts_page,
    machine,
    plan_page,
    slow,
    stale,
)
from retrace.present.group import Group
from retrace.present.markup import prose, rows, text
from retrace.present.message import eager_row, lines, origin, told, what_raised, where
from retrace.present.sentences import explanation
from retrace.present.tally import OfCause, OfFunction, Sort, Tally, rest_told, worth_telling
from retrace.present.terminal import lost, unfinished
from retrace.present.timeline import Timeline
from retrace.present.view import View
from retrace.present.words import clean, count, name, place, seconds
from retrace.reason.program import Comparison

_OPEN = 3
"""So many messages are unfolded; a click unfolds the others."""
_FUNCTIONS = 200
_EDITS = 120
"""Lines of a program's difference."""
_ROOM = 160
"""Characters of an equation; the page breaks them as it needs."""
_MOST = 2000
"""So many misses lie in the page as data."""

_HERE = Path(__file__).parent


def report(
    view: View,
    tally: Tally,
    portions: Iterable[Sequence[Verdict]],
    *,
    sort: Sort = "seconds",
    keys: bool = False,
    plan: Plan | None = None,
    top: int | None = None,
) -> Iterator[str]:
    """The page, a piece at a time.

    Args:
        view: the whole recording.
        tally: the misses to tell of, added up.
        portions: the same misses, in as many portions as there are.
        sort: what comes first: the dearest, the most frequent or the earliest.
        keys: whether the cache key of each miss lies in the data.
        plan: what to change first; None where it is not told.
        top: so many causes are explained, the others counted; None for all.
    """
    timeline = Timeline()
    few = tally.totals.misses <= _MOST
    misses: list[machine.Object] = []
    for portion in portions:
        timeline.add(view, tally, portion)
        if few:
            misses += [machine.miss_report(view, verdict, keys=keys) for verdict in portion]
    groups = tally.groups(sort)
    loud, small = worth_telling(tally, groups)
    eager = [g for g in groups if g.is_quiet and g.cause is Cause.EAGER_OP]
    first = [g for g in groups if g.is_quiet and g.cause is Cause.FIRST_TRACE]
    anchors = {id(group): _anchor(group) for group in loud}
    rest = loud[len(loud) if top is None else top :]
    for section, found in (("more", rest), ("small", small), ("eager", eager), ("first", first)):
        anchors |= {id(group): section for group in found}
    sections = [
        ("stale", "Out of date", [*_stale(view)]),
        ("hosts", "Processes of one job", [*hosts_page.section(view)]),
        ("plan", "What to change first", [*plan_page.section(view, plan)]),
        ("functions", "Functions", [*_functions(view, tally, groups, anchors)]),
        ("timeline", "Timeline", [*timeline.html(view, lambda group: anchors[id(group)])]),
        ("causes", "Why", [*_messages(view, loud[:top]), *_rest(rest)]),
        ("small", "Of little cost", [*_small(view, small)]),
        ("eager", "Eager operations", [*_eager(view, eager)]),
        ("first", "For the first time", [*_first(view, first)]),
        ("slow", "Slow at every call", [*_slow(view, tally)]),
        ("seconds", "Where the seconds went", [*_observed(view)]),
        ("misses", "All misses", [_LIST] if misses else []),
        ("processes", "Processes", [*_processes(view)]),
        ("words", "Glossary", [*_words(tally)]),
        ("data", "Data", [_data_said(tally, few=few)]),
    ]
    sections = [section for section in sections if section[2]]
    yield from _head(view, tally, [(anchor, title) for anchor, title, _ in sections])
    for anchor, title, parts in sections:
        yield f'<section id="{anchor}"><h2>{title}</h2>\n'
        yield from (*(f"{part}\n" for part in parts), "</section>\n")
    yield from _tail(view, tally, misses)


def _stale(view: View) -> Iterator[str]:
    if (found := view.audited) is not None:
        yield f"<pre>{text(chr(10).join(stale.text(view, found, 110)))}</pre>"


def _observed(view: View) -> Iterator[str]:
    if lines := list(slow.section(view, 110)):
        yield f"<pre>{text(chr(10).join(lines))}</pre>"


def _anchor(group: Group) -> str:
    return f"miss-{group.shown.miss.id}"


def _head(view: View, tally: Tally, sections: Sequence[tuple[str, str]]) -> Iterator[str]:
    style, script = _asset("page.css"), _asset("page.js")
    policy = f"default-src 'none'; style-src {_hashed(style)}; script-src {_hashed(script)}"
    what = text(origin(view))
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="generator" content="retrace">\n'  # by it a page of ours is known
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n'
    yield f"<title>retrace: {what}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    yield '<a class="skip" href="#told">to what is told</a>\n<header>\n'
    yield f"<h1>{_title(tally, what)}</h1>\n"
    yield f'<p class="quiet">{text(_made(view))}</p>\n'
    yield from (f'<p class="lost">{text(said)}</p>' for said in lost(view))
    yield from _totals(tally)
    yield "</header>\n<nav aria-label='Sections'>"
    yield " ".join(f'<a href="#{anchor}">{title}</a>' for anchor, title in sections)
    yield (
        '<span class="tools" hidden><label>Filter <input id="filter" type="search" '
        'placeholder="name, cause, file (press /)" autocomplete="off"></label> '
        '<button id="unfold" type="button">Unfold all</button></span></nav>\n<main id="told">\n'
    )


def _title(tally: Tally, what: str) -> str:
    total = tally.totals
    if not total.misses:
        return f"no misses in {what}"
    return f"{tally.counted} in {what}, {seconds(total.all_seconds)}; {total.worth}"


def _made(view: View) -> str:
    runs = view.recording.runs
    made = {
        f"jax {run.jax}" + (f" on {run.backend}" if run.backend else "")
        for run in runs
        if run.jax  # else it was never imported
    }
    said = [clean(each) for each in sorted(made)]
    if runs:
        said.append(datetime.fromtimestamp(runs[0].started, UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if len(runs) > 1:
        said.append(count(len(runs), "process", "processes"))
    return ", ".join(said)


def _totals(tally: Tally) -> Iterator[str]:
    total = tally.totals
    if not total.misses:
        return
    yield '<div class="totals"><table><caption>Stages</caption>'
    for stage in Stage:
        if number := total.ran[stage]:
            yield _counted(stage.value, number, total.seconds[stage], total.all_seconds)
    yield "</table><table><caption>Causes</caption>"
    causes = sorted(tally.causes.items(), key=lambda item: -item[1].seconds)
    for cause, row in causes:
        yield _counted(cause.value, row.misses, row.seconds, total.all_seconds)
    yield "</table></div>\n"


def _counted(what: str, number: int, spent: float, most: float) -> str:
    return (
        f'<tr><th scope="row">{what}</th><td class="number">{number:,}</td>'
        f'<td class="number">{seconds(spent)}</td><td>{_bar(spent, most)}</td></tr>'
    )


def _bar(part: float, whole: float) -> str:
    width = min(100.0, 100 * part / whole) if whole > 0 else 0.0
    rect = f'<rect width="{width:.4g}%" height="100%"/>'
    return f'<svg class="bar" aria-hidden="true">{rect}</svg>'


def _functions(
    view: View, tally: Tally, groups: Sequence[Group], anchors: dict[int, str]
) -> Iterator[str]:
    found = [row for row in tally.functions.values() if row.function.file is not None]
    eager = tally.causes.get(Cause.EAGER_OP)
    if not (found or eager):
        return
    spent = [row.seconds for row in found] + ([eager.seconds] if eager else [])
    reasons: dict[str, Group] = {}
    for group in sorted(groups, key=lambda group: group.cause is Cause.FIRST_TRACE):
        if group.cause is not Cause.EAGER_OP:
            reasons.setdefault(group.shown.miss.function.site, group)
    named = Counter((row.function.name, row.function.file, row.function.line) for row in found)
    made: list[tuple[float, str]] = []
    for row in found:
        function = row.function
        group = reasons.get(function.site)
        at = place(function.file, function.line, view.bases)
        # Functions of a library are told apart by whose they are, and look alike.
        alike = named[function.name, function.file, function.line] > 1
        if alike and group is not None and (called := view.called_from(group.shown.miss)):
            at += f", called from {called}"
        who = f'<code>{text(name(function))}</code><span class="at">{text(at)}</span>'
        why = _why(view, group, anchors)
        made.append((row.seconds, _function(who, row, max(spent), why)))
    if eager is not None:
        why = "each is a program of its own"
        made.append((eager.seconds, _function("eager operations", eager, max(spent), why)))
    made.sort(key=lambda row: row[0], reverse=True)
    yield '<table class="functions"><thead><tr>'
    for title in ("function", "misses", "seconds", ""):
        yield f'<th scope="col">{title}</th>'
    yield '<th scope="col">why</th></tr></thead><tbody>'
    yield from (row for _, row in made[:_FUNCTIONS])
    yield "</tbody></table>"
    if len(made) > _FUNCTIONS:
        yield f"<p>and {count(len(made) - _FUNCTIONS, 'more function')}</p>"


def _function(who: str, row: OfFunction | OfCause, most: float, why: str) -> str:
    return (
        f'<tr><th scope="row">{who}</th><td class="number">{row.misses:,}</td>'
        f'<td class="number">{seconds(row.seconds)}</td><td>{_bar(row.seconds, most)}</td>'
        f"<td>{why}</td></tr>"
    )


def _why(view: View, group: Group | None, anchors: dict[int, str]) -> str:
    if group is None:
        return "counted in the enclosing trace"
    because = ""
    if group.cause is not Cause.FIRST_TRACE:
        said = next(line for line in lines(view, group) if line.label in ("because", "cost"))
        because = prose(" ".join(said.cells)) if said.label == "because" else ""
    return f'<a href="#{anchors[id(group)]}">{group.cause.value}</a> {because}'


def _messages(view: View, groups: Sequence[Group]) -> Iterator[str]:
    for index, group in enumerate(groups):
        message, shown = told(view, group), group.shown
        is_open = " open" if index < _OPEN else ""
        yield f'<details class="message {message.worth}" id="{_anchor(group)}"{is_open}>'
        yield f"<summary><span>{text(message.heading)}</span>"
        yield f'<span class="at">{text(message.place)}</span>'
        yield f'<span class="cost">{seconds(group.seconds)}</span></summary>'
        yield f"<p><code>{group.cause.value}</code> {prose(explanation(view, shown))}</p>"
        yield f"<table>{''.join(rows(message.lines))}</table>"
        yield from _call(view, shown)
        yield from _difference(view, shown)
        yield f'<p class="quiet"><code>retrace show {text(shown.miss.id)}</code></p></details>'


def _rest(groups: Sequence[Group]) -> Iterator[str]:
    if groups:
        yield f'<p id="more">And {rest_told(groups)}.</p>'


def _call(view: View, verdict: Verdict) -> Iterator[str]:
    site = verdict.miss.call_site
    if site is not None and site.source:
        at = view.called_from(verdict.miss) or ""
        yield f'<pre><span class="at">{text(at)}</span>{text(site.source.strip())}</pre>'


def _difference(view: View, verdict: Verdict) -> Iterator[str]:
    program = verdict.program
    sides = program.listings() if isinstance(program, Comparison) else None
    if sides is None or verdict.program_change in (None, "identical"):
        return
    old, new = sides
    found = list(difference.rows(old, new))
    if not found or verdict.nearest is None:
        return
    before = view.earlier(verdict.nearest, verdict.miss)
    yield "<details class='program'><summary>The programs side by side, "
    yield f"{text(difference.sizes(old, new))}</summary>"
    yield f'<table class="diff"><thead><tr><th scope="col">{text(before)}</th>'
    yield f'<th scope="col">{text(view.short_label(verdict.miss))}</th></tr></thead><tbody>'
    for mark, x, y in found[:_EDITS]:
        if mark == "@":
            yield '<tr class="gap"><td colspan="2">...</td></tr>'
            continue
        pair = (old, x), (new, y)
        kinds = ("removed", "added") if mark != " " else ("", "")
        cells = "".join(
            f'<td class="{kind}"><code>{text(said)}</code> '
            f'<span class="at">{text(difference.written(view, side))}</span></td>'
            if said
            else "<td></td>"
            for kind, said, side in zip(kinds, difference.texts(*pair, _ROOM), pair, strict=True)
        )
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table>"
    if len(found) > _EDITS:
        yield f"<p>and {count(len(found) - _EDITS, 'more line')}</p>"
    yield "</details>"


def _small(view: View, groups: Sequence[Group]) -> Iterator[str]:
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
    )


def _named(group: Group) -> str:
    if group.cause is Cause.EAGER_OP:
        return "eager operations"
    return name(group.shown.miss.function)


def _eager(view: View, groups: Sequence[Group]) -> Iterator[str]:
    made = [(seconds(group.seconds), *eager_row(view, group)) for group in groups]
    yield from _table(("seconds", "programs", "line", "operations"), made)


def _first(view: View, groups: Sequence[Group]) -> Iterator[str]:
    made = [
        (
            seconds(group.seconds),
            f"{name(group.shown.miss.function)}, {where(view, group)}",
            ", ".join(_beside(group)),
        )
        for group in groups
    ]
    yield from _table(("seconds", "function", ""), made)


def _slow(view: View, tally: Tally) -> Iterator[str]:
    if made := dispatch.rows(view, tally):
        yield f"<p>{text(dispatch.heading(len(made)))}</p>"
        shown = [(f"{who}, {at}", what) for who, at, what in made]
        yield from _table(("function", "calls back by"), shown)


def _beside(group: Group) -> Iterator[str]:
    if inner := group.sums.folded:
        yield f"with {count(inner, 'trace')} inside"
    yield from [f"raised {said}"] if (said := what_raised(group)) else ()


def _table(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    if not cells:
        return
    numbers = ("seconds", "misses", "programs")
    yield "<table><thead><tr>"
    yield "".join(f'<th scope="col">{title}</th>' for title in titles)
    yield "</tr></thead><tbody>"
    for row in cells:
        shown = (
            f"<td{' class=number' if title in numbers else ''}>{text(cell)}</td>"
            for title, cell in zip(titles, row, strict=True)
        )
        yield f"<tr>{''.join(shown)}</tr>"
    yield "</tbody></table>"


_LIST = (
    '<p class="needs-script">This list needs a browser that runs scripts; '
    "<code>retrace report --format json</code> has the same.</p>"
    '<table id="all" hidden><thead></thead><tbody></tbody></table><p id="more"></p>'
)


def _processes(view: View) -> Iterator[str]:
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
    for said in unfinished(view):
        yield f'<p class="lost">{text(said)}</p>'


def _words(tally: Tally) -> Iterator[str]:
    yield "<dl>"
    for cause in Cause:
        if cause in tally.causes:
            yield f"<dt><code>{cause.value}</code></dt><dd>{prose(glossary.CAUSES[cause])}</dd>"
    for word, meaning in glossary.TERMS.items():
        yield f"<dt>{word}</dt><dd>{prose(meaning)}</dd>"
    yield "</dl>"


def _data_said(tally: Tally, *, few: bool) -> str:
    if not few:
        misses = f"{tally.totals.misses:,} misses"
        said = f"{misses} are too many for a page; `retrace report --format json` has them all."
        return f"<p>{prose(said)}</p>"
    said = "This page embeds the JSON report."
    return f'<p>{said}</p><button id="save" type="button" hidden>Save report.json</button>'


def _tail(view: View, tally: Tally, misses: Sequence[machine.Object]) -> Iterator[str]:
    yield "</main>\n"
    # `<` begins the end of a script as well as a comment in one.
    data = machine.encode(machine.whole(view, tally, misses)).replace("<", "\\u003c")
    yield f'<script type="application/json" id="report">{data}</script>\n'
    yield f"<script>{_asset('page.js')}</script>\n</body>\n</html>\n"


def _asset(file: str) -> str:
    return (_HERE / file).read_text(encoding="utf-8")


def _hashed(source: str) -> str:
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"

"""The report as a page: one file that opens from disk and needs no network.

The content is plain HTML; the script filters, lists and draws the misses embedded as data. A
policy in the page prevents any other script from running, whatever names a program contains.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from retrace.causes import Cause
from retrace.model import Stage, Verdict
from retrace.plan.step import Plan
from retrace.present import (
    hosts_page,
    page_messages,
    page_tables,
    plan_page,
    report_json,
    slow,
    stale,
)
from retrace.present.group import Group
from retrace.present.markup import text, unbroken
from retrace.present.message import origin
from retrace.present.missing import lost, unfinished
from retrace.present.page_data import Data, packed
from retrace.present.page_source import Sources
from retrace.present.tally import Sort, Tally, split_by_worth
from retrace.present.view import View
from retrace.present.words import clean, count, seconds

_HERE = Path(__file__).parent
_SCRIPTS = ("page_data.js", "page_icicle.js", "page_view.js", "page.js")


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
    """The page, piece by piece.

    Args:
        view: the whole recording.
        tally: the misses to include, summed up.
        portions: the same misses, in any number of portions.
        sort: what comes first: the most expensive, the most frequent or the earliest.
        keys: whether to include the cache key of each miss in the data.
        plan: what to change first, if it should be shown.
        top: the maximum number of causes explained; None for all.
    """
    groups = tally.groups(sort)
    loud, small = split_by_worth(tally, groups)
    eager = [g for g in groups if g.is_quiet and g.cause is Cause.EAGER_OP]
    first = [g for g in groups if g.is_quiet and g.cause is Cause.FIRST_TRACE]
    anchors = {id(group): f"miss-{group.shown.miss.id}" for group in loud}
    rest = loud[len(loud) if top is None else top :]
    for section, found in (("more", rest), ("small", small), ("eager", eager), ("first", first)):
        anchors |= {id(group): section for group in found}
    numbers = {id(group): number for number, group in enumerate(groups)}
    of_site = {
        site: number
        for number, (site, row) in enumerate(tally.functions.items())
        if row.function.file is not None
    }
    data, sources = Data(numbers, of_site, sort), Sources()
    for portion in portions:
        data.add(view, tally, portion, keys=keys)
        sources.add(view, portion, [_explained(view, tally, anchors, one) for one in portion])
    misses = data.misses()
    messages = page_messages.messages(view, loud[:top], anchors, numbers)
    sections = [
        ("plan", "What to change first", [*plan_page.section(view, plan)]),
        ("stale", "Out of date", [*_stale(view)]),
        ("hosts", "Processes of one job", [*hosts_page.section(view)]),
        (
            "functions",
            "Functions",
            [*page_tables.functions(view, tally, groups, anchors, of_site)],
        ),
        ("totals", "Stages and causes", [*_totals(tally)]),
        ("timeline", "Timeline", [_ICICLE] if misses else []),
        ("causes", "Why", [*messages, *page_messages.rest(rest)]),
        ("source", "Source", [*sources.html(view)]),
        ("small", "Of little cost", [*page_tables.small(view, small, numbers)]),
        ("eager", "Eager operations", [*page_tables.eager(view, eager, numbers)]),
        ("first", "First traces", [*page_tables.first(view, first, numbers)]),
        ("slow", "Slow at every call", [*page_tables.slow(view, tally)]),
        ("seconds", "Where the seconds went", [*_observed(view)]),
        ("misses", "All misses", [_LIST] if misses else []),
        ("processes", "Processes", [*page_tables.processes(view)]),
        ("words", "Glossary", [*page_tables.words(tally)]),
        ("data", "Data", [_data_said(tally, len(misses))]),
    ]
    sections = [section for section in sections if section[2]]
    yield from _head(view, tally, [(anchor, title) for anchor, title, _ in sections])
    for anchor, title, parts in sections:
        yield f'<section id="{anchor}"><h2>{title}</h2>\n'
        yield from (*(f"{part}\n" for part in parts), "</section>\n")
    yield "</main>\n"
    page_data = data.rows([anchors[id(group)] for group in groups], plan)
    page_data["processes"] = {
        run.id: ", ".join(map(clean, view.process(run.id))) for run in view.recording.runs
    }
    for name, fields in (("report", report_json.whole(view, tally, misses)), ("page", page_data)):
        yield f'<script type="application/octet-stream" id="{name}-data">'
        yield f"{packed(fields)}</script>\n"
    yield f"<script>{_script()}</script>\n</body>\n</html>\n"


def _explained(view: View, tally: Tally, anchors: dict[int, str], verdict: Verdict) -> str | None:
    """The anchor of a miss's explanation; for a folded nested miss, that of the outer one."""
    group: Group | None = tally.group_of(verdict)
    if group is None and (root := view.by_id.get(view.root(verdict.miss).id)) is not None:
        group = tally.group_of(root)
    return None if group is None else anchors.get(id(group))


def _stale(view: View) -> Iterator[str]:
    if (found := view.audited) is not None:
        yield f"<pre>{text(chr(10).join(stale.text(view, found, 110)))}</pre>"


def _observed(view: View) -> Iterator[str]:
    if lines := list(slow.section(view, 110)):
        yield f"<pre>{text(chr(10).join(lines))}</pre>"


def _head(view: View, tally: Tally, sections: Sequence[tuple[str, str]]) -> Iterator[str]:
    style, script = _asset("page.css"), _script()
    policy = f"default-src 'none'; style-src {_hashed(style)}; script-src {_hashed(script)}"
    what = text(origin(view))
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="generator" content="retrace">\n'  # identifies retrace's own pages
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n'
    yield f"<title>retrace: {what}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    yield '<a class="skip" href="#report">Skip to the report</a>\n<header>\n'
    yield f"<h1>{unbroken(_title(tally, what))}</h1>\n"
    yield f'<p class="quiet">{text(_made(view))}</p>\n'
    for phrase in (*lost(view), *unfinished(view)):
        yield f'<p class="lost"><strong>Warning:</strong> {text(phrase)}</p>'
    yield "</header>\n<nav aria-label='Sections'>"
    yield " ".join(f'<a href="#{anchor}">{title}</a>' for anchor, title in sections)
    yield f"{_TOOLS}</nav>\n"
    yield '<main id="report">\n'
    yield '<p id="none" role="status" hidden>No miss matches the filter.</p>\n'


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
        if run.jax  # otherwise it was never imported
    }
    texts = [clean(each) for each in sorted(made)]
    if runs:
        texts.append(datetime.fromtimestamp(runs[0].started, UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if len(runs) > 1:
        texts.append(count(len(runs), "process", "processes"))
    return ", ".join(texts)


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
        f'<td class="number">{seconds(spent)}</td><td>{page_tables.bar(spent, most)}</td></tr>'
    )


_TOOLS = (
    '<div class="tools" id="filters" hidden role="search" aria-label="Filter misses">'
    '<input id="filter" type="search" placeholder="Filter (press /)" autocomplete="off" '
    'aria-label="Name, cause, file or words of the explanation">'
    '<select id="of-cause" aria-label="Cause"></select>'
    '<select id="of-avoidable" aria-label="Avoidable"></select>'
    '<select id="of-file" aria-label="File"></select>'
    '<select id="of-process" aria-label="Process"></select>'
    '<output id="matching"></output>'
    '<button id="clear" type="button" hidden>Clear</button>'
    '<button id="unfold" type="button">Unfold all</button></div>'
)

_ICICLE = (
    '<p class="needs-script">The timeline needs JavaScript.</p>'
    '<figure id="icicle" hidden><div class="tools">'
    '<button type="button" data-do="in" aria-label="Zoom in">+</button>'
    '<button type="button" data-do="out" aria-label="Zoom out">&minus;</button>'
    '<button type="button" data-do="all">All</button>'
    '<label><input type="checkbox" id="gaps"> leave out time between misses</label></div>'
    '<div class="lanes"><canvas tabindex="0" role="application" aria-roledescription="timeline" '
    'aria-describedby="icicle-keys" aria-label="Misses over time"></canvas></div>'
    '<div id="tip" hidden></div><p id="said" class="visually-hidden" aria-live="polite"></p>'
    '<figcaption><span class="key trace"></span>trace <span class="key lower"></span>lower '
    '<span class="key compile"></span>compile '
    '<span class="key avoidable"></span>avoidable. Nested traces are drawn below the trace '
    "around them. "
    '<span id="icicle-keys">Zoom by the wheel with Ctrl, or after a click; drag to move. Arrow '
    "keys go from miss to miss, + and - zoom, 0 shows all, Enter opens the "
    "miss.</span></figcaption></figure>"
)

_LIST = (
    '<p class="needs-script">This list needs JavaScript; '
    "<code>retrace report --format json</code> has the same data.</p>"
    '<table id="all" hidden><thead></thead><tbody></tbody></table><p id="others"></p>'
)


def _data_said(tally: Tally, kept: int) -> str:
    phrase = "This page embeds the JSON report."
    if kept < tally.totals.misses:
        left = tally.totals.misses - kept
        phrase += (
            f" It holds {kept:,} misses; {left:,} more are in "
            "<code>retrace report --format json</code>."
        )
    return f'<p>{phrase}</p><button id="save" type="button" hidden>Save report.json</button>'


def _asset(file: str) -> str:
    return (_HERE / file).read_text(encoding="utf-8")


def _script() -> str:
    """The page's whole script in one piece: the policy allows it by its hash."""
    own = "".join(_asset(file) for file in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{own}}})();\n'


def _hashed(source: str) -> str:
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"

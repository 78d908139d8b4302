"""The messages of the page: each cause explained, with its programs side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from retrace.model import Verdict
from retrace.present import difference
from retrace.present.group import Group
from retrace.present.markup import prose, rows, text
from retrace.present.message import told
from retrace.present.operands import Operands
from retrace.present.sentences import explanation
from retrace.present.tally import rest_told
from retrace.present.view import View
from retrace.present.words import count, seconds
from retrace.reason.program import Comparison

_OPEN = 3
"""So many messages are unfolded; a click unfolds the others."""
_EDITS = 120
"""Lines of a program's difference."""
_ROOM = 160
"""Characters of an equation; the page breaks them as it needs."""
_TOKEN = re.compile(r"\w[\w.]*|[^\w\s]|\s+")


def messages(
    view: View, groups: Sequence[Group], anchors: dict[int, str], numbers: dict[int, int]
) -> Iterator[str]:
    """One message for each group."""
    for index, group in enumerate(groups):
        message, shown = told(view, group), group.shown
        is_open = " open" if index < _OPEN else ""
        yield f'<details class="message {message.worth}" id="{anchors[id(group)]}"'
        yield f' data-group="{numbers[id(group)]}"{is_open}>'
        yield f"<summary><span>{text(message.heading)}</span>"
        yield f' <span class="at">{text(message.place)}</span>'
        yield f' <span class="cost">{seconds(group.seconds)}</span></summary>'
        yield f"<p><code>{group.cause.value}</code> {prose(explanation(view, shown))}</p>"
        yield f"<table>{''.join(rows(message.lines))}</table>"
        yield from _call(view, shown)
        yield from _difference(view, shown)
        yield f'<p class="quiet"><code>retrace show {text(shown.miss.id)}</code></p></details>'


def rest(groups: Sequence[Group]) -> Iterator[str]:
    """What of the causes is counted alone."""
    if groups:
        yield f'<p id="more">And {rest_told(groups)}.</p>'


def _call(view: View, verdict: Verdict) -> Iterator[str]:
    site = verdict.miss.call_site
    if site is not None and site.source:
        at = view.called_from(verdict.miss) or ""
        said = f'<span class="at">{text(at)}</span>{text(site.source.strip())}'
        yield f'<pre tabindex="0">{said}</pre>'


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
    operands = Operands.of(verdict.miss)
    yield "<details class='program'><summary>The programs side by side, "
    yield f"{prose(difference.sizes(old, new))}</summary>"
    yield f'<table class="diff"><thead><tr><th scope="col">{text(before)}</th>'
    yield f'<th scope="col">{text(view.short_label(verdict.miss))}</th></tr></thead><tbody>'
    for mark, x, y in found[:_EDITS]:
        if mark == "@":
            yield '<tr class="gap"><td colspan="2">...</td></tr>'
            continue
        pair = (old, x), (new, y)
        kinds = ("removed", "added") if mark != " " else ("", "")
        said = difference.texts(*pair, _ROOM, operands)
        cells = "".join(
            f'<td class="{kind}"><code>{shown}</code> '
            f'<span class="at">{text(difference.written(view, side))}</span></td>'
            if shown
            else "<td></td>"
            for kind, shown, side in zip(kinds, marked(*said), pair, strict=True)
        )
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table>"
    if len(found) > _EDITS:
        yield f"<p>and {count(len(found) - _EDITS, 'more line')}</p>"
    yield "</details>"


def marked(old: str, new: str) -> tuple[str, str]:
    """Two lines that stand for each other as HTML, with the tokens marked that differ.

    Where one of them is missing, or they have nothing in common, no token is.
    """
    if not old or not new or old == new:
        return text(old), text(new)
    # Imported here: most pages have no programs that differ.
    from difflib import SequenceMatcher

    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    told: tuple[list[str], list[str]] = ([], [])
    for kind, a, b, c, d in matcher.get_opcodes():
        for out, part in zip(told, ("".join(before[a:b]), "".join(after[c:d])), strict=True):
            if part:
                out.append(text(part) if kind == "equal" else f"<mark>{text(part)}</mark>")
    return "".join(told[0]), "".join(told[1])

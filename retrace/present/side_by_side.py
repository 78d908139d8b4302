"""Below a message of the page or of a notebook: the line that called, and both programs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrace.model import Verdict
from retrace.present import difference
from retrace.present.markup import prose, text
from retrace.present.operands import Operands
from retrace.present.view import View
from retrace.present.words import count
from retrace.reason.program import Comparison

_ROOM = 160
"""Characters of an equation; the page breaks them as it needs."""
_TOKEN = re.compile(r"\w[\w.]*|[^\w\s]|\s+")


def call(view: View, verdict: Verdict) -> Iterator[str]:
    """The line that called, with its source."""
    site = verdict.miss.call_site
    if site is not None and site.source:
        at = view.called_from(verdict.miss) or ""
        said = f'<span class="at">{text(at)}</span>{text(site.source.strip())}'
        yield f"<pre>{said}</pre>"


def programs(view: View, verdict: Verdict, most: int) -> Iterator[str]:
    """What differs from the program of the closest earlier call, side by side.

    Args:
        view: all that is known.
        verdict: of the miss.
        most: so many lines of it.
    """
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
    yield "<details class='program'><summary>Programs side by side: "
    yield f"{prose(difference.sizes(old, new))}</summary>"
    yield f'<table class="diff"><thead><tr><th scope="col">{text(before)}</th>'
    yield f'<th scope="col">{text(view.short_label(verdict.miss))}</th></tr></thead><tbody>'
    for mark, x, y in found[:most]:
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
    if len(found) > most:
        yield f"<p>and {count(len(found) - most, 'more line')}</p>"
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

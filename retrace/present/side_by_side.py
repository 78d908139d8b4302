"""Below a message of the page or notebook: the calling line, and both programs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrace.model import Verdict
from retrace.present import difference
from retrace.present.markup import prose, text
from retrace.present.operands import Operands
from retrace.present.view import View
from retrace.present.words import count

_MAX_EQUATION = 160
"""Characters of an equation; the page breaks lines as needed."""
_TOKEN = re.compile(r"\w[\w.]*|[^\w\s]|\s+")


def call(view: View, verdict: Verdict) -> Iterator[str]:
    """The calling line, with its source."""
    site = verdict.miss.call_site
    if site is not None and site.source:
        at = view.called_from(verdict.miss) or ""
        phrase = f'<span class="at">{text(at)}</span>{text(site.source.strip())}'
        yield f"<pre>{phrase}</pre>"


def programs(view: View, verdict: Verdict, most: int) -> Iterator[str]:
    """What differs from the program of the closest earlier call, side by side.

    Args:
        view: everything that is known.
        verdict: the verdict on the miss.
        most: the maximum number of lines.
    """
    program = verdict.program
    sides = None if program is None else program.listings()
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
        phrase = difference.texts(*pair, _MAX_EQUATION, operands)
        cells = "".join(
            f'<td class="{kind}"><code>{shown}</code> '
            f'<span class="at">{text(difference.written(view, side))}</span></td>'
            if shown
            else "<td></td>"
            for kind, shown, side in zip(kinds, marked(*phrase), pair, strict=True)
        )
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table>"
    if len(found) > most:
        yield f"<p>and {count(len(found) - most, 'more line')}</p>"
    yield "</details>"


def marked(old: str, new: str) -> tuple[str, str]:
    """Two matching lines as HTML, with differing tokens marked.

    No tokens are marked if one line is missing or they have nothing in common.
    """
    if not old or not new or old == new:
        return text(old), text(new)
    # Imported here because most pages have no differing programs.
    from difflib import SequenceMatcher

    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    sides: tuple[list[str], list[str]] = ([], [])
    for kind, a, b, c, d in matcher.get_opcodes():
        for out, part in zip(sides, ("".join(before[a:b]), "".join(after[c:d])), strict=True):
            if part:
                out.append(text(part) if kind == "equal" else f"<mark>{text(part)}</mark>")
    return "".join(sides[0]), "".join(sides[1])

"""Text as HTML. Names, values and sources of a program may hold anything, so it is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

from retrace.present.message import Line
from retrace.present.words import clean

_SPAN = re.compile(r"`([^`]*)`")
_BY_LINE = ("program", "cost")


def text(phrase: str) -> str:
    """Text that a page shows unchanged, also inside an attribute."""
    return html.escape(clean(phrase, None))


_UNIT = re.compile(r"(?<=\d) (?=(?:s|MB)\b)")


def unbroken(shown: str) -> str:
    """Escaped text in which no line breaks between a number and its unit."""
    return _UNIT.sub("&nbsp;", shown)


def prose(phrase: str) -> str:
    """Text in which backticks mark code."""
    parts = _SPAN.split(phrase)
    shown = [
        f"<code>{text(p)}</code>" if i % 2 else unbroken(text(p)) for i, p in enumerate(parts)
    ]
    # A browser may break a line after any hyphen, including an arrow's.
    return "".join(shown).replace("-&gt;", '<span class="turn">-&gt;</span>')


def rows(lines: Iterable[Line]) -> Iterator[str]:
    """The lines of a message as rows of a table."""
    for line in lines:
        row = ' class="fix"' if line.label == "fix" else ""
        if line.label in _BY_LINE:
            cells = "<br>".join(map(prose, line.cells))
        else:
            cells = "".join(f"<span>{prose(cell)}</span>" for cell in line.cells)
        head = f'<th scope="row">{text(line.label)}</th>' if line.label else "<td></td>"
        yield f"<tr{row}>{head}<td>{cells}</td></tr>"

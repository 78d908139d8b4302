"""How a message stands on a terminal: in columns, as wide as it is, in colour or plain."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from retrace.model import Verdict
from retrace.present.group import Group
from retrace.present.message import Line, Message, told
from retrace.present.view import View
from retrace.present.words import cells, padded

Paint: TypeAlias = Callable[[str, str], str]
"""Takes a text and a style to the text in that style."""

_STYLES = {"loud": "1;31", "warm": "33", "bold": "1", "dim": "2", "fix": "32"}
_LABEL = 10
_TIED = "\x1f"
"""A space that no line ends at, between a number and its unit."""
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:s|ms|[kMGT]?B)\b)")
_SIDE = "   "
"""Between parts that stand side by side."""
_WHOLE = 26
"""Characters of such a part that no line ends in."""
_PARTS = re.compile(r"[A-Z]?(?:[^./_,(\[A-Z]|(?<=[A-Z_])[A-Z])*[./_,(\[]*|.")
INDENT = 2 + _LABEL
"""Columns before what a label says."""


def colour(text: str, style: str) -> str:
    """Text in ANSI colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def plain(text: str, style: str) -> str:  # noqa: ARG001
    """Text as it is."""
    return text


def message(view: View, verdict: Verdict, width: int = 80, paint: Paint = plain) -> str:
    """One miss as a program that is still running tells it."""
    return group_message(view, Group.alone(verdict), width, paint)


def group_message(view: View, group: Group, width: int = 80, paint: Paint = plain) -> str:
    """The misses of one function and cause, as one miss is told."""
    return written(told(view, group), width, paint)


def written(message: Message, width: int = 80, paint: Paint = plain) -> str:
    """A message as text."""
    return "\n".join(parts(message, width, paint, "retrace: "))


def parts(message: Message, width: int, paint: Paint, prefix: str = "") -> Iterator[str]:
    """A message line by line."""
    style = {"yes": "loud", "maybe": "warm", "no": "bold"}[message.worth]
    said, at = prefix + message.heading, message.place
    gap = width - cells(said) - cells(at)
    if gap >= 2:
        yield paint(said, style) + " " * gap + at
    else:
        first, *rest = wrapped(said, width, 4)
        yield paint(first, style)
        yield from rest
        yield " " * (width - cells(at)) + at
    yield from rows(message.lines, width, paint)


def rows(body: Iterable[Line], width: int, paint: Paint) -> Iterator[str]:
    """Labels, and beside them what they say."""
    body = list(body)
    # The component and path of several changes stand in columns.
    changed = [
        line.cells for line in body if line.label in ("because", "") and len(line.cells) > 1
    ]
    pads = [
        max((cells(row[i]) for row in changed if len(row) > i + 1), default=0) for i in range(2)
    ]
    for line in body:
        told = list(line.cells)
        for index in range(min(2, len(told) - 1) if line.cells in changed else 0):
            told[index] = padded(told[index], min(pads[index], 28))
        for number, text in enumerate(_fitted(told, width - INDENT)):
            label = line.label.ljust(_LABEL) if number == 0 else " " * _LABEL
            if line.label == "fix":
                yield f"  {paint(label, 'fix')}{paint(text, 'fix')}"
            else:
                yield f"  {paint(label, 'dim')}{text}".rstrip()


def _fitted(told: list[str], width: int) -> list[str]:
    """Cells side by side where they fit, else below each other."""
    out: list[str] = []
    row = ""
    for cell in told:
        if row and cells(row) + 3 + cells(cell) <= width:
            row += "   " + cell
            continue
        if row:
            out.append(row)
        indent = "" if not out else "  "
        *full, row = wrapped(indent + cell, width, len(indent))
        out += full
    return [*out, row]


def wrapped(text: str, width: int, indent: int) -> list[str]:
    """Text in lines of a width, all but the first indented."""
    if cells(text) <= width:
        return [text]
    # `textwrap` counts characters: a wide one is given a second, which a line's end may part.
    filled = "".join([f"{one}\0" if cells(one) == 2 else one for one in text])
    lines = _Wrapper(
        max(width, 20) - (filled != text),
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    ).wrap(_BEFORE_UNIT.sub(_TIED, _tied(filled)))
    return [line.replace("\0", "").replace(_TIED, " ") for line in lines] or [""]


def _tied(text: str) -> str:
    """Parts side by side, as in `trace 0.3 s   lower 0.1 s`: a line ends between two of them."""
    if _SIDE not in text.strip():
        return text
    parts = [(part, part.strip()) for part in text.split(_SIDE)]
    return _SIDE.join(
        part if len(said) > _WHOLE else part.replace(said, said.replace(" ", _TIED))
        for part, said in parts
    )


class _Wrapper(textwrap.TextWrapper):
    """Parts a word that is longer than a line after its dots and before its capitals."""

    def _split(self, text: str) -> list[str]:
        room = self.width - len(self.subsequent_indent)
        return [
            part
            for word in super()._split(text)
            for part in ([word] if len(word) <= room else _PARTS.findall(word))
        ]


def key(verdict: Verdict, width: int, *, whole: bool = True) -> Iterator[str]:
    """The cache key of a miss, and what changed in it."""
    from retrace.present.key import key_lines

    for text in key_lines(verdict, whole=whole):
        indent = max(6, len(text) - len(text.lstrip()) + 2)
        yield from wrapped(text, width, indent) if text else [""]

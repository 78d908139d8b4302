"""Lays out a message for a terminal: in columns, fitted to its width, coloured or plain."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from retrace.model import Verdict
from retrace.present.group import Group
from retrace.present.message import Line, Message, compose
from retrace.present.view import View
from retrace.present.words import cells, padded
from retrace.regex import regex

Paint: TypeAlias = Callable[[str, str], str]
"""Applies a style to a text."""

_STYLES = {"loud": "1;31", "warm": "33", "bold": "1", "dim": "2", "fix": "32"}
_LABEL = 10
_TIED = "\x1f"
"""A space at which no line is broken, between a number and its unit."""
_BEFORE_UNIT = regex(r"(?<=\d) (?=(?:s|ms|[kMGT]?B)\b)")
_SIDE = "   "
"""The separator of parts that stand side by side."""
_MAX_TIED = 26
"""Maximum length of such a part for it to stay on one line."""
_PARTS = regex(r"[A-Z]?(?:[^./_,(\[A-Z]|(?<=[A-Z_])[A-Z])*[./_,(\[]*|.")
INDENT = 2 + _LABEL
"""The number of columns before the text of a labelled line."""


def colour(text: str, style: str) -> str:
    """Text in ANSI colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def plain(text: str, style: str) -> str:  # noqa: ARG001
    """Text as it is."""
    return text


def message(view: View, verdict: Verdict, width: int = 80, paint: Paint = plain) -> str:
    """The message on one miss of a running program."""
    return group_message(view, Group.alone(verdict), width, paint)


def group_message(view: View, group: Group, width: int = 80, paint: Paint = plain) -> str:
    """The message on the misses of one function and cause."""
    return written(compose(view, group), width, paint)


def written(message: Message, width: int = 80, paint: Paint = plain) -> str:
    """A message as text."""
    return "\n".join(parts(message, width, paint, "retrace: "))


def parts(message: Message, width: int, paint: Paint, prefix: str = "") -> Iterator[str]:
    """A message line by line."""
    style = {"yes": "loud", "maybe": "warm", "no": "bold"}[message.worth]
    text, at = prefix + message.heading, message.place
    gap = width - cells(text) - cells(at)
    if gap >= 2:
        yield paint(text, style) + " " * gap + at
    else:
        first, *rest = wrapped(text, width, 4)
        yield paint(first, style)
        yield from rest
        yield " " * (width - cells(at)) + at
    yield from rows(message.lines, width, paint)


def rows(body: Iterable[Line], width: int, paint: Paint) -> Iterator[str]:
    """Labels with their texts beside them."""
    body = list(body)
    # The components and paths of several changes stand in columns.
    changed = [
        line.cells for line in body if line.label in ("because", "") and len(line.cells) > 1
    ]
    pads = [
        max((cells(row[i]) for row in changed if len(row) > i + 1), default=0) for i in range(2)
    ]
    for line in body:
        items = list(line.cells)
        for index in range(min(2, len(items) - 1) if line.cells in changed else 0):
            items[index] = padded(items[index], min(pads[index], 28))
        for number, text in enumerate(_fitted(items, width - INDENT)):
            label = line.label.ljust(_LABEL) if number == 0 else " " * _LABEL
            if line.label == "fix":
                yield f"  {paint(label, 'fix')}{paint(text, 'fix')}"
            else:
                yield f"  {paint(label, 'dim')}{text}".rstrip()


def _fitted(items: list[str], width: int) -> list[str]:
    """Cells side by side if they fit, otherwise below each other."""
    out: list[str] = []
    row = ""
    for cell in items:
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
    """Text in lines of a given width, all but the first indented."""
    if cells(text) <= width:
        return [text]
    # `textwrap` counts characters, so a wide one gets a filler that may end a line.
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
    """Ties parts such as `trace 0.3 s   lower 0.1 s`, so that lines only break between them."""
    if _SIDE not in text.strip():
        return text
    parts = [(part, part.strip()) for part in text.split(_SIDE)]
    return _SIDE.join(
        part if len(phrase) > _MAX_TIED else part.replace(phrase, phrase.replace(" ", _TIED))
        for part, phrase in parts
    )


class _Wrapper(textwrap.TextWrapper):
    """Breaks words longer than a line after dots and before capitals."""

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

"""Shows two programs line by line: side by side, or below each other if space is narrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from retrace.compare.alignment import align, hunks
from retrace.compare.equation import primitive
from retrace.compare.source_lines import changed_pairs, place
from retrace.model import Listing
from retrace.present.layout import wrapped
from retrace.present.operands import Operands
from retrace.present.program import at
from retrace.present.view import View
from retrace.present.words import clean, count, cut, cut_apart

_SIDE_BY_SIDE = 120
_INNER = re.compile(r"@[0-9a-f]{32}")
_CONTEXT = 2
_MAX_LINES = 60
_MIN_NAME_ROOM = 16
"""Minimum columns next to a primitive's name for it to be kept whole."""

Row = tuple[str, int | None, int | None]
Side = tuple[Listing, int | None]
"""An equation of a program, or None if it has no counterpart."""


def equations(view: View, old: Side, new: Side, room: int, operands: Operands) -> tuple[str, str]:
    """Two matching equations, each in `room` columns; "" for a missing one.

    `mul(tanh, 2.0:f32[]) -> f32[3]   model.py:41`. The line is kept whole; from the rest, what
    differs.
    """
    places = [_place(view, side, room) for side in (old, new)]
    before, after = texts(old, new, room - max(map(len, places)), operands)
    return before + places[0], after + places[1]


def texts(old: Side, new: Side, room: int, operands: Operands) -> tuple[str, str]:
    """The same, without source lines."""
    before, after = _text(old, new, operands), _text(new, old, operands)
    # Matching equations have the same primitive.
    name = 0 if old[1] is None or new[1] is None else len(primitive(old[0].equations[old[1]]))
    if room - name < _MIN_NAME_ROOM:
        name = 0
    rests = cut_apart(before[name:], after[name:], room - name)
    return before[:name] + rests[0], after[:name] + rests[1]


def written(view: View, side: Side) -> str:
    """The source line of an equation, or "" if unknown."""
    listing, index = side
    frame = None if index is None else place(listing, index)
    return "" if frame is None else at(view, frame)


def _place(view: View, side: Side, room: int) -> str:
    where, most = written(view, side), max(room // 2, 16)
    if not where:
        return ""
    return f"   {where}" if len(where) <= most else f"   ...{where[3 - most :]}"


def _text(side: Side, other: Side, operands: Operands) -> str:
    """An equation, with parameters shared by both kept short."""
    listing, index = side
    if index is None:
        return ""
    name, _, results, *parameters = listing.equations[index].split("\t")
    beside = "" if other[1] is None else other[0].equations[other[1]]
    differing = set(parameters) - set(beside.split("\t")) if beside else ()
    # A sub-program is named by its hash, which only tells that it differs.
    phrases = [
        _INNER.sub("another", text) if text in differing else cut(text, 40)
        for text in parameters
        if not text.endswith(("=None", "weak_type=False")) or text in differing
        if not _INNER.search(text) or text in differing
    ]
    inside = f"[{' '.join(phrases)}]" if phrases else ""
    return clean(
        f"{name}{inside}({', '.join(operands.names(listing, index))}) -> {results}", None
    )


def lines(
    view: View,
    old: Listing,
    new: Listing,
    width: int = 80,
    paint: Callable[[str, str], str] = lambda text, _: text,
    operands: Operands | None = None,
) -> Iterator[str]:
    """The equations that differ, with a few lines of context."""
    operands = operands or Operands()
    found = list(rows(old, new))
    yield from wrapped(sizes(old, new), width, 2)
    wide = width >= _SIDE_BY_SIDE
    half = (width - 5) // 2
    for mark, x, y in found[:_MAX_LINES]:
        before, after = equations(view, (old, x), (new, y), half if wide else width - 4, operands)
        if mark == "@":
            yield paint("  ...", "dim")
        elif wide:
            text = f"  {before:<{half}} {mark} {after}".rstrip()
            yield text if mark == " " else paint(text, "warm")
        elif mark == " ":
            yield f"    {after}"
        else:
            if before:
                yield _marked("  - ", before, after, "loud", paint)
            if after:
                yield _marked("  + ", after, before, "fix", paint)
    if len(found) > _MAX_LINES:
        yield f"  and {count(len(found) - _MAX_LINES, 'more line')}"


def _marked(
    sign: str, text: str, other: str, style: str, paint: Callable[[str, str], str]
) -> str:
    """A line of one side; words that its counterpart lacks stand out."""
    if not other:
        return paint(sign + text, style)
    beside = set(other.split(" "))
    phrases = [word if word in beside else paint(word, style) for word in text.split(" ")]
    return paint(sign, style) + " ".join(phrases)


def sizes(old: Listing, new: Listing) -> str:
    """The number of equations of each."""
    text = f"{count(old.size, 'equation')} -> {new.size:,}"
    own = len(old.equations), len(new.equations)
    if own != (old.size, new.size):
        text += f"; {own[0]:,} -> {own[1]:,} shown (sub-jaxprs not counted)"
    return text


def rows(old: Listing, new: Listing) -> Iterator[Row]:
    """What differs, with some context: how, and the index on either side.

    ` ` both have it, `|` matching but different, `<` only in the old one, `>` only in the new
    one, `@` something is left out.
    """
    alignment = align(old.equations, new.equations)
    end = 0
    for hunk in hunks(alignment, len(old.equations), len(new.equations)):
        shift = hunk.new - hunk.old
        for x in range(end, min(end + _CONTEXT, hunk.old)) if end else ():
            yield " ", x, x + shift
        start = max(hunk.old - _CONTEXT, end + _CONTEXT if end else 0)
        if start > (end + _CONTEXT if end else 0):
            yield "@", None, None
        for x in range(min(start, hunk.old), hunk.old):
            yield " ", x, x + shift
        for x, y in changed_pairs(old, new, hunk):
            yield ("|" if x is not None and y is not None else "<" if y is None else ">"), x, y
        end = hunk.old_end
    tail = min(end + _CONTEXT, len(old.equations))
    shift = len(new.equations) - len(old.equations)
    if end:
        for x in range(end, tail):
            yield " ", x, x + shift

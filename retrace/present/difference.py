"""Two programs line by line: one below the other where it is narrow, else side by side."""

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
_MOST = 60
_LEAST = 16
"""Columns that must be left beside the name of a primitive for it to be kept whole."""

Row = tuple[str, int | None, int | None]
Side = tuple[Listing, int | None]
"""An equation of a program; None where it has no counterpart."""


def equations(view: View, old: Side, new: Side, room: int, operands: Operands) -> tuple[str, str]:
    """Two that stand for one another, each in so many columns; "" for one that is missing.

    `mul(tanh, 2.0:f32[]) -> f32[3]   model.py:41`. The line is kept, and of the
    rest what differs.
    """
    places = [_place(view, side, room) for side in (old, new)]
    before, after = texts(old, new, room - max(map(len, places)), operands)
    return before + places[0], after + places[1]


def texts(old: Side, new: Side, room: int, operands: Operands) -> tuple[str, str]:
    """The same without their places."""
    before, after = _text(old, new, operands), _text(new, old, operands)
    # Those that are held against each other are of one primitive.
    name = 0 if old[1] is None or new[1] is None else len(primitive(old[0].equations[old[1]]))
    if room - name < _LEAST:
        name = 0
    rests = cut_apart(before[name:], after[name:], room - name)
    return before[:name] + rests[0], after[:name] + rests[1]


def written(view: View, side: Side) -> str:
    """The line of the program that an equation stands for; "" where that is not known."""
    listing, index = side
    frame = None if index is None else place(listing, index)
    return "" if frame is None else at(view, frame)


def _place(view: View, side: Side, room: int) -> str:
    where, most = written(view, side), max(room // 2, 16)
    if not where:
        return ""
    return f"   {where}" if len(where) <= most else f"   ...{where[3 - most :]}"


def _text(side: Side, other: Side, operands: Operands) -> str:
    """An equation; parameters that it shares with the other are kept short."""
    listing, index = side
    if index is None:
        return ""
    name, _, results, *parameters = listing.equations[index].split("\t")
    beside = "" if other[1] is None else other[0].equations[other[1]]
    differing = set(parameters) - set(beside.split("\t")) if beside else ()
    # A sub-program has a hash for a name: it says that there is another one, and no more.
    told = [
        _INNER.sub("another", text) if text in differing else cut(text, 40)
        for text in parameters
        if not text.endswith(("=None", "weak_type=False")) or text in differing
        if not _INNER.search(text) or text in differing
    ]
    inside = f"[{' '.join(told)}]" if told else ""
    return clean(f"{name}{inside}({', '.join(operands.told(listing, index))}) -> {results}", None)


def lines(
    view: View,
    old: Listing,
    new: Listing,
    width: int = 80,
    paint: Callable[[str, str], str] = lambda text, _: text,
    operands: Operands | None = None,
) -> Iterator[str]:
    """The equations that differ, with a few around them."""
    operands = operands or Operands()
    found = list(rows(old, new))
    yield from wrapped(sizes(old, new), width, 2)
    wide = width >= _SIDE_BY_SIDE
    half = (width - 5) // 2
    for mark, x, y in found[:_MOST]:
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
    if len(found) > _MOST:
        yield f"  and {count(len(found) - _MOST, 'more line')}"


def _marked(
    sign: str, text: str, other: str, style: str, paint: Callable[[str, str], str]
) -> str:
    """A line of one side; of one with a counterpart, the words that are not in that stand out."""
    if not other:
        return paint(sign + text, style)
    beside = set(other.split(" "))
    told = [word if word in beside else paint(word, style) for word in text.split(" ")]
    return paint(sign, style) + " ".join(told)


def sizes(old: Listing, new: Listing) -> str:
    """How many equations each has."""
    said = f"{count(old.size, 'equation')} -> {new.size:,}"
    own = len(old.equations), len(new.equations)
    if own != (old.size, new.size):
        said += f"; {own[0]:,} -> {own[1]:,} shown (sub-jaxprs not counted)"
    return said


def rows(old: Listing, new: Listing) -> Iterator[Row]:
    """What differs, with a few equations around: how, and the index on either side.

    ` ` both have it, `|` one stands for the other, `<` only the old has it, `>` only the
    new; `@` something is left out.
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

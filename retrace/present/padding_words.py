"""What added rows change, in words: what to mask, and what rows go through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from retrace.compare.along import Along, Step
from retrace.model import Frame
from retrace.present.words import listed, quoted
from retrace.present.words import place as words_of


def masked(along: Along) -> str:
    """What to do about added rows, briefly."""
    if along.separate:
        return "drop the added rows from the results: no other row depends on them"
    text = _masked(along)
    if along.counts:
        count = "a result is the size itself: return the number of real rows (`mask.sum()`)"
        text = f"{text}; {count}" if along.masked or not along.whole else count
    if not along.returned:
        return text
    return (
        f"{text}; its result has added rows as well: cut them off with NumPy (`result[:n]`; "
        "`result[-1]` is one of them)"
    )


def _masked(along: Along) -> str:
    named = [one for one in along.masked if one.primitive is not None]
    sized = [one for one in along.masked if one.primitive is None]
    computes = f"the program computes with {steps_of(sized)}" if sized else ""
    if named and sized:
        counted = f"use the number of real rows where {computes}"
        return f"mask the padding in {steps_of(named, 4)}, and {counted}, or results change"
    if named:
        return f"mask the padding in {steps_of(named, 4)}, or results change"
    if sized:
        return f"mask the padding: {computes}"
    return "mask the padding where results depend on it"


def steps_of(steps: Sequence[Step], most: int = 2) -> str:
    """`reduce_sum` at model.py:40 and 2 more."""
    known = sorted(
        steps, key=lambda one: (one.primitive is None, not one.is_draw, one.place is None)
    )
    texts = [
        f"{'the size itself' if one.primitive is None else quoted(one.primitive)}{_at(one.place)}"
        for one in known
    ]
    return listed(list(dict.fromkeys(texts)), most)


def _at(place: Frame | None) -> str:
    return "" if place is None else f" at {words_of(PurePath(place.file).name, place.line)}"

"""Programs that were compiled several times, and what their executables hold, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from retrace.costs.copies import Copies, duplicates
from retrace.model import Miss
from retrace.present.layout import Paint, wrapped
from retrace.present.slow_advice import size
from retrace.present.view import View
from retrace.present.words import count, seconds, times

_MAX_PROGRAMS = 3
"""Maximum number of programs in a report."""


def found(view: View) -> list[tuple[Miss, Copies]]:
    """Programs that have three executables or more, each with its first miss."""
    misses = {verdict.miss.id: verdict.miss for verdict in view.verdicts}
    recording = replace(view.recording, misses=list(misses.values()))
    return [(misses[one.misses[0]], one) for one in duplicates(recording)]


def section(view: View, width: int, paint: Paint) -> Iterator[str]:
    """The lines of a report; nothing if nothing was observed."""
    rows = found(view)
    if not rows:
        return
    phrase = f"{count(len(rows), 'program')} compiled three times or more, each with its memory"
    yield from (paint(line, "bold") for line in wrapped(phrase, width, 2))
    for miss, one in islice(rows, _MAX_PROGRAMS):
        text = f"{view.short_label(miss)} ({view.place(miss)}) compiled {summary(one)}"
        yield from (f"  {line}" for line in wrapped(text, width - 2, 2))
    if len(rows) > _MAX_PROGRAMS:
        yield f"  and {count(len(rows) - _MAX_PROGRAMS, 'more program')}"


def summary(one: Copies) -> str:
    """`4 times, 1.8 s for all but the first; the 4 executables hold 4.8 MB of code`."""
    number = len(one.misses)
    text = times(number)
    if one.differ:
        text += " (with other captured arrays)"
    text += f", {seconds(one.seconds)} for all but the first; "
    holds: list[str] = []
    if one.bytes:
        holds.append(f"{size(one.bytes)} of code")
    if one.constants >= 1000:
        holds.append(f"{size(one.constants)} of captured arrays")
    if holds:
        text += f"the {number:,} executables hold {' and '.join(holds)}"
    if one.bytes:
        return text
    # If XLA gives no code size, the size of the program is a substitute.
    made = count(one.equations, "equation")
    if one.text:
        made += f" ({size(one.text)} of StableHLO)"
    text += f", and each the code of {made}" if holds else f"each executable is of {made}"
    return f"{text}, whose size XLA does not report here"

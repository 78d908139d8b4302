"""Programs that were compiled more than once, in words and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from retrace.present.layout import Paint, plain, wrapped
from retrace.present.words import clean, count, place, seconds
from retrace.runs.again import Program

_MOST = 5
_WORTH = 0.1
"""Seconds from which on it is worth a word."""


def text(
    programs: Sequence[Program],
    what: Literal["process", "test"],
    bases: Sequence[str] = (),
    width: int = 80,
    paint: Paint = plain,
) -> Iterator[str]:
    """A paragraph on what several processes, or tests, compiled; nothing where it is little.

    Args:
        programs: those that more than one compiled, most spared first.
        what: what has compiled them.
        bases: folders to which paths are shortened.
        width: columns.
        paint: `colour` or `plain`.
    """
    spared = sum(one.spared for one in programs)
    if spared < _WORTH:
        return
    times, spent = sum(one.times for one in programs), sum(one.seconds for one in programs)
    several = "processes" if what == "process" else "tests"
    said = (
        f"{count(len(programs), 'program')} compiled by several {several}: {times:,} times, "
        f"{seconds(spent)}; an on-disk cache for all of them would save up to {seconds(spared)}"
    )
    small = sum(one.spared for one in programs if not one.is_stored)
    how = "set JAX_COMPILATION_CACHE_DIR"
    if small >= _WORTH:
        of_it = "" if small == spared else f"; for {seconds(small)} of it"
        how += (
            f"{of_it} and JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0, since JAX does not "
            "store what compiles within a second"
        )
    lines = list(wrapped(f"{said} ({how})", width, 2))
    yield paint(lines[0], "bold")
    yield from lines[1:]
    for one in programs[:_MOST]:
        at = "" if one.file is None else f"   {place(one.file, one.line, bases)}"
        row = f"  {clean(one.name, 40)}   {one.times:,} times in {len(one.places):,} {several}"
        yield from wrapped(f"{row}   {seconds(one.seconds)}{at}", width, 6)
    if len(programs) > _MOST:
        yield f"  and {count(len(programs) - _MOST, 'more program')}"


def data(programs: Sequence[Program]) -> list[dict[str, Any]]:
    """`compiled_again` of the JSON report."""
    return [
        {
            "function": clean(one.name),
            "file": one.file,
            "line": one.line,
            "times": one.times,
            "processes": len(one.places),
            "seconds": one.seconds,
            "saved": [0.0, one.spared],
            "stored_by_default": one.is_stored,
        }
        for one in programs
    ]

"""Programs that were compiled more than once, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from retrace.present.layout import Paint, plain, wrapped
from retrace.present.words import clean, count, listed, place, seconds
from retrace.runs.again import Program
from retrace.runs.constants import Family

_MAX_ROWS = 5
_MIN_SECONDS = 0.1
"""Minimum seconds to be worth mentioning."""
_MAX_VALUES = 5
_MAX_TESTS = 3

What: TypeAlias = Literal["process", "test"]


def text(
    programs: Sequence[Program],
    families: Sequence[Family],
    what: What,
    bases: Sequence[str] = (),
    width: int = 80,
    paint: Paint = plain,
) -> Iterator[str]:
    """One or two paragraphs on what several processes or tests compiled; often nothing.

    Args:
        programs: programs compiled more than once, largest saving first.
        families: programs that differ only in constants, largest saving first.
        what: what compiled them.
        bases: folders that paths are shortened to.
        width: columns.
        paint: `colour` or `plain`.
    """
    first = list(_same(programs, what, bases, width, paint))
    second = list(_alone(families, what, bases, width, paint))
    yield from first
    if first and second:
        yield ""
    yield from second


def _head(phrase: str, width: int, paint: Paint) -> Iterator[str]:
    first, *rest = wrapped(phrase, width, 2)
    yield paint(first, "bold")
    yield from rest


def _at(program: Program, bases: Sequence[str]) -> str:
    """The place of its definition, to follow the other cells of the row."""
    return "" if program.file is None else f"   {place(program.file, program.line, bases)}"


def _several(what: What) -> str:
    return "processes" if what == "process" else "tests"


def _same(
    programs: Sequence[Program], what: What, bases: Sequence[str], width: int, paint: Paint
) -> Iterator[str]:
    """Programs compiled more than once."""
    spared = sum(one.spared for one in programs)
    if spared < _MIN_SECONDS:
        return
    times, spent = sum(one.times for one in programs), sum(one.seconds for one in programs)
    several = _several(what)
    how_often = "by several processes" if what == "process" else "more than once by the tests"
    phrase = (
        f"{count(len(programs), 'program')} compiled {how_often}: {times:,} times, "
        f"{seconds(spent)}; an on-disk cache for all of them would save up to {seconds(spared)}"
    )
    small = sum(one.spared for one in programs if not one.is_stored)
    how = "set JAX_COMPILATION_CACHE_DIR"
    if small >= _MIN_SECONDS:
        of_it = "" if small == spared else f"; for {seconds(small)} of it"
        how += (
            f"{of_it} and JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0, because JAX does not "
            "store programs that compile within a second"
        )
    yield from _head(f"{phrase} ({how})", width, paint)
    for one in programs[:_MAX_ROWS]:
        at = _at(one, bases)
        where = count(len(one.places), what, several)
        row = f"  {clean(one.name, 40)}   {one.times:,} times in {where}"
        yield from wrapped(f"{row}   {seconds(one.seconds)}{at}", width, 6)
        if what == "test":
            tests = [clean(test.rpartition("/")[2], 100) for test in one.places]
            yield from wrapped(f"      in {listed(tests, _MAX_TESTS)}", width, 9)
    if len(programs) > _MAX_ROWS:
        yield f"  and {count(len(programs) - _MAX_ROWS, 'more program')}"


def _alone(
    families: Sequence[Family], what: What, bases: Sequence[str], width: int, paint: Paint
) -> Iterator[str]:
    """Programs that differ only in constants."""
    spared = sum(one.spared for one in families)
    if spared < _MIN_SECONDS:
        return
    programs = sum(len(one.programs) for one in families)
    phrase = (
        f"{count(programs, 'program')} of several {_several(what)} differ only in constants; "
        f"with these as arguments, {count(len(families), 'program')} would do, and an on-disk "
        f"cache would save up to {seconds(spared)} more"
    )
    yield from _head(phrase, width, paint)
    for one in families[:_MAX_ROWS]:
        shown = one.programs[0]
        at = _at(shown, bases)
        row = f"  {clean(shown.name, 40)}   {count(len(one.programs), 'program')} differ only in "
        row += f"{_differing(one)}   {seconds(one.seconds)}{at}"
        yield from wrapped(row, width, 6)
    if len(families) > _MAX_ROWS:
        yield f"  and {count(len(families) - _MAX_ROWS, 'more function')}"


def _differing(family: Family) -> str:
    texts: list[str] = []
    for one in family.constants:
        values = [value for value in one.values if not value.startswith("#")]
        more = ", ..." if len(values) > _MAX_VALUES else ""
        phrase = f" ({', '.join(clean(value, 24) for value in values[:_MAX_VALUES])}{more})"
        what = f"`{clean(one.name or '', 40)}`"
        if one.name is None:
            what = "other constants" if texts else "unnamed constants"
        texts.append(what + (phrase if values and one.name is not None else ""))
    return listed(texts, 3)


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


def alone(families: Sequence[Family]) -> list[dict[str, Any]]:
    """`differ_by_constants` of the JSON report."""
    return [
        {
            "function": clean(one.programs[0].name),
            "file": one.programs[0].file,
            "line": one.programs[0].line,
            "programs": len(one.programs),
            "times": one.times,
            "processes": one.places,
            "seconds": one.seconds,
            "saved": [0.0, one.spared],
            "constants": [
                {
                    "name": None if constant.name is None else clean(constant.name),
                    "values": [clean(value) for value in constant.values],
                }
                for constant in one.constants
            ],
        }
        for one in families
    ]

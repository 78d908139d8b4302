"""Programs that were compiled more than once, in words and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from retrace.present.layout import Paint, plain, wrapped
from retrace.present.words import clean, count, listed, place, seconds
from retrace.runs.again import Program
from retrace.runs.alone import Family

_MOST = 5
_WORTH = 0.1
"""Seconds from which on it is worth a word."""
_VALUES = 5
_TESTS = 3

What: TypeAlias = Literal["process", "test"]


def text(
    programs: Sequence[Program],
    families: Sequence[Family],
    what: What,
    bases: Sequence[str] = (),
    width: int = 80,
    paint: Paint = plain,
) -> Iterator[str]:
    """What several processes, or tests, compiled, in one or two paragraphs; often nothing.

    Args:
        programs: those that were compiled more than once, most spared first.
        families: those that differ in constants alone, most spared first.
        what: what has compiled them.
        bases: folders to which paths are shortened.
        width: columns.
        paint: `colour` or `plain`.
    """
    first = list(_same(programs, what, bases, width, paint))
    second = list(_alone(families, what, bases, width, paint))
    yield from first
    if first and second:
        yield ""
    yield from second


def _head(said: str, width: int, paint: Paint) -> Iterator[str]:
    first, *rest = wrapped(said, width, 2)
    yield paint(first, "bold")
    yield from rest


def _at(program: Program, bases: Sequence[str]) -> str:
    """Where it is written, behind the other cells of its row."""
    return "" if program.file is None else f"   {place(program.file, program.line, bases)}"


def _several(what: What) -> str:
    return "processes" if what == "process" else "tests"


def _same(
    programs: Sequence[Program], what: What, bases: Sequence[str], width: int, paint: Paint
) -> Iterator[str]:
    """The same program, more than once."""
    spared = sum(one.spared for one in programs)
    if spared < _WORTH:
        return
    times, spent = sum(one.times for one in programs), sum(one.seconds for one in programs)
    several = _several(what)
    how_often = "by several processes" if what == "process" else "more than once by the tests"
    said = (
        f"{count(len(programs), 'program')} compiled {how_often}: {times:,} times, "
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
    yield from _head(f"{said} ({how})", width, paint)
    for one in programs[:_MOST]:
        at = _at(one, bases)
        where = count(len(one.places), what, several)
        row = f"  {clean(one.name, 40)}   {one.times:,} times in {where}"
        yield from wrapped(f"{row}   {seconds(one.seconds)}{at}", width, 6)
        if what == "test":
            tests = [clean(test.rpartition("/")[2], 100) for test in one.places]
            yield from wrapped(f"      in {listed(tests, _TESTS)}", width, 9)
    if len(programs) > _MOST:
        yield f"  and {count(len(programs) - _MOST, 'more program')}"


def _alone(
    families: Sequence[Family], what: What, bases: Sequence[str], width: int, paint: Paint
) -> Iterator[str]:
    """Programs that differ in constants alone."""
    spared = sum(one.spared for one in families)
    if spared < _WORTH:
        return
    programs = sum(len(one.programs) for one in families)
    said = (
        f"{count(programs, 'program')} of several {_several(what)} differ by constants alone; "
        f"with these as arguments, {count(len(families), 'program')} would do, and an on-disk "
        f"cache would save up to {seconds(spared)} more"
    )
    yield from _head(said, width, paint)
    for one in families[:_MOST]:
        shown = one.programs[0]
        at = _at(shown, bases)
        row = f"  {clean(shown.name, 40)}   {count(len(one.programs), 'program')} differ by "
        row += f"{_differing(one)} alone   {seconds(one.seconds)}{at}"
        yield from wrapped(row, width, 6)
    if len(families) > _MOST:
        yield f"  and {count(len(families) - _MOST, 'more function')}"


def _differing(family: Family) -> str:
    said: list[str] = []
    for one in family.constants:
        values = [value for value in one.values if not value.startswith("#")]
        more = ", ..." if len(values) > _VALUES else ""
        told = f" ({', '.join(clean(value, 24) for value in values[:_VALUES])}{more})"
        what = f"`{clean(one.name or '', 40)}`"
        if one.name is None:
            what = "other constants" if said else "constants of unknown name"
        said.append(what + (told if values and one.name is not None else ""))
    return listed(said, 3)


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

"""What differs between two programs, starting with the user's lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from retrace.compare.programs import Constant, Difference, Repeated, Size
from retrace.compare.rewired import Rewired
from retrace.compare.source_lines import LineChange
from retrace.model import Change, Dim, Frame, ShapeChange, Verdict
from retrace.present.group import Group
from retrace.present.view import View
from retrace.present.words import clean, count, cut_apart, listed, place, times

_MAX_LINES = 3
_MAX_PRIMITIVES = 4


def difference(verdict: Verdict) -> Difference | None:
    """The evidence behind a verdict's `program_change`, or None."""
    return None if verdict.program is None else verdict.program.difference


def evidence(view: View, verdict: Verdict, most: int = _MAX_LINES) -> list[str]:
    """How the program differs from the closest one's, one fact per item; empty if it does not."""
    found = difference(verdict)
    if found is None:
        return []
    if found.kind == "identical" and verdict.program_change == "constants-only":
        return ["captured arrays are other objects; their contents were not compared"]
    return difference_facts(view, found, verdict.changes, most)


def difference_facts(
    view: View,
    found: Difference,
    changes: Sequence[Change],
    most: int = _MAX_LINES,
    named: Callable[[Constant], str] = lambda _: "",
) -> list[str]:
    """How a program differs from another, one fact per item; empty if it does not.

    Args:
        view: knows the places.
        found: how they differ.
        changes: the changes of the keys, whose sizes the programs follow.
        most: the maximum number of facts.
        named: the name to put before a constant, with a trailing space.
    """
    match found.kind:
        case "shapes-only":
            return [_size(changes, size) for size in found.sizes[:most]]
        case "constants-only":
            return list(_constants(view, found.constants, most, named))
        case "repeated":
            return list(_repeats(view, found.repeats, most))
        case "different":
            if found.rewired is not None:
                return [_rewired(view, found.rewired)]
            return list(_lines(view, found.lines, most))
        case _:
            return []


def _rewired(view: View, found: Rewired) -> str:
    match found.what:
        case "arguments":
            how = "its arguments in another order" if found.swapped else "other variables"
            return f"{at(view, found.place)} {clean(found.primitive)} takes {how}"
        case "results" if found.swapped:
            return "the same results in another order"
        case "results":
            return "the same equations, of which others are returned"
        case "inputs":
            return "the same equations, with other inputs"


def first_line(view: View, verdict: Verdict) -> str | None:
    """The first source line at which the program differs."""
    found = difference(verdict)
    if found is None:
        return None
    places = [
        *(constant.place for constant in found.constants),
        *(block.place for block in found.repeats),
        *(line.place for line in found.lines),
        None if found.rewired is None else found.rewired.place,
    ]
    return next((at(view, frame) for frame in places if frame is not None), None)


def at(view: View, frame: Frame | None) -> str:
    """`model.py:41`."""
    return "inside jax" if frame is None else place(frame.file, frame.line, view.bases)


def _size(changes: Sequence[Change], size: Size) -> str:
    text = f"{count(size.equations, 'shape')} follow"
    text += "s" if size.equations == 1 else ""
    axes = [
        f"axis {axis} of {clean(change.path or 'an argument', 32)}"
        for change in changes
        if isinstance(change, ShapeChange)
        for axis, pair in enumerate(zip(change.old, change.new, strict=False))
        if pair == (size.old, size.new)
    ]
    what = listed(axes, 2) if axes else "an axis"
    if not size.equations:
        text = f"only its arguments{' and numbers in it' if size.numbers else ''} follow"
    return f"{text} {what} ({_size_text(size.old)} -> {_size_text(size.new)})"


def _size_text(size: Dim) -> str:
    return f"{size:,}" if isinstance(size, int) else clean(size, 32)


def _constants(
    view: View, constants: Sequence[Constant], most: int, named: Callable[[Constant], str]
) -> Iterator[str]:
    for constant in constants[:most]:
        again = f", {times(constant.times)}" if constant.times > 1 else ""
        old, new = cut_apart(clean(constant.old, 200), clean(constant.new, 200), 32)
        yield f"{at(view, constant.place)} has {named(constant)}{old} -> {new}{again}"
    if len(constants) > most:
        yield f"and {count(len(constants) - most, 'more constant')}"


def _repeats(view: View, blocks: Sequence[Repeated], most: int) -> Iterator[str]:
    for block in blocks[:most]:
        what = listed([clean(name, 32) for name in block.primitives], _MAX_PRIMITIVES)
        again = "a different number of times"
        if block.new is not None and block.old is not None:
            many = f"{block.new:,} time{'s' if block.new != 1 else ''}"
            again = f"{many} instead of {block.old:,}"
        loop = ", in one of JAX's own loops" if block.loop else ""
        yield f"{at(view, block.place)} now runs {what} {again}{loop}"
    if len(blocks) > most:
        yield f"and {count(len(blocks) - most, 'more block')}"


def _lines(view: View, lines: Sequence[LineChange], most: int) -> Iterator[str]:
    for line in lines[:most]:
        texts: list[str] = []
        for verb, part in (
            ("now runs", line.added),
            ("no longer runs", line.removed),
            ("runs another", line.changed),
        ):
            if part:
                named = [f"{clean(name, 32)}{_times(number)}" for name, number in part]
                texts.append(f"{verb} {listed(named, _MAX_PRIMITIVES)}")
        yield f"{at(view, line.place)} {', '.join(texts)}"
    if len(lines) > most:
        yield f"and {count(len(lines) - most, 'more line')}"


def _times(number: int) -> str:
    return f" ({number:,} times)" if number > 1 else ""


def compared(view: View, group: Group) -> str:
    """How the program of the miss that is shown differs from that of its closest earlier key."""
    text = _compared(view, group.shown)
    return text and f"{text}{_others_wasted(group)}"


def _compared(view: View, verdict: Verdict) -> str:
    program, change = verdict.miss.program, verdict.program_change
    held = "" if program is None else count(program.equations, "equation")
    if verdict.nearest is None or change is None:
        return ""
    before = view.earlier(verdict.nearest, verdict.miss)
    other = verdict.nearest.program
    relation = {
        "identical": f"identical to that of {before}",
        "shapes-only": "none added or removed",
        "constants-only": f"same as {before} except for constants",
        "repeated": f"the same block repeated, {before} has "
        f"{'' if other is None else format(other.equations, ',')}",
        "different": "",
    }.get(change, clean(change))
    if change == "different":
        if program is None or other is None:
            return f"different from that of {before}"
        if program.hash == other.hash:
            has = "have other names"
            if program.results == other.results:
                has = "carry other static data"
            return f"{held}, identical to that of {before}, but its results {has}"
        if program.equations == other.equations:
            return f"{held}, as many as {before}"
        return f"{held}, {before} has {other.equations:,}"
    return f"{held}, {relation}" if held else relation


def _others_wasted(group: Group) -> str:
    """How many of the other programs are as wasted as the one shown, if not all are alike."""
    verdict, wasted = group.shown, group.sums.wasted
    if wasted in (0, group.count):
        return ""
    if verdict.program_change == "identical":
        number, what = group.count - wasted, "other programs"
    else:
        number, what = wasted, "identical to earlier ones"
    return f" ({number:,} of {group.count:,}: {what})"

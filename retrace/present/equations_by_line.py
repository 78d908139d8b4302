"""Equations per source line, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from retrace.compare.size import Samples, Unrolled
from retrace.compare.source_lines import own_frame
from retrace.model import Frame
from retrace.present.program import at
from retrace.present.view import View
from retrace.present.words import begun, cells, clean, count, listed

_MOST_LINES = 20
_MOST_BLOCKS = 5
_MOST_PRIMITIVES = 8
_LEAST = 18
"""Columns that are left to function and primitives, if need be at the cost of the folder."""


def table(
    view: View,
    programs: int,
    samples: Samples,
    blocks: Sequence[Unrolled],
    width: int = 80,
) -> str:
    """The lines with most equations, and the loops that were unrolled."""
    total = sum(amount.equations for amount in samples.values())
    run = sum(amount.run for amount in samples.values())
    rows: dict[tuple[Frame | None, str], list[int]] = {}
    named: dict[tuple[Frame | None, str], Counter[str]] = {}
    for sample, amount in samples.items():
        frame = own_frame(sample.stack)
        # Two columns of one line, and two functions that share it, are told apart by name.
        key = (frame, "" if frame is None else frame.function)
        row = rows.setdefault(key, [0, 0])
        row[0] += amount.equations
        row[1] += amount.run
        named.setdefault(key, Counter())[sample.primitive] += amount.equations
    said = f"retrace: {count(total, 'equation')} in {count(programs, 'program')}"
    out = [f"{said}, {run:,} with the trips of their scans" if run != total else said, ""]
    if not total:
        return out[0] + "\n"
    # Without scans each equation runs once, and a second column would say the same again.
    scans = run != total

    def line(number: str, share: str, run: str, text: str) -> str:
        return f"{number:>10} {share:>7}{f' {run:>10}' if scans else ''}   {text}"

    room = max(16, width - cells(line("", "", "", "")))
    title = "line, function, primitives"
    out.append(line("equations", "share", "run", title if len(title) <= room else "line"))
    worst = sorted(rows.items(), key=lambda item: -item[1][0])
    for key, (equations, runs) in worst[:_MOST_LINES]:
        frame, function = key
        what = [clean(name, 24) for name, _ in named[key].most_common()]
        share = f"{100 * equations / total:.1f} %"
        text = _row(at(view, frame), clean(function, 32), what, room)
        out.append(line(f"{equations:,}", share, f"{runs:,}", text))
    if len(worst) > _MOST_LINES:
        rest = sum(amounts[0] for _, amounts in worst[_MOST_LINES:])
        lines = count(len(worst) - _MOST_LINES, "more line")
        out.append(line(f"{rest:,}", f"{100 * rest / total:.1f} %", "", lines))
    if not samples.whole:
        out.append(line("", "", "", "and what lies deeper was not counted"))
    for block in blocks[:_MOST_BLOCKS]:
        what = listed([clean(name, 24) for name in block.primitives], 4)
        out += [
            "",
            f"unrolled   {at(view, block.place)} runs {what} {block.times:,} times in a row",
            "           `jax.lax.scan` or `jax.lax.fori_loop` (`jax.vmap` where the rounds are",
            f"           independent) leaves one: {block.saved:,} equations fewer",
        ]
    return "\n".join(out) + "\n"


def _row(where: str, function: str, primitives: list[str], room: int) -> str:
    """A line, its function, and as many primitives as fit. File and line are never cut."""
    *folders, line = where.split("/")
    if len(where) > room - _LEAST and folders:
        while folders and len("/".join(("...", *folders, line))) > room - _LEAST:
            folders = folders[1:]
        where = "/".join(("...", *folders, line))
    if len(where) > room:
        where = f"...{where[3 - room :]}"
    left = room - len(where) - len(" ") - len("   mul, ...")
    if function and left >= min(len(function), 6):
        where += f" {begun(function, left)}"
    left = room - len(where) - len("   ")
    for most in range(_MOST_PRIMITIVES, 0, -1):
        if len(said := listed(primitives, most)) <= left:
            return f"{where}   {said}"
    # A name is told whole, or counted.
    for said in (f"{primitives[0]}, ...", count(len(primitives), "primitive")):
        if len(said) <= left:
            return f"{where}   {said}"
    return where

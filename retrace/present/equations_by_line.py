"""Equations per source line, as a table for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from retrace.compare.size import Samples, Unrolled
from retrace.compare.source_lines import own_frame
from retrace.model import Frame
from retrace.present.program import at
from retrace.present.view import View
from retrace.present.words import begun, cells, clean, count, listed

_MAX_LINES = 20
_MAX_BLOCKS = 5
_MAX_PRIMITIVES = 8
_MIN_ROOM = 18
"""Columns kept for the function and primitives, if necessary by shortening the folder."""


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
        # Two columns of one line, or two functions on it, are distinguished by name.
        key = (frame, "" if frame is None else frame.function)
        row = rows.setdefault(key, [0, 0])
        row[0] += amount.equations
        row[1] += amount.run
        named.setdefault(key, Counter())[sample.primitive] += amount.equations
    phrase = f"retrace: {count(total, 'equation')} in {count(programs, 'program')}"
    out = [f"{phrase}, {run:,} counting scan iterations" if run != total else phrase, ""]
    if not total:
        return out[0] + "\n"
    # Without scans each equation runs once, so a second column would repeat the first.
    scans = run != total

    def line(number: str, share: str, run: str, text: str) -> str:
        return f"{number:>10} {share:>7}{f' {run:>10}' if scans else ''}   {text}"

    room = max(16, width - cells(line("", "", "", "")))
    title = "line, function, primitives"
    out.append(line("equations", "share", "run", title if len(title) <= room else "line"))
    worst = sorted(rows.items(), key=lambda item: -item[1][0])
    for key, (equations, runs) in worst[:_MAX_LINES]:
        frame, function = key
        what = [clean(name, 24) for name, _ in named[key].most_common()]
        share = f"{100 * equations / total:.1f} %"
        text = _row(at(view, frame), clean(function, 32), what, room)
        out.append(line(f"{equations:,}", share, f"{runs:,}", text))
    if len(worst) > _MAX_LINES:
        rest = sum(amounts[0] for _, amounts in worst[_MAX_LINES:])
        lines = count(len(worst) - _MAX_LINES, "more line")
        out.append(line(f"{rest:,}", f"{100 * rest / total:.1f} %", "", lines))
    if not samples.whole:
        out.append(line("", "", "", "deeper programs were not counted"))
    for block in blocks[:_MAX_BLOCKS]:
        what = listed([clean(name, 24) for name in block.primitives], 4)
        out += [
            "",
            f"unrolled   {at(view, block.place)} runs {what} {block.times:,} times in a row",
            "           `jax.lax.scan` or `jax.lax.fori_loop` (`jax.vmap` if the rounds are",
            f"           independent) leaves one: {block.saved:,} equations fewer",
        ]
    return "\n".join(out) + "\n"


def _row(where: str, function: str, primitives: list[str], room: int) -> str:
    """A line, its function, and as many primitives as fit. File and line are never cut."""
    *folders, line = where.split("/")
    if len(where) > room - _MIN_ROOM and folders:
        while folders and len("/".join(("...", *folders, line))) > room - _MIN_ROOM:
            folders = folders[1:]
        where = "/".join(("...", *folders, line))
    if len(where) > room:
        where = f"...{where[3 - room :]}"
    left = room - len(where) - len(" ") - len("   mul, ...")
    if function and left >= min(len(function), 6):
        where += f" {begun(function, left)}"
    left = room - len(where) - len("   ")
    for most in range(_MAX_PRIMITIVES, 0, -1):
        if len(text := listed(primitives, most)) <= left:
            return f"{where}   {text}"
    # A name is shown whole, or counted.
    for text in (f"{primitives[0]}, ...", count(len(primitives), "primitive")):
        if len(text) <= left:
            return f"{where}   {text}"
    return where

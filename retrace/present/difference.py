"""Two programs line by line: one below the other where it is narrow, else side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from retrace.compare.alignment import align, hunks
from retrace.compare.keys import changes as compare
from retrace.compare.lines import changed_pairs, place
from retrace.model import Listing, Verdict
from retrace.present.program import at, evidence
from retrace.present.view import View
from retrace.present.words import clean, count, cut
from retrace.reason.program import Comparison

_SIDE_BY_SIDE = 120
_CONTEXT = 2
_MOST = 60

Row = tuple[str, int | None, int | None]


def equation(view: View, listing: Listing, index: int) -> str:
    """`mul[out_dtype=None] $ 2.0:f32[] -> f32[3]   model.py:41`."""
    name, arguments, results, *parameters = listing.equations[index].split("\t")
    told = [text for text in parameters if not text.endswith("=None")]
    inside = f"[{' '.join(cut(text, 40) for text in told)}]" if told else ""
    frame = place(listing, index)
    where = "" if frame is None else f"   {at(view, frame)}"
    return clean(f"{name}{inside} {arguments} -> {results}{where}", 160)


def lines(
    view: View,
    old: Listing,
    new: Listing,
    width: int = 80,
    paint: Callable[[str, str], str] = lambda text, _: text,
) -> Iterator[str]:
    """The equations that differ, with a few around them."""
    rows = list(_rows(old, new))
    yield f"{count(len(old.equations), 'equation')} -> {len(new.equations):,}"
    for mark, x, y in rows[:_MOST]:
        before = "" if x is None else equation(view, old, x)
        after = "" if y is None else equation(view, new, y)
        if mark == "@":
            yield paint("  ...", "dim")
        elif width >= _SIDE_BY_SIDE:
            half = (width - 5) // 2
            text = f"  {cut(before, half):<{half}} {mark} {cut(after, half)}".rstrip()
            yield text if mark == " " else paint(text, "warm")
        elif mark == " ":
            yield cut(f"    {after}", width)
        else:
            if before:
                yield paint(cut(f"  - {before}", width), "loud")
            if after:
                yield paint(cut(f"  + {after}", width), "fix")
    if len(rows) > _MOST:
        yield f"  and {count(len(rows) - _MOST, 'more line')}"


def _rows(old: Listing, new: Listing) -> Iterator[Row]:
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


def between(
    view: View, old: Verdict, new: Verdict, width: int, paint: Callable[[str, str], str]
) -> str:
    """Two misses: what differs between their keys and their programs."""
    comparison = Comparison(old.miss, new.miss, (), view.recording.listings)
    told = replace(
        new,
        nearest=old.miss,
        changes=compare(old.miss, new.miss),
        program=comparison,
    )
    out = [f"{view.label(old.miss)} -> {view.label(new.miss)}"]
    for change in told.changes:
        path = "" if change.path is None else f" {clean(change.path, 40)}"
        out.append(f"  {change.component.value.replace('_', ' ')}{path}: {clean(change.detail)}")
    kind = told.program_change
    out.append(f"  the programs are {kind}" if kind else "  their programs cannot be compared")
    out += [f"    {text}" for text in evidence(view, told, 12)]
    if (sides := comparison.listings()) is not None and kind != "identical":
        out += ["", *lines(view, *sides, width, paint)]
    return "\n".join(out) + "\n"

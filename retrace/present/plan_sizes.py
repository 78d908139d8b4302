"""How many sizes to choose: what each choice saves and pads, with code to paste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from retrace.plan.corners import Corners
from retrace.plan.sizes import Choice
from retrace.plan.step import Pairs, Sizes, Step
from retrace.present.layout import wrapped
from retrace.present.padding_words import (
    arrays_by_axes,
    masked,
    neutral,
    room,
)
from retrace.present.plan_words import also, by
from retrace.present.words import clean, count, listed, seconds

_MIN_SECONDS = 1.0
"""Total seconds below which padding may well cost more than it saves."""
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
_MIN_WIDTH = 62
"""Columns that the table needs."""
_MAX_SIZES = 8
"""Maximum number of sizes shown."""
_MAX_COMBINATIONS = 4
"""The same for sizes of several axes."""


def size_lines(number: int, step: Step, width: int) -> Iterator[str]:
    """What to know about a step on sizes."""
    if (pairs := step.proposal.pairs) is not None:
        yield from _pair_lines(number, pairs, width)
    sizes = step.proposal.sizes
    if sizes is None:
        return
    names = [clean(name, 48) for name in sizes.names if name not in sizes.follows]
    text = f"{number}  {listed(names, 3)}: {count(len(sizes.seen), 'size')}"
    text += f", {sizes.seen[0]:,} to {sizes.seen[-1]:,}"
    if len(names) > 1:
        text += ", always the same length"
    if sizes.follows:
        text += f"; {also(sizes)}"
    yield from wrapped(text, width, 4)
    if sizes.grows:
        array, _, axis = sizes.names[0].rpartition(" axis ")
        name = f"`{clean(array, 48)}`"
        index = ", ".join([*[":"] * int(axis), "i"])
        yield from wrapped(
            f"    it grows by one: create {name} before the loop, on axis {axis} as long as "
            f"{room(sizes)}, and write into it with `.at[{index}].set(...)`; "
            f"{masked(sizes.along)}",
            width,
            4,
        )
        return
    yield from _cheap(sizes.program * len(sizes.seen), len(sizes.seen), width)
    of_flops = "   of FLOPs" if sizes.powers.flops is not None else ""
    rows = [
        ("->" if choice == sizes.chosen else "", str(len(choice.sizes)), _row(sizes, choice))
        for choice in sizes.curve
        if len(choice.sizes) in _ROWS or choice == sizes.chosen
    ]
    powers = f"{_row(sizes, sizes.powers)}   ({_powers(len(sizes.powers.sizes))})"
    yield from _columns(
        f"compiles for   padding{of_flops}   sizes", [*rows, ("", "2^n", powers)], width
    )
    yield from wrapped(f"    {_weighted(sizes)}", width, 4)
    if arrays_by_axes(sizes):
        yield from _code(sizes, width, cut_by_library=bool(step.proposal.passed_by))


def _cheap(spent: float, programs: int, width: int) -> Iterator[str]:
    if spent < _MIN_SECONDS:
        text = (
            f"    only {seconds(spent)} for {count(programs, 'program')} here: padding may cost "
            "more, unless there will be more sizes or they compile slower elsewhere"
        )
        yield from wrapped(text, width, 4)


def _pair_lines(number: int, pairs: Pairs, width: int) -> Iterator[str]:
    axes = [clean(name, 48) for name in pairs.axes]
    yield from wrapped(
        f"{number}  {listed(axes, 3)}: {count(len(pairs.seen), 'combination')} of sizes, which "
        "vary together but differ in length",
        width,
        4,
    )
    yield from _cheap(pairs.program * len(pairs.seen), len(pairs.seen), width)
    rows = [
        ("->" if choice == pairs.chosen else "", str(len(choice.sizes)), _corners(pairs, choice))
        for choice in pairs.curve
        if len(choice.sizes) in _ROWS or choice == pairs.chosen
    ]
    of_flops = "   of FLOPs" if pairs.powers.flops is not None else ""
    powers = f"{_corners(pairs, pairs.powers)}   (powers of two)"
    yield from _columns(
        f"compiles for   padding{of_flops}   sizes", [*rows, ("", "2^n", powers)], width
    )
    yield from wrapped(f"    {_weighted_together(pairs)}", width, 4)
    names = ", ".join(f"`n[{at}]` for {name}" for at, name in enumerate(axes))
    if any(0 in size for size in pairs.seen):
        names += " (0 if the call leaves it out)"
    yield from wrapped(f"    in the loader, with the lengths of a call as {names}:", width, 4)
    yield "        # cheapest first; larger ones: split them, or add a size"
    yield from wrapped(f"        SIZES = {pairs.chosen.sizes}", width, 17)
    yield "        to = next(s for s in SIZES if all(a <= b for a, b in zip(n, s)))"
    yield from wrapped(
        f"    then pad each array to `to` on these axes, and {masked(pairs.along, len(axes))}",
        width,
        4,
    )


def _columns(head: str, rows: list[tuple[str, str, str]], width: int) -> Iterator[str]:
    """Rows of a mark, the number of sizes, and their costs; below each other if it is narrow."""
    if width >= _MIN_WIDTH:
        yield f"      k   {head}"
        for mark, number, costs in rows:
            lead = f"{mark:>4}{number:>3}   " if number.isdecimal() else f"{number:>8}  "
            yield from wrapped(f"{lead}{costs}", width, len(lead) + head.index("sizes"))
        return
    titles = [title.strip() for title in head.split("   ")]
    for mark, number, costs in rows:
        cells = [cell.strip() for cell in costs.split("   ") if cell.strip()]
        columns = [
            cell if title == "sizes" else _named(title, cell)
            for title, cell in zip(titles, cells, strict=False)
        ]
        noun = "" if not number.isdecimal() else " size" if number == "1" else " sizes"
        row = "   ".join([f"{number}{noun}", *columns, *cells[len(titles) :]])
        yield from wrapped(f"{mark:>4} {row}", width, 7)


def _named(title: str, cell: str) -> str:
    return f"{cell} {title}" if cell.endswith("%") else f"{title} {cell}"


def _powers(number: int) -> str:
    return "a power of two" if number == 1 else f"{number:,} powers of two"


def _corners(pairs: Pairs, choice: Corners) -> str:
    shown = ", ".join(by(size) for size in choice.sizes[:_MAX_COMBINATIONS])
    more = len(choice.sizes) - _MAX_COMBINATIONS
    spent = seconds(pairs.program * len(choice.sizes))
    flops = "" if pairs.powers.flops is None else f"   {_share(choice.flops):>8}"
    rest = f" and {more} more" if more > 0 else ""
    return f"{spent:>12}   {choice.padding:>7.0%}{flops}   {shown}{rest}"


def _share(flops: float | None) -> str:
    return "" if flops is None else f"{flops:.0%}"


def _weighted_together(pairs: Pairs) -> str:
    if pairs.counted is not None:
        return f"padding: share of elements, weighted by {pairs.counted:,} counted calls"
    if pairs.data is None:
        asked = " ".join(f'--sizes "{clean(name, 48)}=FILE:COLUMN"' for name in pairs.axes)
        return (
            f"padding: share of elements, each combination counted once; `{asked}` weighs it by "
            "your data, one call per row, `retrace run --count` by counted calls"
        )
    text = f"padding: share of elements, weighted by {pairs.data:,} rows of your data"
    if pairs.beyond:
        text += f", {count(pairs.beyond, 'combination')} of which this run never called"
    return text


def _row(sizes: Sizes, choice: Choice) -> str:
    spent = seconds(sizes.program * len(choice.sizes))
    shown = ", ".join(map(str, choice.sizes[:_MAX_SIZES]))
    more = f" and {len(choice.sizes) - _MAX_SIZES} more" if len(choice.sizes) > _MAX_SIZES else ""
    flops = "" if choice.flops is None else f"   {choice.flops:>8.0%}"
    return f"{spent:>12}   {choice.padding:>7.0%}{flops}   {shown}{more}"


def _weighted(sizes: Sizes) -> str:
    if sizes.counted is not None:
        return f"padding: share of elements, weighted by {sizes.counted:,} counted calls"
    if sizes.data is None:
        return (
            "padding: share of elements, each size counted once, because calls were not counted; "
            "`--sizes FILE` weighs it by your data, `retrace run --count` by counted calls"
        )
    text = f"padding: share of elements, weighted by {sizes.data:,} sizes of your data"
    if sizes.beyond:
        text += f", {count(sizes.beyond, 'size')} of which this run never called"
    return text


def _code(sizes: Sizes, width: int, *, cut_by_library: bool) -> Iterator[str]:
    by_axes = arrays_by_axes(sizes)
    own = "if you cut it yourself, " if cut_by_library else ""
    yield from wrapped(f"    {own}in the loader{_called(by_axes)}:", width, 4)
    first = next(iter(by_axes))
    axis = str(first[0]) if len(by_axes) == 1 else "axes[0]"
    chosen = sizes.chosen.sizes
    if len(chosen) == 1:
        yield f"        SIZE = {chosen[0]}  # larger ones: split them, or raise SIZE"
        yield f"        add = SIZE - x.shape[{axis}]"
    else:
        yield "        # larger ones: split them, or add a size"
        yield from wrapped(f"        SIZES = {chosen}", width, 17)
        yield f"        add = min(s for s in SIZES if s >= x.shape[{axis}]) - x.shape[{axis}]"
    which = "in axes" if len(by_axes) > 1 else f"in {first}" if len(first) > 1 else f"== {axis}"
    added = f"[(0, add if a {which} else 0) for a in range(x.ndim)]"
    if len(by_axes) == 1 and len(first) > 1:
        yield f"        x = np.pad(x, {added})"
    else:
        # A row of zeros may give NaN in gradients, mask or not, or a loop that never ends.
        yield f"        rows = {added}"
        conditions = [
            *(["len(axes) == 1"] if any(len(axes) > 1 for axes in by_axes) else []),
            *(["x.dtype != bool"] if sizes.masks else []),
        ]
        if not conditions:
            yield '        x = np.pad(x, rows, mode="edge")  # repeats the last row'
        else:
            yield f'        mode = "edge" if {" and ".join(conditions)} else "constant"'
            yield "        x = np.pad(x, rows, mode=mode)"
    if not sizes.along.separate:
        values = [one for own in neutral(sizes.along).values() for one in own]
        least = next((one for one in values if one.endswith(".min")), None)
        other = f", `{least}` in place of 0 for the largest" if least is not None else ""
        yield from wrapped(
            f"    with a mask, as in `jnp.sum(jnp.where(mask, x, 0)) / mask.sum()`{other}",
            width,
            4,
        )


def _called(by_axes: Mapping[tuple[int, ...], Sequence[str]]) -> str:
    """What `x` is in the code, and its `axes` if they are not the same for all arrays."""
    if list(by_axes.values()) == [["x"]]:
        return ""
    each = [
        f"`{clean(arrays[0], 48)}`"
        + (f" and {count(len(arrays) - 1, 'more array')} with its size" if arrays[1:] else "")
        + (f" (`axes = {axes}`)" if len(by_axes) > 1 else "")
        for axes, arrays in by_axes.items()
    ]
    return f", where `x` is {' or '.join(each)}"

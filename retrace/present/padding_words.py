"""What added rows change, in words: what to mask, and what rows go through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from retrace.compare.along import EXTREMES, Along, Step
from retrace.model import Frame
from retrace.plan.step import Sizes
from retrace.present.words import listed, names, quoted
from retrace.present.words import place as words_of


def masked(along: Along, axis: int | None = None) -> str:
    """What to do about added rows, briefly.

    Args:
        along: what the program does with them.
        axis: the axis of all arrays that they are added on; None if it is not the same for all.
    """
    if along.separate:
        return (
            "drop the added rows from the results with NumPy (`np.asarray(result)[:n]`): no "
            "other row depends on them"
        )
    text = _masked(along)
    if any(one.primitive in _ADDS_AT for one in along.masked):
        text = f"{text}; give padded indices a number past the end, which JAX drops by default"
    if along.counts:
        count = "a result is the size itself: return the number of real rows (`mask.sum()`)"
        rows_matter = along.masked or along.ordered or not along.whole
        text = f"{text}; {count}" if rows_matter else count
    if along.twice:
        return (
            f"{text}; a result has the axis twice: cut off the added rows and columns with NumPy "
            "(`result[:n, :n]`)"
        )
    if not along.returned:
        return text
    code = "`result[:n]`; `result[-1]`" if axis == 0 else "the last one"
    return (
        f"{text}; its result has added rows as well: cut them off with NumPy ({code} is one of "
        "them)"
    )


def _masked(along: Along) -> str:
    named = [one for one in along.masked if one.primitive is not None]
    sized = [one for one in along.masked if one.primitive is None]
    computes = f"the program computes with {steps_of(sized, _MAX_PLACES)}" if sized else ""
    if named and sized:
        counted = f"use the number of real rows where {computes}"
        return f"mask the padding in {_with_values(named)}, and {counted}, or results change"
    if named:
        return f"mask the padding in {_with_values(named)}, or results change"
    if sized:
        return f"mask the padding: {computes}"
    return "mask the padding where results depend on it"


_MAX_PLACES = 12
"""Each place that is not named changes results in silence."""
_ADDS_AT = ("scatter-add", "scatter_add")
"""What adds rows where an index says: with 0 as its index, padding is added to the first row."""

_NEUTRAL = {"reduce_and": "True", "reduce_prod": "1"}
"""What changes no result, for operations that are neither sums nor extremes."""


def neutral(along: Along) -> dict[str, tuple[str, ...]]:
    """The values to mask with where 0 would change results, by operation."""
    found: dict[str, dict[str, None]] = {}
    for one in along.masked:
        if (value := _value(one)) is not None and one.primitive is not None:
            found.setdefault(one.primitive, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


def _value(step: Step) -> str | None:
    """What changes no result of an operation; None for 0.

    An infinity would not do for the largest: it makes a row that is padding as a whole NaN in a
    softmax, its gradients too, and turns integers into float32, which rounds them.
    """
    if step.primitive not in EXTREMES:
        return None if step.primitive is None else _NEUTRAL.get(step.primitive)
    largest = step.primitive.endswith("max")
    if step.dtype == "bool":
        return str(not largest)
    info = "iinfo" if step.dtype.startswith(("i", "u")) else "finfo"
    return f"jnp.{info}(x.dtype).{'min' if largest else 'max'}"


def _with_values(named: Sequence[Step]) -> str:
    text = steps_of(named, _MAX_PLACES)
    by_value: dict[str, list[str]] = {}
    for name, values in neutral(Along(masked=tuple(named))).items():
        by_value.setdefault("` or `".join(values), []).append(name)
    if not by_value:
        return text
    told = [f"`{value}` in {listed(list(map(quoted, own)))}" for value, own in by_value.items()]
    return f"{text} (with {listed(told)}{', 0 in the others' if _sums(named) else ''})"


def _sums(named: Sequence[Step]) -> bool:
    return any(_value(one) is None for one in named)


def steps_of(steps: Sequence[Step], most: int = 2) -> str:
    """`reduce_sum` at model.py:40 and 52, and how many more places there are."""
    known = sorted(
        steps, key=lambda one: (one.primitive is None, not one.is_draw, one.place is None)
    )
    places = list(
        dict.fromkeys((one.primitive, _file(one.place), _line(one.place)) for one in known)
    )
    lines: dict[tuple[str | None, str], list[int]] = {}
    for primitive, file, line in places[:most]:
        lines.setdefault((primitive, file), []).append(line)
    texts = [
        f"{'the size itself' if primitive is None else quoted(primitive)}{_at(file, own)}"
        for (primitive, file), own in lines.items()
    ]
    more = [f"{len(places) - most:,} more"] if len(places) > most else []
    return listed([*texts, *more], most + 1)


def _file(place: Frame | None) -> str:
    return "" if place is None else PurePath(place.file).name


def _line(place: Frame | None) -> int:
    return 0 if place is None else place.line


def _at(file: str, lines: Sequence[int]) -> str:
    if not file:
        return ""
    first, *rest = sorted(lines)
    return f" at {listed([words_of(file, first), *map(str, rest)], len(lines))}"


def every_axis(sizes: Sizes) -> str:
    """`x axis 0` and all else that has this size: what is padded alone no longer fits the rest.

    If a square matrix has it on both axes, those are named together.
    """
    axes: dict[str, list[str]] = {}
    for name in sizes.names:
        if name not in sizes.follows:
            array, _, axis = name.rpartition(" axis ")
            axes.setdefault(array, []).append(axis)
    return names(
        [
            f"{array} axis {own[0]}" if len(own) == 1 else f"{array} axes {listed(own, len(own))}"
            for array, own in axes.items()
        ]
    )


def one_axis(sizes: Sizes) -> int | None:
    """The axis that has the size in all arrays; None if it is another one in some."""
    axes = {name.rpartition(" axis ")[2] for name in sizes.names}
    return int(next(iter(axes))) if len(axes) == 1 else None


def room(sizes: Sizes) -> str:
    """How long to create an array that grows: its last call may have added to what it took."""
    most = sizes.seen[-1]
    return f"{most + 1:,} (a call took {most:,}, and may have added one)"


def arrays_of(sizes: Sizes) -> list[str]:
    """The arrays with this size."""
    own = [name for name in sizes.names if name not in sizes.follows]
    return list(dict.fromkeys(name.rpartition(" axis ")[0] for name in own))


def axes_of(sizes: Sizes) -> list[int]:
    """Which axes of the first array have the size."""
    name = sizes.names[0].rpartition(" axis ")[0]
    of_name = [one.rpartition(" axis ") for one in sizes.names]
    return sorted(int(axis) for own, _, axis in of_name if own == name)

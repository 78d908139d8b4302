"""What added rows change, in words: what to mask, and what rows go through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from retrace.compare.along import EXTREMES, Along, Step
from retrace.model import Frame
from retrace.plan.step import Sizes
from retrace.present.words import listed, names, quoted
from retrace.present.words import place as words_of


def masked(along: Along, lengths: int = 1) -> str:
    """What to do about added rows, briefly.

    Args:
        along: what the program does with them.
        lengths: how many lengths vary: one, or several that differ.
    """
    if along.separate:
        unless = _from_end(along, " unless an", "is negative")
        if not along.returned:
            return f"no result depends on the added rows{unless}"
        return f"{_cut(along, lengths, 'drop')}: no other row depends on them{unless}"
    text = _masked(along)
    text += _past_the_end(along)
    if not along.ordered:  # the places are numbered by a loop
        text += _from_end(along, "; no", "may be negative")
    if any(one.primitive in _SOLVES for one in along.ordered):
        # Masks behind it come too late: a solution mixes the rows.
        text = (
            "make the matrix the identity in added rows and columns, and what it is solved for "
            f"0 there (`jnp.where`), before it is decomposed; {text}"
        )
    if along.counts:
        count = "a result is the size itself: return the number of real rows (`mask.sum()`)"
        rows_matter = along.masked or along.ordered or not along.whole
        text = f"{text}; {count}" if rows_matter else count
    return f"{text}; {_cut(along, lengths, 'cut off')}" if along.returned else text


def _from_end(along: Along, before: str, after: str) -> str:
    """That a negative index would find added rows, around the index and its place."""
    if not along.wrapped:
        return ""
    index = steps_of([Step("index", place) for place in along.wrapped]).replace("`", "")
    return f"{before} {index} {after}: it counts from the end, where the added rows are"


def _past_the_end(along: Along) -> str:
    """Which padded indices JAX would ignore, and which not."""
    # The derivative of a lookup adds at the same line; it adds 0 for what is masked behind it.
    looking_up = set(map(_at_line, along.filled))
    adding = [Step("scatter-add", at) for at in along.added if _at_line(at) not in looking_up]
    if not adding:
        return ""
    past_end = "a number past the end, which JAX drops by default"
    if not along.filled:
        return f"; give padded indices {past_end}"
    lookups = steps_of([Step("gather", place) for place in along.filled])
    return (
        f"; give padded indices of {steps_of(adding)} {past_end}, but those of {lookups} one "
        "that exists: it gives NaN for others"
    )


def _cut(along: Along, lengths: int, verb: str) -> str:
    """How to remove added rows from results: only where it is known where they are."""
    what = "rows and columns" if along.twice and len(along.ends) > 1 else "rows"
    if not along.ends:
        return (
            "a result has added rows as well, but not as many or not at its end alone: keep what "
            "belongs to real rows"
        )
    if lengths > 1 or along.ends[-1] > 1:
        axes = listed([f"axis {axis}" for axis in along.ends])
        return (
            f"{verb} the added {what} from the final results with NumPy: the last ones on {axes}"
        )
    index = ", ".join(":n" if axis in along.ends else ":" for axis in range(along.ends[-1] + 1))
    last = ", before any mean of it; `result[-1]` is one of them" if along.ends == (0,) else ""
    code = f"`np.asarray(result)[{index}]`{last}"
    return f"{verb} the added {what} from the final results with NumPy ({code})"


def _masked(along: Along) -> str:
    named = [one for one in along.masked if one.primitive is not None]
    sized = [one for one in along.masked if one.primitive is None]
    sure, beside = ([one for one in sized if one.beside is is_so] for is_so in (False, True))
    told: list[str] = []
    if named:
        text = f"mask the padding in {_with_values(named)}, or results change"
        sums = any(one.primitive in _ROUNDING for one in named)
        told.append(f"{text} (last bits of longer sums may differ)" if sums else text)
    if sure:
        told.append(
            f"the program computes with {steps_of(sure, _MAX_PLACES)}: use the number of real "
            "rows there, unless it only finds places in the padded array (an index, a shift)"
        )
    if beside:
        told.append(
            f"{steps_of(beside, _MAX_PLACES)} differs between the sizes, too: if it follows from "
            "the size, use the number of real rows"
        )
    return "; ".join(told) or "mask the padding where results depend on it"


_MAX_PLACES = 12
"""Each place that is not named changes results in silence."""
_ROUNDING = ("dot_general", "reduce_prod", "reduce_sum")
"""What computes in another order over more rows, zeros as they are."""
_SOLVES = ("cholesky", "lu", "triangular_solve")

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


def although(along: Along) -> str:
    """What speaks against adding rows: `they go through `scan` at model.py:3`."""
    through = [one for one in along.ordered if one.primitive is not None]
    sized = [one for one in along.ordered if one.primitive is None]
    said = [f"they go through {steps_of(through)}"] if through else []
    if sized:
        said.append(f"the program computes with {steps_of(sized)}")
    return " and ".join(said)


def steps_of(steps: Sequence[Step], most: int = 2) -> str:
    """`reduce_sum` at model.py:40 and 52, and how many more places there are."""
    known = sorted(
        steps, key=lambda one: (one.primitive is None, not one.is_draw, one.place is None)
    )
    placed = {one.primitive for one in known if one.place is not None}
    places = list(
        dict.fromkeys(
            (_called(one), _file(one.place), _line(one.place))
            for one in known
            if one.place is not None or one.primitive not in placed
        )
    )
    lines: dict[tuple[str, str], list[int]] = {}
    for called, file, line in places[:most]:
        lines.setdefault((called, file), []).append(line)
    texts = [f"{called}{_at(file, own)}" for (called, file), own in lines.items()]
    more = [f"{len(places) - most:,} more"] if len(places) > most else []
    return listed([*texts, *more], most + 1)


def _called(step: Step) -> str:
    if step.primitive is not None:
        return quoted(step.primitive)
    return "a number" if step.beside else "the size itself"


def _at_line(place: Frame | None) -> tuple[str, int] | None:
    return place and (place.file, place.line)


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
    return names(
        [
            f"{array} axis {axes[0]}"
            if len(axes) == 1
            else f"{array} axes {listed(list(map(str, axes)), len(axes))}"
            for axes, arrays in arrays_by_axes(sizes).items()
            for array in arrays
        ]
    )


def room(sizes: Sizes) -> str:
    """How long to create an array that grows: its last call may have added to what it took."""
    most = sizes.seen[-1]
    return f"{most + 1:,} (a call took {most:,}, and may have added one)"


def arrays_by_axes(sizes: Sizes) -> dict[tuple[int, ...], list[str]]:
    """The arrays with this size that NumPy can pad, by the axes that have it."""
    axes: dict[str, list[int]] = {}
    for name in sizes.names:
        if name not in sizes.follows:
            array, _, axis = name.rpartition(" axis ")
            if array in sizes.keys:
                continue
            axes.setdefault(array, []).append(int(axis))
    found: dict[tuple[int, ...], list[str]] = {}
    for array, own in axes.items():
        found.setdefault(tuple(sorted(own)), []).append(array)
    return found

"""What a program does along an axis: whether rows may be added at its end, and what to mask.

Two programs of one function that were traced for two sizes are held side by side, equation by
equation. An axis whose size differs between them is one of those that would be padded, wherever
it stands: nothing has to be followed. What an equation does along such an axis tells whether the
rows that were there before keep their results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

from retrace.compare.equation import inner
from retrace.compare.source_lines import place
from retrace.model import Frame, Listing

_SHAPE = re.compile(r"\[([\w,+*() -]*)\]")
_WHOLE = re.compile(r":~?[iu]\d")
_DEEPEST = 40
_MOST = 100_000
"""Equations that are held side by side."""
_MOST_TOLD = 8


class Step(NamedTuple):
    """An equation that goes along the axis."""

    primitive: str | None
    """None of one that computes with the size itself, as a mean does."""
    place: Frame | None
    """The user's line, where it is known."""


class Along(NamedTuple):
    """What is done along an axis."""

    masked: tuple[Step, ...] = ()
    """What adds up, multiplies or compares over it: what is added can be masked."""
    ordered: tuple[Step, ...] = ()
    """What depends on where something stands, or on how much there is: loops over it, sums so
    far, sorts, convolutions, random numbers for each."""
    whole: bool = True
    """Whether all equations are known; else there may be more of both."""

    @property
    def separate(self) -> bool:
        """Whether each row keeps its results, whatever is added after the last."""
        return self.whole and not self.masked and not self.ordered

    def also(self, other: Along) -> Along:
        """What either does."""
        return Along(
            _few((*self.masked, *other.masked)),
            _few((*self.ordered, *other.ordered)),
            self.whole and other.whole,
        )


UNKNOWN = Along(whole=False)

_EACH = frozenset(
    (
        *("abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2"),
        *("atanh", "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "clamp", "clz", "complex", "conj"),
        *("copy", "copy_p", "cos", "cosh", "digamma", "div", "eq", "eq_to", "erf", "erf_inv"),
        *("erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "igamma", "igammac", "imag"),
        *("integer_pow", "is_finite", "le", "le_to", "lgamma", "log", "log1p", "logistic", "lt"),
        *("lt_to", "max", "min", "mul", "ne", "neg", "nextafter", "not", "or", "polygamma"),
        *("population_count", "pow", "real", "regularized_incomplete_beta", "rem", "round"),
        *("rsqrt", "select_n", "select_and_gather_add", "shift_left", "shift_right_arithmetic"),
        *("shift_right_logical", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient", "sub"),
        *(
            "tan",
            "tanh",
            "xor",
            "zeta",
            "convert_element_type",
            "reduce_precision",
            "bitcast_convert_type",
        ),
        *("sharding_constraint", "optimization_barrier", "device_put", "name"),
    )
)
"""What is done for each element by itself. Of operands, those of one shape."""
_MOVED = frozenset(("broadcast_in_dim", "iota", "squeeze", "transpose", "expand_dims", "empty"))
"""What only moves axes, or makes each row from its number."""
_CALLS = frozenset(
    (
        *("cond", "checkpoint", "closed_call", "core_call", "custom_jvp_call", "custom_lin"),
        *("custom_vjp_call", "custom_vjp_call_jaxpr", "jit", "pjit", "remat", "remat2", "while"),
    )
)
_SUMS = ("reduce_", "argmax", "argmin")
_PLACED = ("dynamic_", "gather", "scatter")
"""What looks up or writes where it is told."""
_SO_FAR = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
_LINEAR = (
    "cholesky",
    "eig",
    "eigh",
    "householder_product",
    "lu",
    "qr",
    "svd",
    "triangular_solve",
)


def along(
    old: Listing, new: Listing, listings: Mapping[str, Listing], *, stable: bool = False
) -> Along:
    """What two programs of one function, traced for two sizes, do along the axes that differ.

    Args:
        old: one program.
        new: the other, which differs in sizes alone.
        listings: the sub-programs, by id.
        stable: whether a random number depends on its place alone, and not on how many there are
            (`jax_threefry_partitionable`).

    Returns:
        what they do; nothing is known where they differ in more than sizes, or in none.
    """
    return UNKNOWN if old.inputs == new.inputs else _Walk(listings, stable).programs(old, new)


class _Operand(NamedTuple):
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def axes(self) -> frozenset[int]:
        """Those of which the size differs."""
        return frozenset(
            axis for axis, (a, b) in enumerate(zip(self.old, self.new, strict=True)) if a != b
        )


class _Equation(NamedTuple):
    name: str
    given: tuple[_Operand, ...]
    made: tuple[_Operand, ...]
    old: dict[str, str]
    """The parameters of one."""
    new: dict[str, str]
    literal: bool
    """Whether a number in it is another one."""
    fixed: bool
    """Whether it is given whole numbers alone: where something stands."""

    def numbers(self, name: str) -> frozenset[int] | None:
        """A parameter of both that is one axis, or several; None where it differs."""
        text = self.old.get(name)
        if text is None or text != self.new.get(name):
            return None
        return frozenset(int(one) for one in re.findall(r"\d+", text))


class _Walk:
    def __init__(self, listings: Mapping[str, Listing], stable: bool) -> None:
        self._listings = listings
        self._stable = stable
        self._seen: set[tuple[str, str]] = set()
        self._walked = 0

    def programs(self, old: Listing, new: Listing, deep: int = 0) -> Along:
        if (old.id, new.id) in self._seen:
            return Along()
        self._seen.add((old.id, new.id))
        self._walked += len(old.equations)
        pairs = _paired(old, new)
        if pairs is None or deep > _DEEPEST or self._walked > _MOST:
            return UNKNOWN
        masked: list[Step] = []
        ordered: list[Step] = []
        whole = True
        for index, one in enumerate(pairs):
            if one is None:
                return UNKNOWN
            step = Step(None if one.literal else one.name, place(new, index))
            what = _what(one, self._stable)
            if what == "masked":
                masked.append(step)
            elif what == "ordered":
                ordered.append(step)
            elif what == "unknown":
                whole = False
            found = Along(_few(masked), _few(ordered), whole)
            called = self._called(old, new, index, deep)
            masked, ordered = [*found.masked, *called.masked], [*found.ordered, *called.ordered]
            whole = found.whole and called.whole
        return Along(_few(masked), _few(ordered), whole)

    def _called(self, old: Listing, new: Listing, index: int, deep: int) -> Along:
        found = Along()
        names = inner(old.equations[index]), inner(new.equations[index])
        for a, b in zip(*names, strict=False):
            before = self._listings.get(old.inner.get(a, ""))
            after = self._listings.get(new.inner.get(b, ""))
            if before is None or after is None:
                return UNKNOWN
            if before.id != after.id:
                found = found.also(self.programs(before, after, deep + 1))
        return found


def _few(steps: tuple[Step, ...] | list[Step]) -> tuple[Step, ...]:
    return tuple(dict.fromkeys(steps))[:_MOST_TOLD]


def _paired(old: Listing, new: Listing) -> list[_Equation | None] | None:
    """The equations side by side; None in place of those of two forms, or of all."""
    if len(old.equations) != len(new.equations) or old.wires != new.wires:
        return None
    if len(old.inputs) != len(new.inputs) or old.constants != new.constants:
        return None  # of a captured array that follows a size, the rows may be others
    types = [list(old.inputs), list(new.inputs)]
    wires = iter(old.wires)
    found: list[_Equation | None] = []
    for a, b in zip(old.equations, new.equations, strict=True):
        found.append(_equation(a, b, types, wires))
    return found


def _equation(
    old: str, new: str, types: list[list[str]], wires: Iterator[int]
) -> _Equation | None:
    a, b = old.split("\t"), new.split("\t")
    given: list[_Operand | None] = []
    literal = False
    arguments = [side[1].split(" ") if len(side) > 1 and side[1] else [] for side in (a, b)]
    results = [side[2].split(" ") if len(side) > 2 and side[2] else [] for side in (a, b)]
    same = len(arguments[0]) == len(arguments[1])
    for x, y in zip(*arguments, strict=False):
        if x == y == "$":
            wire = next(wires, len(types[0]))
            known = wire < min(map(len, types))
            given.append(_operand(types[0][wire], types[1][wire]) if known else None)
        elif "$" in (x, y):
            same = False
        else:
            given.append(_operand(x.rpartition(":")[2], y.rpartition(":")[2]))
            literal = literal or x.rpartition(":")[0] != y.rpartition(":")[0]
    made = [_operand(x, y) for x, y in zip(*results, strict=False)]
    types[0] += results[0]
    types[1] += results[1]
    if not same or a[0] != b[0] or len(results[0]) != len(results[1]):
        return None
    if None in given or None in made:
        return None
    return _Equation(
        a[0],
        tuple(one for one in given if one is not None),
        tuple(one for one in made if one is not None),
        _parameters(a),
        _parameters(b),
        literal,
        all(_WHOLE.search(one) for one in arguments[0]),
    )


def _parameters(parts: list[str]) -> dict[str, str]:
    split = [part.partition("=") for part in parts[3:]]
    return {name: value for name, _, value in split}


def _operand(old: str, new: str) -> _Operand | None:
    shapes = [_SHAPE.search(side) for side in (old, new)]
    if shapes[0] is None or shapes[1] is None:
        return _Operand((), ()) if old == new else None
    a, b = [tuple(filter(None, shape[1].split(","))) for shape in shapes if shape is not None]
    return _Operand(a, b) if len(a) == len(b) else None


def _what(one: _Equation, stable: bool) -> str:
    """What an equation does along the axes that differ: nothing, or it can be masked, or not."""
    name = one.name
    touched = [operand.axes for operand in one.given]
    if name.startswith("random_") and any(operand.axes for operand in one.made):
        return _drawn(one, stable)
    if one.literal:  # it computes with the size itself, as a mean does, or as `x[-1]`
        return "ordered" if one.fixed or name.startswith(_PLACED) else "masked"
    if name in _CALLS or name in _MOVED:
        return ""
    if name == "scan":
        return "" if one.old.get("length") == one.new.get("length") else "ordered"
    if not any(touched):
        return "" if one.old == one.new or not any(o.axes for o in one.made) else "unknown"
    if name in _EACH:
        return "" if one.old == one.new or _is_type_alone(one) else "unknown"
    if name.startswith(_SUMS):
        axes = one.numbers("axes")
        return "unknown" if axes is None else "masked" if axes & touched[0] else ""
    return _of_one(one, touched)


def _is_type_alone(one: _Equation) -> bool:
    return one.name in ("convert_element_type", "sharding_constraint", "device_put")


def _of_one(one: _Equation, touched: list[frozenset[int]]) -> str:
    match one.name:
        case "dot_general":
            return _product(one, touched)
        case "reshape":
            return "" if _keeps_rows(one) else "ordered"
        case name if name in _SO_FAR:
            return _if_along(one, "axis", touched)
        case "sort":
            return _if_along(one, "dimension", touched)
        case "concatenate":
            return _if_along(one, "dimension", [one.made[0].axes])
        case "rev":
            return _if_along(one, "dimensions", touched)
        case "top_k":
            last = len(one.given[0].old) - 1
            return "ordered" if last in touched[0] else ""
        case "slice":
            return "" if _takes_all(one, touched[0]) else "ordered"
        case "dynamic_slice" | "gather":
            # The same places are looked up, whatever stands behind them.
            return "" if _looks_up_alike(one, touched[0]) else "ordered"
        case name if name.startswith("scatter"):
            if not any(touched[1:]):
                return ""
            return "masked" if name in ("scatter-add", "scatter_add") else "ordered"
        case name if name in _LINEAR:
            rank = len(one.given[0].old)
            return "ordered" if any(axis >= rank - 2 for axis in touched[0]) else ""
        case "conv_general_dilated":
            return _convolution(one, touched)
        case _:
            return "unknown"


def _product(one: _Equation, touched: list[frozenset[int]]) -> str:
    text = one.old.get("dimension_numbers")
    if text is None or text != one.new.get("dimension_numbers"):
        return "unknown"
    found = re.findall(r"\(([\d,]*)\)", text)
    if len(found) < 2:
        return "unknown"
    sides = [{int(axis) for axis in part.split(",") if axis} for part in found[:2]]
    along = any(own & axes for own, axes in zip(sides, touched, strict=False))
    return "masked" if along else ""


def _convolution(one: _Equation, touched: list[frozenset[int]]) -> str:
    """As a product over the features; what it goes over in space stands in order."""
    text = one.old.get("dimension_numbers", "")
    sides = [
        [int(axis) for axis in part.split(",")] for part in re.findall(r"\(([\d,]+)\)", text)
    ]
    if len(sides) < 2 or text != one.new.get("dimension_numbers") or len(touched) < 2:
        return "unknown"
    if any(own & {*side[2:]} for own, side in zip(touched, sides, strict=False)):
        return "ordered"
    # Of the kernel the first axis is what it gives; then, on both sides, what is added up.
    return "masked" if any(s[1] in own for own, s in zip(touched, sides, strict=False)) else ""


def _drawn(one: _Equation, stable: bool) -> str:
    """Random numbers: the first rows are the same where each is drawn by its place alone."""
    by_place = stable and bool(one.given) and list(one.made[0].axes) == [0]
    return "" if one.name != "random_bits" or by_place else "ordered"


def _if_along(one: _Equation, name: str, touched: list[frozenset[int]]) -> str:
    axes = one.numbers(name)
    if axes is None:
        return "unknown"
    return "ordered" if any(axes & own for own in touched) else ""


def _keeps_rows(one: _Equation) -> bool:
    """Whether each row stands where it stood: what comes before the axis is the same."""
    given, made = one.given[0], one.made[0]
    if len(given.axes) != 1 or len(made.axes) != 1:
        return False
    (a,), (b,) = given.axes, made.axes
    before = given.old[:a], made.old[:b]
    if not all(size.isdigit() for size in (*before[0], *before[1])):
        return False
    return given.old[a] == made.old[b] and (
        prod(map(int, before[0])) == prod(map(int, before[1]))
    )


def _takes_all(one: _Equation, axes: frozenset[int]) -> bool:
    """Whether a slice takes the whole of the axes."""
    starts, limits = ([*re.findall(r"\d+", one.old.get(name, ""))] for name in _BOUNDS)
    if one.old.get("start_indices") != one.new.get("start_indices"):
        return False
    if one.old.get("strides") not in (None, "None"):
        return False
    sizes = one.given[0].old
    return all(
        axis < len(limits) and starts[axis] == "0" and limits[axis] == sizes[axis]
        for axis in axes
    )


_BOUNDS = ("start_indices", "limit_indices")


def _looks_up_alike(one: _Equation, axes: frozenset[int]) -> bool:
    """Whether as much is looked up along the axes in both, or all there is."""
    before = re.findall(r"\d+", one.old.get("slice_sizes", ""))
    after = re.findall(r"\d+", one.new.get("slice_sizes", ""))
    operand = one.given[0]
    return all(
        axis < min(len(before), len(after))
        and (before[axis], after[axis])
        in ((before[axis], before[axis]), (operand.old[axis], operand.new[axis]))
        for axis in axes
    )

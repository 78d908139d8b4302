"""What one equation does along the axes that differ between programs traced for two sizes."""

from __future__ import annotations

import re
from math import prod
from typing import Literal, TypeAlias

from retrace.compare.paired import Equation
from retrace.model.row import Row

ADDS_AT = ("scatter-add", "scatter_add")
"""What adds rows where an index says: with 0 as its index, padding is added to the first row."""

Effect: TypeAlias = Literal["nothing", "masked", "ordered", "unknown"]
"""What one row notices of the others: nothing; something that can be masked; something that
depends on the position or number of rows."""

_ELEMENTWISE = frozenset(
    (
        *("abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2"),
        *("atanh", "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "clamp", "clz", "complex", "conj"),
        *("copy", "copy_p", "cos", "cosh", "digamma", "div", "eq", "eq_to", "erf", "erf_inv"),
        *("erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "igamma", "igammac", "imag"),
        *("integer_pow", "is_finite", "le", "le_to", "lgamma", "log", "log1p", "logistic", "lt"),
        *("lt_to", "max", "min", "mul", "ne", "neg", "nextafter", "not", "or", "polygamma"),
        *("population_count", "pow", "real", "regularized_incomplete_beta", "rem", "round"),
        *("rsqrt", "select_n", "shift_left", "shift_right_arithmetic"),
        *("shift_right_logical", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient", "sub"),
        *("tan", "tanh", "xor", "zeta", "convert_element_type", "reduce_precision"),
        *("bitcast_convert_type", "one_minus_square"),
        *("sharding_constraint", "optimization_barrier", "device_put", "name"),
    )
)
"""Elementwise primitives: each element is computed by itself, from operands of one shape."""
_MOVING = frozenset(("broadcast_in_dim", "iota", "squeeze", "transpose", "expand_dims", "empty"))
"""Primitives that only move axes, or create each row from its index."""
_CALLS = frozenset(
    (
        *("cond", "checkpoint", "closed_call", "core_call", "custom_jvp_call", "custom_lin"),
        *("custom_vjp_call", "custom_vjp_call_jaxpr", "jit", "pjit", "remat", "remat2", "while"),
    )
)
_SIZE_PARAMETERS = frozenset(
    ("shape", "new_sizes", "start_indices", "limit_indices", "slice_sizes", "sharding")
)
"""Parameters that may follow a size. If another one differs, it names another axis or mode."""
_REDUCTIONS = ("reduce_", "argmax", "argmin")
_POSITIONAL = (
    *("dynamic_", "gather", "scatter", "while", "scan", "lt", "le", "gt", "ge", "eq", "ne"),
)
"""Primitives that read or write at given positions, or loop a given number of times."""
_CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
_LINEAR = frozenset(
    ["cholesky", "eig", "eigh", "householder_product", "lu", "qr", "svd", "triangular_solve"]
)


def effect(one: Equation, stable: bool) -> Effect:
    """What an equation does along the axes that differ."""
    name = one.name
    touched = [operand.axes for operand in one.given]
    if one.literal:  # it computes with the size itself, as a mean or `x[-1]` does
        return "ordered" if one.is_positional or name.startswith(_POSITIONAL) else "masked"
    if name.startswith("random_") and any(operand.axes for operand in one.made):
        return _random(one, stable)
    if name in _CALLS:
        return "nothing"
    if name == "scan":
        return "nothing" if one.old.get("length") == one.new.get("length") else "ordered"
    if name in _MOVING:
        return "unknown" if _has_other_parameters(one) else "nothing"
    if one.is_by_size:
        return "masked"
    if not any(touched):
        return "nothing" if one.old == one.new or _takes_first(one) else "unknown"
    if name in _ELEMENTWISE:
        return "nothing" if one.old == one.new or _changes_only_type(one) else "unknown"
    if name.startswith(_REDUCTIONS):
        axes = one.axes_in("axes")
        return "unknown" if axes is None else "masked" if axes & touched[0] else "nothing"
    if name == "fft":
        first = len(one.given[0].old) - one.old.get("fft_lengths", "").count(",") - 1
        return "ordered" if any(axis >= first for axis in touched[0]) else "nothing"
    return "unknown" if _has_other_parameters(one) else _by_primitive(one, touched)


def _takes_first(one: Equation) -> bool:
    """Whether it takes as many rows of a longer array as there are: `positions[:len(x)]`."""
    same = all(one.old.get(name) == one.new.get(name) for name in ("start_indices", "strides"))
    return one.name == "slice" and same


def _changes_only_type(one: Equation) -> bool:
    return one.name in ("convert_element_type", "sharding_constraint", "device_put")


def _has_other_parameters(one: Equation) -> bool:
    """Whether a parameter that is not a size changed with the size."""
    return any(
        one.old.get(name) != one.new.get(name)
        for name in one.old.keys() | one.new.keys()
        if name not in _SIZE_PARAMETERS
    )


def _by_primitive(one: Equation, touched: list[frozenset[int]]) -> Effect:
    match one.name:
        case "dot_general":
            return _product(one, touched)
        case "reshape":
            return "nothing" if _keeps_rows(one) else "ordered"
        case name if name in _CUMULATIVE:
            return _if_along(one, "axis", touched)
        case "sort":
            return _if_along(one, "dimension", touched)
        case "concatenate":
            return _if_along(one, "dimension", [one.made[0].axes])
        case "rev":
            return _if_along(one, "dimensions", touched)
        case "top_k":
            return _largest(one, touched)
        case "slice":
            return "nothing" if _takes_all(one, touched[0]) else "ordered"
        case "dynamic_slice" | "gather":
            return _lookup(one, touched[0])
        case name if name.startswith("scatter"):
            return _scatter(one, touched)
        case name if name in _LINEAR:
            rank = len(one.given[0].old)
            return "ordered" if any(axis >= rank - 2 for axis in touched[0]) else "nothing"
        case "conv_general_dilated":
            return _convolution(one, touched)
        case "pad":
            widths = re.findall(r"\((-?\d+), ?(-?\d+), ?(-?\d+)\)", one.old["padding_config"])
            plain = len(widths) == len(one.given[0].old)
            plain = plain and all({*widths[axis]} == {"0"} for axis in touched[0])
            return "nothing" if plain else "ordered"
        case _:
            return "unknown"


def _scatter(one: Equation, touched: list[frozenset[int]]) -> Effect:
    if not any(touched[1:]):
        return "unknown" if "CLIP" in one.old.get("mode", "") else "nothing"
    if _writes_whole_rows(one):
        return "nothing"
    return "masked" if one.name in ADDS_AT else "ordered"


def _largest(one: Equation, touched: list[frozenset[int]]) -> Effect:
    """The largest along the last axis; in newer JAX, along any axis."""
    if "axis" in one.old:
        return _if_along(one, "axis", touched)
    last = len(one.given[0].old) - 1
    return "ordered" if last in touched[0] else "nothing"


def _product(one: Equation, touched: list[frozenset[int]]) -> Effect:
    text = one.old.get("dimension_numbers")
    if text is None or text != one.new.get("dimension_numbers"):
        return "unknown"
    found = re.findall(r"\(([\d,]*)\)", text)
    if len(found) < 2:
        return "unknown"
    sides = [{int(axis) for axis in part.split(",") if axis} for part in found[:2]]
    along = any(own & axes for own, axes in zip(sides, touched, strict=False))
    return "masked" if along else "nothing"


def _convolution(one: Equation, touched: list[frozenset[int]]) -> Effect:
    """Along features it is a product; along spatial axes order matters."""
    text = one.old.get("dimension_numbers", "")
    sides = [
        [int(axis) for axis in part.split(",")] for part in re.findall(r"\(([\d,]+)\)", text)
    ]
    if len(sides) < 2 or text != one.new.get("dimension_numbers") or len(touched) < 2:
        return "unknown"
    if any(own & {*side[2:]} for own, side in zip(touched, sides, strict=False)):
        return "ordered"
    # The first axis of the kernel is the output features; the second, on both sides, is summed.
    return (
        "masked"
        if any(s[1] in own for own, s in zip(touched, sides, strict=False))
        else "nothing"
    )


def _random(one: Equation, stable: bool) -> Effect:
    """Random numbers: the first rows stay the same if each depends only on its position."""
    by_place = stable and bool(one.given) and list(one.made[0].axes) == [0]
    drawn = one.name in ("random_bits", "random_gamma", "random_split")
    return "ordered" if drawn and not by_place else "nothing"


def _if_along(one: Equation, name: str, touched: list[frozenset[int]]) -> Effect:
    axes = one.axes_in(name)
    if axes is None:
        return "unknown"
    return "ordered" if any(axes & own for own in touched) else "nothing"


def _keeps_rows(one: Equation) -> bool:
    """Whether each row keeps its position: the axes before it have the same size."""
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


def _takes_all(one: Equation, axes: frozenset[int]) -> bool:
    """Whether a slice takes these axes whole, and the same part of all others."""
    old, new = _slices(one.old, one.given[0].old), _slices(one.new, one.given[0].new)
    return (
        old is not None
        and new is not None
        and all(
            a.is_whole and b.is_whole
            if axis in axes
            else (a.start, a.end, a.step) == (b.start, b.end, b.step)
            for axis, (a, b) in enumerate(zip(old, new, strict=True))
        )
    )


class _Slice(Row):
    start: str
    end: str
    size: str
    step: str

    @property
    def is_whole(self) -> bool:
        return self.start == "0" and self.end == self.size and self.step == "1"


def _slices(parameters: dict[str, str], sizes: tuple[str, ...]) -> list[_Slice] | None:
    """What a slice takes of each axis; None if that is not known as numbers."""
    starts = re.findall(r"\d+", parameters.get("start_indices", ""))
    ends = re.findall(r"\d+", parameters.get("limit_indices", ""))
    steps = re.findall(r"\d+", parameters.get("strides", "")) or ["1"] * len(sizes)
    if not len(starts) == len(ends) == len(steps) == len(sizes):
        return None
    return list(map(_Slice, starts, ends, sizes, steps))


def _numbered(one: Equation, name: str) -> list[list[int]] | None:
    """The lists of axes in the dimension numbers of a lookup or scatter; None if they differ."""
    text = one.old.get("dimension_numbers", "")
    if text != one.new.get("dimension_numbers") or not text.startswith(name):
        return None
    parts = re.findall(r"\(([\d, ]*)\)", text.removeprefix(name))
    lists = [[int(axis) for axis in re.findall(r"\d+", part)] for part in parts]
    return lists if len(lists) == 5 else None


def _writes_whole_rows(one: Equation) -> bool:
    """Whether a scatter, as under `vmap`, writes into each row only what belongs to it."""
    numbers = _numbered(one, "ScatterDimensionNumbers")
    if numbers is None or len(one.given) != 3:
        return False
    window, inserted, indexed, batched, of_indices = numbers
    operand, indices, updates = one.given
    if not indices.axes <= {*of_indices}:
        return False
    kept = [axis for axis in range(len(operand.old)) if axis not in (*inserted, *batched)]
    of_update = dict(zip(kept, window, strict=False))
    return bool(operand.axes) and all(
        axis in batched
        or (
            axis not in indexed
            and axis in of_update
            and updates.old[of_update[axis]] == operand.old[axis]
            and updates.new[of_update[axis]] == operand.new[axis]
        )
        for axis in operand.axes
    )


def _lookup(one: Equation, axes: frozenset[int]) -> Effect:
    """What a lookup does: positions stay valid, but those behind the last row now hold data."""
    if (numbers := _numbered(one, "GatherDimensionNumbers")) is not None:
        axes -= {*numbers[3]}  # as under `vmap`, each row looks up in itself
    before = re.findall(r"\d+", one.old.get("slice_sizes", ""))
    after = re.findall(r"\d+", one.new.get("slice_sizes", ""))
    operand = one.given[0]
    if any(axis >= min(len(before), len(after)) for axis in axes) or any(
        a != b for axis, (a, b) in enumerate(zip(before, after, strict=False)) if axis not in axes
    ):
        return "ordered"
    taken = {(before[axis], after[axis]): (operand.old[axis], operand.new[axis]) for axis in axes}
    if all(own == whole for own, whole in taken.items()):
        return "nothing"
    if any(a != b and (a, b) != whole for (a, b), whole in taken.items()):
        return "ordered"
    return "nothing" if "PROMISE_IN_BOUNDS" in one.old.get("mode", "") else "unknown"

"""How much a program computes: its floating-point operations, counted from its equations.

Matrix products, convolutions, reductions and elementwise operations are counted from the shapes
in the text; moving data is free. A loop of unknown length counts once, so the numbers compare
two programs rather than measure one.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from retrace.compare.equation import inner, primitive
from retrace.model import Listing
from retrace.regex import regex

_SHAPE = regex(r"\[([\d,]*)\]")
_LENGTH = regex(r"\tlength=([0-9]{1,18})(?![0-9])")
_CONTRACTED = regex(r"\tdimension_numbers=\(\(\(([\d,]*)\)")
_KERNEL = regex(r"ConvDimensionNumbers\(\([\d,]*\),\((\d+)")
_MAX_DEPTH = 40

_FREE = frozenset(
    (
        *("broadcast_in_dim", "reshape", "transpose", "convert_element_type", "slice", "squeeze"),
        *("concatenate", "iota", "copy", "copy_p", "gather", "dynamic_slice", "pad", "rev"),
        *("dynamic_update_slice", "select_n", "stop_gradient", "device_put", "expand_dims"),
        *("bitcast_convert_type", "sharding_constraint", "split", "real", "imag"),
        *("optimization_barrier", "random_wrap", "random_unwrap", "empty", "create_token"),
    )
)


class Work:
    """Counts the operations of programs, each program once."""

    def __init__(self, listings: Mapping[str, Listing]) -> None:
        self.listings = listings
        self._known: dict[str, float | None] = {}

    def of(self, listing: Listing, depth: int = 0) -> float | None:
        """The floating-point operations of a program; None if they cannot be counted."""
        if listing.id not in self._known:
            self._known[listing.id] = None  # stops at a program inside itself
            self._known[listing.id] = self._counted(listing, depth)
        return self._known[listing.id]

    def _counted(self, listing: Listing, depth: int) -> float | None:
        types = list(listing.inputs)
        wires = iter(listing.wires)
        total = 0.0
        for text in listing.equations:
            parts = text.split("\t")
            given = parts[1].split(" ") if len(parts) > 1 else []
            made = parts[2].split(" ") if len(parts) > 2 and parts[2] else []
            taken: list[str] = []
            for one in given:
                number = next(wires, None) if one == "$" else None
                if number is not None and not 0 <= number < len(types):
                    return None
                taken.append(one if number is None else types[number])
            types += made
            if "@" not in text:
                total += _operations(primitive(text), text, taken, made)
                continue
            within = self._within(listing, text, depth)
            if within is None:
                return None
            total += within
        return total

    def _within(self, listing: Listing, text: str, depth: int) -> float | None:
        if depth >= _MAX_DEPTH:
            return None
        found: list[float] = []
        for hash_ in inner(text):
            sub = self.listings.get(listing.inner.get(hash_, ""))
            counted = None if sub is None else self.of(sub, depth + 1)
            if counted is None:
                return None
            found.append(counted)
        name = primitive(text)
        if name == "cond":
            return max(found, default=0.0)
        length = _LENGTH.search(text) if name == "scan" else None
        return sum(found) * (int(length[1]) if length else 1)


def _operations(name: str, text: str, taken: list[str], made: list[str]) -> float:
    if name in _FREE:
        return 0.0
    results = float(sum(_elements(one) for one in made))
    if name == "dot_general" and taken:
        shape, axes = _shape(taken[0]), _CONTRACTED.search(text)
        contracted = [int(axis) for axis in axes[1].split(",") if axis] if axes else []
        return 2 * results * prod(shape[axis] for axis in contracted if axis < len(shape))
    if name == "conv_general_dilated" and len(taken) > 1:
        kernel, features = _shape(taken[1]), _KERNEL.search(text)
        axis = int(features[1]) if features else 0
        output_features = kernel[axis] if axis < len(kernel) and kernel[axis] else 1
        return 2 * results * prod(kernel) / output_features
    if name.startswith(("reduce_", "arg")):
        return float(sum(_elements(one) for one in taken))
    return results


def _shape(type_: str) -> tuple[int, ...]:
    found = _SHAPE.search(type_)
    return tuple(int(size) for size in found[1].split(",") if size) if found else ()


def _elements(type_: str) -> int:
    return prod(_shape(type_))

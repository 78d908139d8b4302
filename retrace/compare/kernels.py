"""Which inputs of a program look like the weights of a layer: what others are multiplied by."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from retrace.compare.equation import inner, primitive
from retrace.compare.source_lines import Listings
from retrace.model import Listing

_AXES = r"\(([\d,]*)\)"
_PRODUCT = re.compile(
    rf"\tdimension_numbers=\(\({_AXES},{_AXES}\),\({_AXES},{_AXES}\)\)", re.ASCII
)

Axes: TypeAlias = dict[int, frozenset[int]]
"""By the position of an input or an argument."""

_DEEPEST = 40
_MAX_AXES = 8


class Kernels(NamedTuple):
    """The inputs that stand on the right of a product, with the axes that it keeps."""

    axes: Axes
    whole: bool = True
    """Whether all sub-programs were looked through."""


def kernels(listing: Listing, listings: Listings, deep: int = 0) -> Kernels:
    """The inputs of a program by which others are multiplied, here or in what it calls.

    `x @ w` keeps the last axis of `w`: the features that a layer gives. What is multiplied batch
    by batch, as the keys of an attention are, is data.
    """
    found: Axes = {}
    position, whole = 0, True
    for text in listing.equations:
        arguments = text.split("\t", 2)[1].split(" ")
        taken = arguments.count("$")
        wires = iter(listing.wires[position : position + taken])
        position += taken
        given = [next(wires, None) if one == "$" else None for one in arguments]
        kept = _kept(text, listing, listings, len(given), deep)
        whole = whole and kept.whole
        for index, axes in kept.axes.items():
            wire = given[index] if 0 <= index < len(given) else None
            if wire is not None and wire < len(listing.inputs):
                found[wire] = found.get(wire, frozenset()) | axes
    return Kernels(found, whole)


def _kept(text: str, listing: Listing, listings: Listings, given: int, deep: int) -> Kernels:
    name = primitive(text)
    if name == "dot_general":
        axes = _PRODUCT.search(text)
        if axes is None or axes[4]:
            return Kernels({})
        contracted = {int(axis) for axis in axes[2].split(",") if axis}
        return Kernels({1: frozenset(range(_MAX_AXES)) - contracted})
    if name == "conv_general_dilated":
        return Kernels({1: frozenset(range(_MAX_AXES))})
    found: Axes = {}
    whole = True
    for hash_ in inner(text):
        called = listings.get(listing.inner.get(hash_, ""))
        if called is None or deep >= _DEEPEST:
            whole = False
            continue
        own = kernels(called, listings, deep + 1)
        whole = whole and own.whole
        # What a sub-program does not take stands before what it takes: the index of a `cond`.
        first = given - len(called.inputs)
        for index, axes in own.axes.items():
            found[first + index] = found.get(first + index, frozenset()) | axes
    if name == "scan":  # of what it goes through, the body has one axis less
        found = {index: axes | {axis + 1 for axis in axes} for index, axes in found.items()}
    return Kernels(found, whole)

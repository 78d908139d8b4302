"""Which inputs of a program look like the weights of a layer: what others are multiplied by."""

from __future__ import annotations

import re
from typing import TypeAlias

from retrace.compare.equation import inner, primitive
from retrace.compare.lines import Listings
from retrace.model import Listing

_AXES = r"\(([\d,]*)\)"
_PRODUCT = re.compile(
    rf"\tdimension_numbers=\(\({_AXES},{_AXES}\),\({_AXES},{_AXES}\)\)", re.ASCII
)
Axes: TypeAlias = dict[int, frozenset[int]]
"""By the position of an input or an argument."""

_CALLS = frozenset(("pjit", "jit"))
"""Equations whose arguments are the inputs of their one sub-program, one by one."""
_DEEPEST = 40


def kernels(listing: Listing, listings: Listings, deep: int = 0) -> Axes:
    """The inputs that stand on the right of a product, with the axes that it keeps.

    `x @ w` keeps the last axis of `w`: the features that a layer gives. What is multiplied batch
    by batch, as the keys of an attention are, is data.
    """
    found: Axes = {}
    position = 0
    for text in listing.equations:
        arguments = text.split("\t", 2)[1].split(" ")
        taken = arguments.count("$")
        wires = iter(listing.wires[position : position + taken])
        position += taken
        given = [next(wires, None) if one == "$" else None for one in arguments]
        for index, axes in _kept(text, listing, listings, deep).items():
            wire = given[index] if index < len(given) else None
            if wire is not None and wire < len(listing.inputs):
                found[wire] = found.get(wire, frozenset()) | axes
    return found


def _kept(text: str, listing: Listing, listings: Listings, deep: int) -> Axes:
    name = primitive(text)
    if name == "dot_general":
        axes = _PRODUCT.search(text)
        if axes is None or axes[4]:
            return {}
        contracted = {int(axis) for axis in axes[2].split(",") if axis}
        return {1: frozenset(range(_MOST_AXES)) - contracted}
    if name == "conv_general_dilated":
        return {1: frozenset(range(_MOST_AXES))}
    if name in _CALLS and deep < _DEEPEST:
        for hash_ in inner(text):
            if (called := listings.get(listing.inner.get(hash_, ""))) is not None:
                return kernels(called, listings, deep + 1)
    return {}


_MOST_AXES = 8

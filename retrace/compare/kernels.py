"""Which inputs of a program look like layer weights: others are multiplied by them."""

import re
from typing import NamedTuple, TypeAlias

from retrace.compare.equation import inner, primitive
from retrace.compare.source_lines import Listings
from retrace.model import Listing
from retrace.regex import regex

_AXES = r"\(([\d,]*)\)"
_PRODUCT = regex(rf"\tdimension_numbers=\(\({_AXES},{_AXES}\),\({_AXES},{_AXES}\)\)", re.ASCII)

Axes: TypeAlias = dict[int, frozenset[int]]
"""Axes by the position of an input or argument."""

_MAX_DEPTH = 40
_MAX_AXES = 8


class Kernels(NamedTuple):
    """The inputs on the right-hand side of a product, with the axes that it keeps."""

    axes: Axes
    whole: bool = True
    """Whether all sub-programs were searched."""


def kernels(listing: Listing, listings: Listings) -> Kernels:
    """Find the inputs that others are multiplied by, here or in sub-programs.

    `x @ w` keeps the last axis of `w`: the output features of a layer. The operands of a batched
    product, such as the keys of attention, are data.
    """
    return _kernels(listing, listings, {}, 0)


def _kernels(
    listing: Listing, listings: Listings, known: dict[str, Kernels], depth: int
) -> Kernels:
    # A sub-program may be called often, at each of many levels, and a damaged one by itself.
    if (already := known.get(listing.id)) is not None:
        return already
    known[listing.id] = Kernels({}, whole=False)
    known[listing.id] = searched = _search(listing, listings, known, depth)
    return searched


def _search(
    listing: Listing, listings: Listings, known: dict[str, Kernels], depth: int
) -> Kernels:
    found: Axes = {}
    position, whole = 0, True
    for text in listing.equations:
        arguments = text.split("\t", 2)[1].split(" ")
        taken = arguments.count("$")
        wires = iter(listing.wires[position : position + taken])
        position += taken
        given = [next(wires, None) if one == "$" else None for one in arguments]
        kept = _kept(text, listing, listings, len(given), known, depth)
        whole = whole and kept.whole
        for index, axes in kept.axes.items():
            wire = given[index] if 0 <= index < len(given) else None
            if wire is not None and wire < len(listing.inputs):
                found[wire] = found.get(wire, frozenset()) | axes
    return Kernels(found, whole)


def _kept(
    text: str,
    listing: Listing,
    listings: Listings,
    given: int,
    known: dict[str, Kernels],
    depth: int,
) -> Kernels:
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
        if called is None or depth >= _MAX_DEPTH:
            whole = False
            continue
        own = _kernels(called, listings, known, depth + 1)
        whole = whole and own.whole
        # Arguments that a sub-program does not take come first: the index of a `cond`.
        first = given - len(called.inputs)
        for index, axes in own.axes.items():
            found[first + index] = found.get(first + index, frozenset()) | axes
    if name == "scan":  # the body sees one axis less of what is scanned
        found = {index: axes | {axis + 1 for axis in axes} for index, axes in found.items()}
    return Kernels(found, whole)

"""Whether arrays of other sizes look like weights of another model, judging by their use."""

from __future__ import annotations

from functools import lru_cache

from retrace.compare.kernels import kernels
from retrace.compare.outputs import outputs
from retrace.model import Change, Dim, Miss, ShapeChange
from retrace.reason.program import Comparison


def are_kernels(miss: Miss, changes: tuple[Change, ...], program: Comparison | None) -> bool:
    """Whether everything that changed size is shaped like weights that the program multiplies by.

    If these are parameters, another width means another model; the program cannot tell.
    """
    leaves = {leaf.path: leaf for leaf in miss.key.leaves}
    multiplied, _ = _multiplied(miss, program)
    found = {
        change.path: _axes(change.old, change.new)
        for change in _shapes(changes)
        if change.path in leaves
    }
    widths = {
        leaves[path].shape[axis]
        for path, axes in found.items()
        for axis in axes & multiplied.get(path, frozenset())
        if axis > 0 or len(leaves[path].shape) > _DENSE_AXES
    }
    # They come with what an optimizer keeps for them, in the same sizes.
    return bool(widths) and all(
        leaves[path].dtype.startswith(_NUMBERS)
        and {leaves[path].shape[axis] for axis in axes} <= widths
        and len(leaves[path].shape) >= _DENSE_AXES
        and (max(axes) > 0 or len(leaves[path].shape) > _DENSE_AXES)
        for path, axes in found.items()
    )


def are_square(miss: Miss, changes: tuple[Change, ...]) -> tuple[str, ...]:
    """Matrices that are square in both sizes, if all arrays of that size hold floats.

    Covariances, inverse masses and an optimizer's pairs of parameters look like this, for a
    problem of another dimension. Next to tokens or a mask they are data.
    """
    own = _shapes(changes)
    dtypes = {leaf.path: leaf.dtype for leaf in miss.key.leaves}
    if not all(dtypes.get(c.path, "").startswith(_NUMBERS) for c in own):
        return ()
    return tuple(
        c.path
        for c in own
        if len(c.old) == len(c.new) >= _DENSE_AXES
        and all(side[-1] == side[-2] for side in (c.old, c.new))
        and c.old[-1] != c.new[-1]
    )


def are_multiplied(miss: Miss, changes: tuple[Change, ...], program: Comparison | None) -> bool:
    """Whether the program multiplies by anything that changed size, as far as known."""
    multiplied, whole = _multiplied(miss, program)
    return not whole or any(
        _axes(change.old, change.new) & multiplied.get(change.path, frozenset())
        for change in _shapes(changes)
    )


def _multiplied(miss: Miss, program: Comparison | None) -> tuple[dict[str, frozenset[int]], bool]:
    """By path, the axes that products keep, and whether the whole program was examined."""
    listings = None if program is None else program.listings()
    if program is None or listings is None:
        return {}, False
    listing, leaves = listings[1], miss.key.leaves
    first = len(listing.inputs) - len(leaves)  # captured arrays come first
    if first not in (0, len(listing.constants)):
        return {}, False
    found = kernels(listing, program.texts)
    paths = {
        leaves[index - first].path: axes for index, axes in found.axes.items() if index >= first
    }
    return paths, found.whole


def are_handed_back(miss: Miss, changes: tuple[Change, ...], program: Comparison | None) -> bool:
    """Whether the program returns something of each type, such as weights that it trained."""
    listings = None if program is None else program.listings()
    if listings is None:
        return False
    returned = {output.type.replace("~", "") for output in outputs(listings[1])}
    first = len(listings[1].inputs) - len(miss.key.leaves)
    at = {leaf.path: index for index, leaf in enumerate(miss.key.leaves)}
    types = {
        listings[1].inputs[first + at[path]] for c in _shapes(changes) if (path := c.path) in at
    }
    return {type_.replace("~", "") for type_ in types} <= returned


_NUMBERS = ("float", "bfloat", "complex")
_DENSE_AXES = 2
"""Number of axes in the weights of a dense layer; those of a convolution have more."""


@lru_cache(maxsize=4096)  # the arrays of a batch change together
def _axes(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> frozenset[int]:
    """The axes whose size changed."""
    return frozenset(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)


def _shapes(changes: tuple[Change, ...]) -> list[ShapeChange]:
    return [change for change in changes if isinstance(change, ShapeChange)]

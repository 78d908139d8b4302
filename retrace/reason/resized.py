"""The arrays of a miss that changed size, and what its program does with them.

The advice on a miss and whether it was avoidable depend on the same facts, so each is found once.
The arrays of a batch change together, so most questions are about each change of sizes, not about
each array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from operator import itemgetter

from retrace.compare.kernels import kernels
from retrace.compare.outputs import outputs, same_but_inputs, unused_inputs
from retrace.model import Dim, Leaf, Listing, Miss, ShapeChange
from retrace.model.change import Changes, Shape, Sides
from retrace.reason.program import Comparison
from retrace.reason.rules import in_key, root

_path_of: Callable[[ShapeChange], str] = itemgetter(0)
_NUMBERS = ("float", "bfloat", "complex")
_DENSE_AXES = 2
"""Number of axes in the weights of a dense layer; those of a convolution have more."""


class Resized:
    """The changed shapes of one miss."""

    def __init__(self, miss: Miss, changes: Changes, program: Comparison | None) -> None:
        """`changes` are all changes of the miss, and `program` compares its programs."""
        self._miss, self._changes, self._program = miss, changes, program
        self._shapes = changes.shapes
        self.paths = tuple(map(_path_of, self._shapes))
        self.sides = changes.sides

    @cached_property
    def ranked(self) -> tuple[str, ...]:
        """Those that have another number of axes."""
        if all(len(old) == len(new) for old, new in self.sides):
            return ()
        return tuple([path for path, old, new in self._shapes if len(old) != len(new)])

    @cached_property
    def are_unused(self) -> bool:
        """Whether only arrays changed that the program does not use, not even for their sizes."""
        if self._program is None or self._listings is None:
            return False
        inputs = unused_inputs(self._listings[1], self._program.texts)
        if len(inputs) < len({*self.paths}):
            return False
        own = {change.path for change in in_key(self._changes)}
        if not own or len(inputs) < len(own):
            return False
        if not own <= {leaf.path for _, leaf in self._arguments(inputs)}:
            return False
        return same_but_inputs(*self._listings, self._program.texts)

    @cached_property
    def is_another_model(self) -> bool | None:
        """Whether parameters changed shape: layers of another width, with nothing to pad.

        In data, one size is that of the first axis everywhere, or of a later axis everywhere. In
        parameters, a layer's output size is the last axis of its kernel, and the first axis of
        its bias or of the next kernel.

        True if this holds within one argument, False if only for several arguments together, and
        None if it does not hold.
        """
        first: dict[tuple[Dim, Dim], set[Sides]] = {}
        later: dict[tuple[Dim, Dim], set[Sides]] = {}
        for old, new in self.sides:
            if len(old) != len(new):
                return None
            leading = None
            for axis, sizes in enumerate(zip(old, new, strict=True)):
                if sizes[0] == sizes[1] or sizes == leading:
                    continue
                if axis == 0:
                    leading = sizes
                (later if axis else first).setdefault(sizes, set()).add((old, new))
        crossing = [(first[sizes], later[sizes]) for sizes in first.keys() & later.keys()]
        if not crossing or not self._hold_numbers():
            return None
        return any(self._roots(a) & self._roots(b) for a, b in crossing)

    @cached_property
    def are_multiplied(self) -> bool:
        """Whether the program multiplies by anything that changed size, as far as known."""
        multiplied, whole = self._multiplied
        return not whole or any(
            _axes(change.old, change.new) & multiplied.get(change.path, frozenset())
            for change in (self._shapes if multiplied else ())
        )

    def are_kernels(self) -> bool:
        """Whether everything that changed size is shaped like weights that the program uses.

        If these are parameters, another width means another model; the program cannot tell.
        """
        multiplied, _ = self._multiplied
        if not multiplied:
            return False
        leaves = {leaf.path: leaf for leaf in self._miss.key.leaves}
        found = {
            change.path: _axes(change.old, change.new)
            for change in self._shapes
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

    def square(self) -> tuple[str, ...]:
        """Matrices that are square in both sizes, if all arrays of that size hold floats.

        Covariances, inverse masses and an optimizer's pairs of parameters look like this, for a
        problem of another dimension. Next to tokens or a mask they are data.
        """
        found = {
            (old, new)
            for old, new in self.sides
            if len(old) == len(new) >= _DENSE_AXES
            and all(side[-1] == side[-2] for side in (old, new))
            and old[-1] != new[-1]
        }
        if not found or not self._hold_numbers():
            return ()
        return tuple([path for path, old, new in self._shapes if (old, new) in found])

    def are_handed_back(self) -> bool:
        """Whether the program returns something of each type, such as weights it trained."""
        if self._listings is None:
            return False
        listing = self._listings[1]
        returned = {output.type.replace("~", "") for output in outputs(listing)}
        first = len(listing.inputs) - len(self._miss.key.leaves)
        at = {leaf.path: index for index, leaf in enumerate(self._miss.key.leaves)}
        types = {listing.inputs[first + at[path]] for path in self.paths if path in at}
        return {type_.replace("~", "") for type_ in types} <= returned

    @cached_property
    def _listings(self) -> tuple[Listing, Listing] | None:
        return None if self._program is None else self._program.listings()

    @cached_property
    def _multiplied(self) -> tuple[dict[str, frozenset[int]], bool]:
        """By path, the axes that products keep, and whether the whole program was examined."""
        if self._program is None or self._listings is None or self._first is None:
            return {}, False
        found = kernels(self._listings[1], self._program.texts)
        paths = {leaf.path: found.axes[at] for at, leaf in self._arguments(found.axes)}
        return paths, found.whole

    @cached_property
    def _first(self) -> int | None:
        """The position of the first argument: captured arrays come before; None if unclear."""
        if self._listings is None:
            return None
        listing = self._listings[1]
        first = len(listing.inputs) - len(self._miss.key.leaves)
        return first if first in (0, len(listing.constants)) else None

    def _arguments(self, inputs: Iterable[int]) -> Iterator[tuple[int, Leaf]]:
        """The arguments among some inputs of the later program, with their positions."""
        first, leaves = self._first, self._miss.key.leaves
        if first is not None:
            for at in inputs:
                if at >= first:
                    yield at, leaves[at - first]

    def _roots(self, sides: set[Sides]) -> set[str]:
        """The arguments with arrays that changed in one of these ways."""
        return {root(change.path) for change in self._shapes if change[1:] in sides}

    def _hold_numbers(self) -> bool:
        own = set(self.paths)
        leaves = [leaf for leaf in self._miss.key.leaves if leaf.path in own]
        return all(leaf.dtype.startswith(_NUMBERS) for leaf in leaves)


@lru_cache(maxsize=4096)  # the arrays of a batch change together
def _axes(old: Shape, new: Shape) -> frozenset[int]:
    """The axes whose size changed."""
    return frozenset(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)

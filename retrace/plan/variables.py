"""Axes of many sizes: which vary together, and into how many sizes to gather them.

One length that stands behind several arguments and several functions is one variable, found by
its sizes, and told once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from math import prod
from statistics import median
from typing import TypeVar

from retrace.compare.along import UNKNOWN, Along, along, is_drawn_by_place
from retrace.compare.work import Work
from retrace.model import Kind, Listing, Verdict
from retrace.model.advice import AnotherModel, PadShape
from retrace.plan import corners
from retrace.plan.candidate import Candidate, dropped
from retrace.plan.corners import Size, corner_curve, corner_of
from retrace.plan.data import Data
from retrace.plan.flops import Flops, JointFlops, counted
from retrace.plan.history import Column, History, Part
from retrace.plan.joint import cost, lengths
from retrace.plan.sizes import covering, curve, powers_of_two, recommended
from retrace.plan.step import Meant, Pairs, Sizes

_MOST = 16
"""So many sizes are looked at."""
_GROWS = 3
"""From so many steps by one on, a size grows by one."""
_PAIRS = 3
"""So many programs are held against the first of a function: one pair may hide a size."""
_NOT_OF_PROGRAMS = ("function", "clear", "again")
"""What may differ between two programs that are the same."""

_Sized = TypeVar("_Sized", int, Size)


class Axis:
    """A column of sizes in one history."""

    def __init__(self, index: int, number: int, history: History, column: Column) -> None:
        self.at = (index, number)
        self.history, self.column = history, column
        parts = [part for part in column.parts if part.axis >= 0]
        self.part = max(parts, key=lambda part: (self._distinct(part), -part.axis))
        self.dims = lengths(history, parts)
        """One axis of each length; of several, no one tells how long the others are."""
        self.sizes: dict[int, int] = {}
        """By the value of the column."""
        self.corners: dict[int, Size] = {}
        """The same of all lengths."""
        for row, value in enumerate(column.values):
            self.sizes.setdefault(value, self._size(row, self.part))
            self.corners.setdefault(value, tuple(self._size(row, part) for part in self.dims))

    def _size(self, row: int, part: Part) -> int:
        size = self.history.value(row, part)
        return size if isinstance(size, int) else 0

    def _distinct(self, part: Part) -> int:
        return len({self._size(row, part) for row in range(len(self.history.rows))})

    @property
    def names(self) -> tuple[str, ...]:
        """`batch['x'] axis 0`."""
        parts = sorted(self.column.parts, key=lambda part: part is not self.part)
        return tuple(f"{part.path} axis {part.axis}" for part in parts if part.axis >= 0)

    @property
    def in_order(self) -> list[int]:
        """The sizes as they came, each once."""
        return list(dict.fromkeys(self.sizes[value] for value in self.column.values))

    def calls(self) -> dict[int, int] | None:
        """How often each size was called; None where that was not counted."""
        return self._calls(self.sizes)

    def calls_of_corners(self) -> dict[Size, int] | None:
        """The same of all lengths."""
        return self._calls(self.corners)

    def lengths(self) -> Iterator[tuple[Verdict, Size]]:
        """Each row with its size."""
        for row, verdict in enumerate(self.history.rows):
            yield verdict, (self.sizes[self.column.values[row]],)

    def lengths_together(self) -> Iterator[tuple[Verdict, Size]]:
        """The same with all lengths."""
        for row, verdict in enumerate(self.history.rows):
            yield verdict, self.corners[self.column.values[row]]

    def same_lengths(self) -> list[tuple[str, ...]]:
        """Of each length the arguments and axes that always have it."""
        rows = range(len(self.history.rows))
        sizes = {
            part: [self._size(row, part) for row in rows]
            for part in self.column.parts
            if part.axis >= 0
        }
        return [
            tuple(f"{p.path} axis {p.axis}" for p, own in sizes.items() if own == sizes[part])
            for part in self.dims
        ]

    def _calls(self, sizes: Mapping[int, _Sized]) -> dict[_Sized, int] | None:
        found: dict[_Sized, int] = {}
        for row, verdict in enumerate(self.history.rows):
            size = sizes[self.column.values[row]]
            found[size] = found.get(size, 0) + (verdict.miss.calls or 0)
        return found if all(found.values()) else None

    def cost(self) -> Callable[[int], float]:
        """Elements of the arrays that have this axis, by its size."""
        rows = self.history.rows
        keys = rows[0].miss.key, rows[-1].miss.key
        leaves = {leaf.path: leaf for key in keys for leaf in key.leaves}
        axes: dict[str, set[int]] = {}
        for part in self.column.parts:
            axes.setdefault(part.path, set()).add(part.axis)
        terms = [
            (prod(s for i, s in enumerate(leaves[path].shape) if i not in own), len(own))
            for path, own in axes.items()
            if path in leaves
        ]
        terms = [term for term in terms if term[0]] or [(1, 1)]
        return lambda size: float(sum(rest * size**power for rest, power in terms))


def size_candidates(
    histories: list[History], listings: Mapping[str, Listing], data: Data
) -> Iterator[Candidate]:
    """A candidate for each variable, and one for arrays whose number of axes varies."""
    grouped: dict[Hashable, list[Axis]] = {}
    followers: dict[int, list[tuple[int, int, Column]]] = {}
    work = Work(listings)
    for index, history in enumerate(histories):
        if history.function.kind is Kind.OP or _is_inside_library(history):
            continue
        own: dict[Hashable, int] = {}
        columns = [(n, c) for n, c in enumerate(history.columns) if c.family == "shape"]
        for number, column in columns:
            if _is_model(history, column):
                continue  # parameters are never padded
            if any(part.axis < 0 for part in column.parts):
                mapped = dropped(column)
                at = {(index, number): mapped}
                yield Candidate("rank", dict(at), at, "ask")
                continue
            if (leader := _leader(column, columns)) is not None:
                followers.setdefault(index, []).append((leader, number, column))
                continue
            axis = Axis(index, number, history, column)
            own_sizes = axis.sizes if len(axis.dims) == 1 else axis.corners
            sizes = frozenset[Hashable](own_sizes.values())
            nth = own[sizes] = own.get(sizes, -1) + 1
            grouped.setdefault((sizes, nth), []).append(axis)
    for axes in grouped.values():
        candidate = _asked(axes, _of_sizes(axes, listings, data, work))
        for index, number in list(candidate.at):
            for leader, follower, column in followers.get(index, ()):
                if leader == number:
                    candidate.at[index, follower] = dropped(column)
                    candidate.certain[index, follower] = dropped(column)
        yield candidate


def _of_sizes(
    axes: list[Axis], listings: Mapping[str, Listing], data: Data, work: Work
) -> Candidate:
    several = len(axes[0].dims) > 1
    made = _paired if several else _gathered
    return made(axes, listings, data, work)


def _asked(axes: list[Axis], candidate: Candidate) -> Candidate:
    """The candidate as a question, where the sizes look chosen, or added rows may count."""
    sizes = candidate.sizes or candidate.pairs
    ordered: Meant = "ordered" if sizes is not None and sizes.along.ordered else ""
    if meant := _meant(axes) or ordered:
        candidate.sure = "ask"
        if candidate.pairs is not None:
            candidate.pairs = candidate.pairs._replace(meant=meant)
        if candidate.sizes is not None:
            candidate.sizes = candidate.sizes._replace(meant=meant)
    return candidate


def _is_inside_library(history: History) -> bool:
    """Whether it is a library's own function, called by others alone: nobody passes it arrays."""
    misses = [verdict.miss for verdict in history.rows]
    return history.function.in_library and all(miss.parent is not None for miss in misses)


def _is_model(history: History, column: Column) -> bool:
    """Whether these are the sizes of parameters, of which others are another model."""
    own = {part.path for part in column.parts}
    return any(
        isinstance(verdict.fix, AnotherModel) and not own.isdisjoint(verdict.fix.paths)
        for verdict in history.rows
    )


def _meant(axes: list[Axis]) -> Meant:
    """Whether the sizes look chosen."""
    if any(_are_kernels(axis) for axis in axes):
        return "kernels"
    if all(map(_has_lines, axes)):
        return "lines"
    own = [one for axis in axes for one in _advised(axis)]
    if own and all(one.sizes for one in own):
        return "doubled"
    return "square" if any(one.square for axis in axes for one in _of_axis(axis)) else ""


def _are_kernels(axis: Axis) -> bool:
    return any(one.kernels for one in _of_axis(axis))


def _advised(axis: Axis) -> list[PadShape]:
    return [row.fix for row in axis.history.rows if isinstance(row.fix, PadShape)]


def _of_axis(axis: Axis) -> list[PadShape]:
    """What was advised on the arrays of an axis and no others."""
    own = {part.path for part in axis.column.parts}
    return [one for one in _advised(axis) if own.issuperset(one.paths)]


def _has_lines(axis: Axis) -> bool:
    """Whether each line calls with a size of its own: training and evaluation, two uses."""
    sizes: dict[Hashable, set[int]] = {}
    for row, verdict in enumerate(axis.history.rows):
        site = verdict.miss.call_site
        if site is None or site.in_library or verdict.miss.nested:
            return False
        line = verdict.miss.lines or (site.file, site.line)
        sizes.setdefault(line, set()).add(axis.sizes[axis.column.values[row]])
    return len(sizes) > 1 and all(len(own) == 1 for own in sizes.values())


def _leader(column: Column, columns: list[tuple[int, Column]]) -> int | None:
    """The column of more sizes that decides this one, if there is one."""
    own = len(set(column.values))
    for number, other in columns:
        theirs = len(set(other.values))
        if other is column or theirs <= own or any(part.axis < 0 for part in other.parts):
            continue
        if len(set(zip(other.values, column.values, strict=True))) == theirs:
            return number
    return None


def _gathered(
    axes: list[Axis], listings: Mapping[str, Listing], data: Data, work: Work
) -> Candidate:
    # Named as the user's own function has it, where a library's has it as well.
    first = max(axes, key=lambda axis: (not axis.history.function.in_library, _spent(axis)))
    seen = sorted(set(first.sizes.values()))
    weights, beyond = data.of(first.names, seen)
    from_data = data.number(first.names)
    calls = first.calls() if from_data is None else None
    if calls is not None:
        weights = {size: float(number) for size, number in calls.items()}
    elements = first.cost()
    flops = Flops(counted(first.lengths(), work))
    choices = [flops.told(choice, weights) for choice in curve(weights, elements, _MOST)]
    grows = _grows(first.in_order)
    best = choices[0] if grows else recommended(choices, len(weights))
    candidate = Candidate("shape")
    candidate.sizes = Sizes(
        tuple(dict.fromkeys(name for axis in (first, *axes) for name in axis.names)),
        tuple(seen),
        best,
        tuple(choices),
        flops.told(powers_of_two(weights, elements), weights),
        sum({axis.history.function.site: _program(axis.history) for axis in axes}.values()),
        grows,
        _along((first, *axes), listings),
        from_data,
        beyond,
        None if calls is None else sum(calls.values()),
    )
    for axis in axes:
        number = max(axis.column.values) + 1
        mapped = [covering(axis.sizes[value], best.sizes) for value in range(number)]
        known = {size: value for value, size in reversed(list(enumerate(mapped)))}
        candidate.at[axis.at] = tuple(known[size] for size in mapped)
        candidate.certain[axis.at] = candidate.at[axis.at]
    return candidate


def _paired(
    axes: list[Axis], listings: Mapping[str, Listing], data: Data, work: Work
) -> Candidate:
    """A candidate for axes of several lengths, of which some combinations were called."""
    first = max(axes, key=lambda axis: (not axis.history.function.in_library, _spent(axis)))
    seen = tuple(sorted(set(first.corners.values())))
    found = data.together(first.same_lengths(), seen)
    weights, from_data, beyond = found or (dict.fromkeys(seen, 1.0), None, 0)
    calls = first.calls_of_corners() if from_data is None else None
    if calls is not None:
        weights = {size: float(number) for size, number in calls.items()}
    paid = cost(first.history, first.column, first.dims)
    flops = JointFlops(counted(first.lengths_together(), work))
    choices = [flops.told(one, weights) for one in corner_curve(weights, paid, _MOST)]
    best = recommended(choices, len(weights))
    candidate = Candidate("shape")
    candidate.pairs = Pairs(
        tuple(f"{part.path} axis {part.axis}" for part in first.dims),
        tuple(dict.fromkeys(name for axis in (first, *axes) for name in axis.names)),
        seen,
        best,
        tuple(choices),
        flops.told(corners.powers_of_two(weights, paid), weights),
        sum({axis.history.function.site: _program(axis.history) for axis in axes}.values()),
        _along((first, *axes), listings),
        from_data,
        beyond,
        None if calls is None else sum(calls.values()),
    )
    for axis in axes:
        number = max(axis.column.values) + 1
        mapped = [corner_of(axis.corners[value], best.sizes) for value in range(number)]
        known = {size: value for value, size in reversed(list(enumerate(mapped)))}
        candidate.at[axis.at] = tuple(known[size] for size in mapped)
        candidate.certain[axis.at] = candidate.at[axis.at]
    return candidate


def _spent(axis: Axis) -> float:
    return sum(verdict.miss.seconds for verdict in axis.history.rows)


def _program(history: History) -> float:
    """Median seconds of one program of a function."""
    programs = [v.miss.seconds for v in history.rows if v.miss.raised is None]
    return median(programs) if programs else 0.0


def _grows(sizes: list[int]) -> bool:
    steps = [b - a for a, b in pairwise(sizes)]
    return len(steps) >= _GROWS and steps.count(1) * 4 >= len(steps) * 3


def _along(axes: Sequence[Axis], listings: Mapping[str, Listing]) -> Along:
    """What the programs of all functions that have the axis do along it."""
    found = Along()
    for axis in dict.fromkeys(axes):  # the leading one stands first
        pairs = list(islice(_beside(axis, listings), _PAIRS))
        stable = is_drawn_by_place(axis.history.rows[0].miss.key)
        for old, new in pairs:
            found = found.also(along(old, new, listings, stable=stable))
        found = found if pairs else found.also(UNKNOWN)
    return found


def _beside(axis: Axis, listings: Mapping[str, Listing]) -> Iterator[tuple[Listing, Listing]]:
    """Two programs of a function that were made for two sizes and are else the same."""
    values = axis.column.values
    follows = len(set(values))
    others = [
        column
        for column in axis.history.columns
        if column.family not in _NOT_OF_PROGRAMS
        and len(set(zip(values, column.values, strict=True))) > follows
    ]
    known: dict[Hashable, tuple[int, Listing]] = {}
    for row, verdict in enumerate(axis.history.rows):
        program = verdict.miss.program
        listing = None if program is None else listings.get(program.listing or "")
        if listing is None:
            continue
        # What a captured array on a device holds is not known.
        rest = (program and program.arrays, *(column.values[row] for column in others))
        size, before = known.setdefault(rest, (values[row], listing))
        if size != values[row]:
            yield before, listing

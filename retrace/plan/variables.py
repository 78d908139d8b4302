"""Axes that have many sizes: which vary together, and which sizes to pad them to.

One length shared by several arguments and functions is one variable. It is recognised by its
sizes and reported once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import cast

from retrace.causes import Cause
from retrace.compare.along import UNKNOWN, Along, along, is_drawn_by_position
from retrace.compare.work import Work
from retrace.model import Kind, Listing, Verdict
from retrace.model.advice import AnotherModel
from retrace.model.change import together
from retrace.model.row import Row
from retrace.plan import corners
from retrace.plan.axis import Axis, names_of
from retrace.plan.candidate import (
    Candidate,
    dropped,
    is_called_by_others,
    is_of_other_models,
)
from retrace.plan.corners import corner_curve, corner_of
from retrace.plan.data import Data
from retrace.plan.flops import Flops, JointFlops, counted
from retrace.plan.history import Column, History
from retrace.plan.joint import cost
from retrace.plan.pairs import covers_all, differ_besides, program_pairs
from retrace.plan.replay import Mapped
from retrace.plan.sizes import Curve, covering, curve, powers_of_two, recommended
from retrace.plan.step import Meant, Pairs, Sizes
from retrace.reason.resized import Resized
from retrace.reason.traits import is_mapped

_MAX_SIZES = 16
"""Maximum number of sizes considered."""
_MIN_STEPS = 3
"""Minimum number of increments for a size to count as growing by one."""
_MAX_PAIRS = 3
"""Number of programs compared with a function's first: one pair may hide a size."""
_MAX_ROWS = 1000
"""Maximum number of programs among which more are searched, for axes that did not differ yet."""


def size_candidates(
    histories: list[History], listings: Mapping[str, Listing], data: Data
) -> Iterator[Candidate]:
    """A candidate for each variable, and one for arrays whose number of axes varies."""
    grouped: dict[Hashable, list[Axis]] = {}
    followers: dict[int, list[tuple[int, int, Column]]] = {}
    known = _Known(listings, data, Work(listings), _derived(histories))
    for index, history in enumerate(histories):
        if not _is_padded(history):
            continue
        own: dict[Hashable, int] = {}
        columns = [(n, c) for n, c in enumerate(history.columns) if c.family == "shape"]
        for number, column in columns:
            if _is_model(history, column):
                continue  # parameters are never padded
            if any(part.axis < 0 for part in column.parts):
                if (mapped := _of_one_rank(history, column)) is not None:
                    at = {(index, number): mapped}
                    yield Candidate("rank", dict(at), at, "ask")
                continue
            if (leader := _leader(column, columns)) is not None:
                followers.setdefault(index, []).append((leader, number, column))
                continue
            axis = Axis(index, number, history, column)
            own_sizes = axis.sizes if len(axis.dims) == 1 else axis.corners
            sizes = frozenset[Hashable](own_sizes.values())
            if len(sizes) < 2:
                continue  # any other is symbolic
            nth = own[sizes] = own.get(sizes, -1) + 1
            grouped.setdefault((sizes, nth), []).append(axis)
    for axes in grouped.values():
        candidate = _as_question(axes, _of_sizes(axes, known))
        led = [part for axis in axes for part in axis.others]
        for index, number in list(candidate.at):
            for leader, follower, column in followers.get(index, ()):
                if leader == number:
                    candidate.at[index, follower] = dropped(column)
                    candidate.certain[index, follower] = dropped(column)
                    led += [part for part in column.parts if part.axis >= 0]
        if candidate.sizes is not None:
            follows = tuple(dict.fromkeys(f"{part.path} axis {part.axis}" for part in led))
            candidate.sizes = candidate.sizes._replace(
                follows=follows, masks=_of_dtype(axes, "bool"), keys=_of_dtype(axes, "key<")
            )
        yield candidate


def _is_padded(history: History) -> bool:
    """Whether a user can pad what the function takes; of `pmap`, axis 0 is that of devices."""
    if history.function.kind is Kind.OP or is_mapped(history.rows[0].miss):
        return False
    return not is_called_by_others(history)


def _of_dtype(axes: list[Axis], dtype: str) -> tuple[str, ...]:
    """The padded arrays whose dtype begins with this."""
    padded = {part.path for axis in axes for part in axis.column.parts if part.axis >= 0}
    leaves = [leaf for axis in axes for leaf in axis.history.rows[0].miss.key.leaves]
    found = [leaf.path for leaf in leaves if leaf.dtype.startswith(dtype) and leaf.path in padded]
    return tuple(dict.fromkeys(found))


class _Known(Row):
    """What is known besides the axes."""

    listings: Mapping[str, Listing]
    data: Data
    work: Work
    derived: Mapping[str, float]
    """The seconds of the programs that JAX derived from a miss, by the miss."""

    def program(self, axes: Sequence[Axis]) -> float:
        """Seconds of one program of each function that has the axis."""
        return sum({axis.function: self._median(axis.history) for axis in axes}.values())

    def _median(self, history: History) -> float:
        rows = [verdict.miss for verdict in history.rows if verdict.miss.raised is None]
        # Importing `statistics` for it takes longer than the whole plan of a few misses.
        ordered = sorted(miss.seconds + self.derived.get(miss.id, 0.0) for miss in rows)
        middle = len(ordered) // 2
        return (ordered[middle] + ordered[~middle]) / 2 if ordered else 0.0


def _derived(histories: Sequence[History]) -> dict[str, float]:
    found: dict[str, float] = {}
    for history in histories:
        for miss in (verdict.miss for verdict in history.rows):
            if miss.derived is not None and miss.parent is not None:
                found[miss.parent] = found.get(miss.parent, 0.0) + miss.seconds
    return found


def _of_one_rank(history: History, column: Column) -> Mapped | None:
    """The values after axes of length 1 are added, or None if no two become the same."""
    parts = [part for part in column.parts if part.axis < 0]
    classes: dict[Hashable, int] = {}
    mapped: dict[int, int] = {}
    for row, value in enumerate(column.values):
        shapes = [history.value(row, part) for part in parts]
        long = tuple([_but_ones(shape) for shape in shapes])
        mapped.setdefault(value, classes.setdefault(long, value))
    if len(mapped) == 2 and _starts_as_numbers(history, {part.path for part in parts}):
        return dropped(column)
    found = tuple([mapped[value] for value in range(len(mapped))])
    return found if len(classes) < len(mapped) else None


def _starts_as_numbers(history: History, paths: set[str]) -> bool:
    """Whether the first call passes Python numbers where each later one passes an array."""
    first = [leaf for leaf in history.rows[0].miss.key.leaves if leaf.path in paths]
    return len(first) == len(paths) and all(leaf.weak_type and not leaf.shape for leaf in first)


def _but_ones(shape: Hashable) -> Hashable:
    sizes = cast(tuple[Hashable, ...], shape if isinstance(shape, tuple) else (shape,))
    return tuple([size for size in sizes if size != 1])


def _of_sizes(axes: list[Axis], known: _Known) -> Candidate:
    return (_paired if len(axes[0].dims) > 1 else _gathered)(axes, known)


def _as_question(axes: list[Axis], candidate: Candidate) -> Candidate:
    """Make the candidate a question if the sizes look intended or added rows may matter."""
    sizes = candidate.sizes or candidate.pairs
    if meant := _meant(axes) or ("" if sizes is None else _may_count(sizes.along)):
        candidate.sure = "ask"
        if candidate.pairs is not None:
            candidate.pairs = candidate.pairs._replace(meant=meant)
        if candidate.sizes is not None:
            candidate.sizes = candidate.sizes._replace(meant=meant)
    return candidate


def _may_count(along: Along) -> Meant:
    """Whether added rows may change the results in a way that masking cannot undo."""
    if along.ordered:
        return "ordered"
    if not along.whole or along.sized:
        return "unknown"
    return "wrapped" if along.wrapped else ""


def _is_model(history: History, column: Column) -> bool:
    """Whether these are sizes of parameters, where other sizes mean another model."""
    own = {part.path for part in column.parts}
    return (
        is_of_other_models(history, column)
        or any(
            isinstance(verdict.fix, AnotherModel) and not own.isdisjoint(verdict.fix.paths)
            for verdict in history.rows
        )
        or any(
            _is_another_model(verdict, own)
            for verdict in islice(_firsts(history, column), _MAX_PAIRS)
            if verdict.cause is not Cause.SHAPE_CHANGED
        )
    )


def _firsts(history: History, column: Column) -> Iterator[Verdict]:
    """The first call with each further value of a column."""
    found: dict[int, Verdict] = {}
    for verdict, value in zip(history.rows, column.values, strict=True):
        found.setdefault(value, verdict)
    return (verdict for value, verdict in found.items() if value)


def _is_another_model(verdict: Verdict, paths: set[str]) -> bool:
    """Whether arrays of these paths are parameters, where the miss has another cause as well."""
    found = Resized(verdict.miss, together(verdict.changes), verdict.program)
    return (
        not paths.isdisjoint(found.paths)
        and bool(found.is_another_model)
        and found.are_multiplied
    )


def _meant(axes: list[Axis]) -> Meant:
    """Why the sizes look intended, or an empty string."""
    if any(one.kernels for axis in axes for one in axis.advised_here):
        return "kernels"
    if all(map(_has_lines, axes)):
        return "lines"
    own = [one for axis in axes for one in axis.advised]
    if own and all(one.sizes for one in own):
        return "doubled"
    return "square" if any(one.square for axis in axes for one in axis.advised_here) else ""


def _has_lines(axis: Axis) -> bool:
    """Whether each size was first seen on its own line, as with training and evaluation.

    Later calls of a line are not seen if they were served, so it may pass other sizes as well.
    """
    sizes: dict[Hashable, set[int]] = {}
    for row, verdict in enumerate(axis.history.rows):
        site = verdict.miss.call_site
        if site is None or site.in_library or verdict.miss.nested:
            return False
        line = verdict.miss.lines or (site.file, site.line)
        if (size := axis.sizes.get(axis.column.values[row])) is not None:  # not a symbolic one
            sizes.setdefault(line, set()).add(size)
    return len(sizes) > 1 and all(len(own) == 1 for own in sizes.values())


def _leader(column: Column, columns: list[tuple[int, Column]]) -> int | None:
    """The column with more sizes that determines this one, if any."""
    own = len(set(column.values))
    for number, other in columns:
        theirs = len(set(other.values))
        if other is column or theirs <= own or any(part.axis < 0 for part in other.parts):
            continue
        if len(set(zip(other.values, column.values, strict=True))) == theirs:
            return number
    return None


def _gathered(axes: list[Axis], known: _Known) -> Candidate:
    # Use the names of the user's own function if a library's function has the axis as well.
    first = max(axes, key=lambda axis: (not axis.history.function.in_library, _spent(axis)))
    seen = sorted(set(first.sizes.values()))
    weights, beyond = known.data.of(first.names, seen)
    from_data = known.data.number(first.names)
    calls = first.calls() if from_data is None else None
    if calls is not None:
        weights = {size: float(number) for size, number in calls.items()}
    elements = first.cost()
    flops = Flops(counted(first.lengths(), known.work))
    choices = Curve(
        flops.with_flops(choice, weights) for choice in curve(weights, elements, _MAX_SIZES)
    )
    grows = _grows(first.in_order)
    best = next(iter(choices)) if grows else recommended(choices, len(weights))
    candidate = Candidate("shape")
    candidate.sizes = Sizes(
        names_of((first, *axes)),
        tuple(seen),
        best,
        choices,
        flops.with_flops(powers_of_two(weights, elements), weights),
        known.program(axes),
        grows,
        _along((first, *axes), known.listings),
        from_data,
        beyond,
        None if calls is None else sum(calls.values()),
    )
    for axis in axes:
        to = axis.padded(axis.sizes, lambda size: covering(size, best.sizes))
        candidate.at[axis.at] = to
        candidate.certain[axis.at] = to
    return candidate


def _paired(axes: list[Axis], known: _Known) -> Candidate:
    """A candidate for axes of several lengths for which only some combinations were called."""
    first = max(axes, key=lambda axis: (not axis.history.function.in_library, _spent(axis)))
    seen = tuple(sorted(set(first.corners.values())))
    found = known.data.together(first.same_lengths(), seen)
    weights, from_data, beyond = found or (dict.fromkeys(seen, 1.0), None, 0)
    calls = first.calls_of_corners() if from_data is None else None
    if calls is not None:
        weights = {size: float(number) for size, number in calls.items()}
    paid = cost(first.history, first.column, first.dims)
    flops = JointFlops(counted(first.lengths_together(), known.work))
    choices = [flops.with_flops(one, weights) for one in corner_curve(weights, paid, _MAX_SIZES)]
    best = recommended(choices, len(weights))
    candidate = Candidate("shape")
    candidate.pairs = Pairs(
        tuple(f"{part.path} axis {part.axis}" for part in first.dims),
        tuple(dict.fromkeys(name for axis in (first, *axes) for name in axis.names)),
        first.same_lengths(),
        seen,
        best,
        tuple(choices),
        flops.with_flops(corners.powers_of_two(weights, paid), weights),
        known.program(axes),
        _along((first, *axes), known.listings),
        from_data,
        beyond,
        None if calls is None else sum(calls.values()),
    )
    for axis in axes:
        to = axis.padded(axis.corners, lambda size: corner_of(size, best.sizes))
        candidate.at[axis.at] = to
        candidate.certain[axis.at] = to
    return candidate


def _spent(axis: Axis) -> float:
    return sum(verdict.miss.seconds for verdict in axis.history.rows)


def _grows(sizes: list[int]) -> bool:
    steps = [b - a for a, b in pairwise(sizes)]
    return len(steps) >= _MIN_STEPS and steps.count(1) * 4 >= len(steps) * 3


def _along(axes: Sequence[Axis], listings: Mapping[str, Listing]) -> Along:
    """What the programs of all functions that have the axis do along it."""
    found = Along()
    for axis in dict.fromkeys(axes):  # the leading axis comes first
        stable = is_drawn_by_position(axis.history.rows[0].miss.key)
        called = any(not verdict.miss.nested for verdict in axis.history.rows)
        lengths = {axis.history.sizes(part) for part in axis.column.parts if part.axis >= 0}
        seen: set[tuple[int, ...]] = set()
        pairs, shown = 0, set[int]()
        for before, after in islice(program_pairs(axis, listings), _MAX_ROWS):
            # Of several axes, a pair shows only those whose sizes differ.
            differ = {one for one in lengths if one[before.row] != one[after.row]}
            if pairs >= _MAX_PAIRS and differ <= seen:
                if seen == lengths:
                    break
                continue
            pairs, seen = pairs + 1, seen | differ
            shown |= {before.row, after.row}
            own = along(before.listing, after.listing, listings, stable=stable)
            if differ_besides(axis, before, after):
                own = own.beside_others()
            if not called:  # only the program around it gets its results
                own = own._replace(
                    returned=False, counts=False, whole=own.whole and not own.counts
                )
            found = found.union(own)
        if not pairs or seen != lengths or not covers_all(axis, shown, listings):
            found = found.union(UNKNOWN)
    return found

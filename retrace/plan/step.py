"""The plan as data: what to change, what that removes, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from retrace.causes import Cause
from retrace.compare.along import Along
from retrace.model.advice import Advice, Sure
from retrace.model.record import Record
from retrace.model.row import Row
from retrace.plan.amount import Amount
from retrace.plan.corners import Corners, Size
from retrace.plan.sizes import Choice

Meant: TypeAlias = Literal[
    "", "lines", "doubled", "kernels", "square", "ordered", "unknown", "wrapped"
]
"""Why all sizes may be intended: each first seen on its own line, each twice the previous one,
the weights of several models, square matrices, or a program for which extra rows may be real data
(`ordered`) or for which that is unknown, or one where an index may count from the end."""


class Sizes(Row):
    """What can be done about an axis that has many sizes."""

    names: tuple[str, ...]
    """The arguments and axes that vary together, such as `batch['ids'] axis 1`."""
    seen: tuple[int, ...]
    chosen: Choice
    curve: Sequence[Choice]
    """The best choice of one size, of two, and so on."""
    powers: Choice
    program: float
    """Median seconds of one program, summed over the functions that have the axis."""
    grows: bool
    """Whether the axis grows by one with each call."""
    along: Along
    """What programs do along the axis: what must be masked, and whether padding is allowed."""
    data: int | None = None
    """Number of data sizes that weigh the padding, or None if each size counts once."""
    beyond: int = 0
    """Number of data sizes that were never called."""
    counted: int | None = None
    """Number of counted calls that weigh the padding, or None if calls were not counted."""
    meant: Meant = ""
    follows: tuple[str, ...] = ()
    """Axes of other arrays that grow with these but differ in length."""
    masks: tuple[str, ...] = ()
    """Those of the arrays that hold booleans: a copy of a row would count as real."""
    keys: tuple[str, ...] = ()
    """Those that hold typed PRNG keys, which NumPy cannot pad."""


class Pairs(Row):
    """What can be done about axes that vary together but differ in length."""

    axes: tuple[str, ...]
    """One axis for each length, in the order used by each size: `ids axis 0`."""
    names: tuple[str, ...]
    """All arguments and axes that have these lengths."""
    same: Sequence[tuple[str, ...]]
    """For each of `axes`, all arguments and axes that always have its length."""
    seen: tuple[Size, ...]
    chosen: Corners
    curve: tuple[Corners, ...]
    """The best choice of one combination, of two, and so on."""
    powers: Corners
    program: float
    """Median seconds of one program, summed over the functions that have the axes."""
    along: Along
    """What programs do along the axes, as in `Sizes`."""
    data: int | None = None
    """Number of data rows that weigh the padding, or None if each combination counts once."""
    beyond: int = 0
    """Number of combinations in the data that were never called."""
    counted: int | None = None
    """Number of counted calls that weigh the padding, or None if calls were not counted."""
    meant: Meant = ""


class Change(Row):
    """One thing to change."""

    family: str
    """The family of the column, such as "shape" or "static", or "eager" or "eager-sizes"."""
    paths: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """Values captured by the function that should be passed."""
    seen: int = 0
    """The number of distinct values."""
    programs: int = 0
    """Number of programs left if the values change the program; 0 if unknown."""
    to_one: bool = False
    """Whether each value has its own program, so that one value should be kept."""
    lines: int = 1
    """The number of lines with eager operations that it is about."""
    loops: tuple[tuple[str, int], ...] = ()
    """The Python loops that run such operations inside the functions, by file and line."""
    traced: bool = False
    """Whether one of the lines also runs inside a trace."""


class Proposal(Row):
    """What to do, where, and about what."""

    code: str
    changes: tuple[Change, ...]
    advice: Advice | None
    """The advice on its misses, or None if the changes say everything."""
    file: str | None
    line: int | None
    sizes: Sizes | None = None
    pairs: Pairs | None = None
    made: bool = False
    """Whether the line is where the new object is created, not where it is called."""
    passed_by: str = ""
    """The library's function that passes what changes, as in `Advice`."""
    also: tuple[tuple[str, int], ...] = ()
    """Other lines that need the same change and another step as well."""
    read_too: tuple[str, ...] = ()
    """What its functions read and that changed as well, if the advice is not told."""
    besides: tuple[Advice, ...] = ()
    """What other misses of the step are told about the same values."""
    optional: tuple[str, ...] = ()
    """Arguments among the changes that are None where a call omits them."""
    takers: tuple[str, ...] = ()
    """Other functions that get the arrays which are padded or become floats."""


class Step(Record):
    """One change that a user would make."""

    misses: tuple[str, ...]
    """Ids of the misses that it removes."""
    functions: tuple[str, ...]
    causes: tuple[Cause, ...]
    proposal: Proposal
    gone: Amount
    """What this step removes after the previous steps."""
    alone: Amount
    """What this step removes on its own."""
    left: Amount
    sure: Sure
    worth: bool


class Plan(Record):
    """What to change, ordered by saving."""

    now: Amount
    steps: tuple[Step, ...]
    floor: Amount
    """What no step removes."""
    processes: int = 1
    """The number of processes that had misses."""
    each: bool = False
    """Whether counts are per process because all processes did the same; seconds are then those
    of the slowest."""

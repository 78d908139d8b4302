"""The plan as data: what to change, what that takes away, and what is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from retrace.causes import Cause
from retrace.compare.along import Along
from retrace.model.advice import Advice, Sure
from retrace.plan.amount import Amount
from retrace.plan.corners import Corners, Size
from retrace.plan.sizes import Choice

Meant: TypeAlias = Literal["", "lines", "doubled", "kernels", "square", "ordered", "unknown"]
"""Why sizes may all be meant: a line for each, each twice the one before, the weights of as many
models, matrices of as many dimensions, or a program to which rows at the end may be more of the
same, or of which that is not known."""


class Sizes(NamedTuple):
    """What can be done about an axis of many sizes."""

    names: tuple[str, ...]
    """The arguments and axes that vary together: `batch['ids'] axis 1`."""
    seen: tuple[int, ...]
    chosen: Choice
    curve: tuple[Choice, ...]
    """The best of one size, of two, and so on."""
    powers: Choice
    program: float
    """Median seconds of one program; of several functions that have the axis, added up."""
    grows: bool
    """Whether it grows by one with each call."""
    along: Along
    """What the programs do along the axis: what must be masked, and whether it may be padded."""
    data: int | None = None
    """So many sizes of the data weigh the padding; None where each size counts once."""
    beyond: int = 0
    """So many sizes of the data were never called."""
    counted: int | None = None
    """So many calls were counted and weigh the padding; None where they were not counted."""
    meant: Meant = ""
    follows: tuple[str, ...] = ()
    """Axes of other arrays that are longer where these are, and are not as long."""


class Pairs(NamedTuple):
    """What can be done about axes that vary together and are not one length."""

    axes: tuple[str, ...]
    """One of each length, in the order in which each size has them: `ids axis 0`."""
    names: tuple[str, ...]
    """All arguments and axes that have them."""
    seen: tuple[Size, ...]
    chosen: Corners
    curve: tuple[Corners, ...]
    """The best of one size, of two, and so on."""
    powers: Corners
    program: float
    """Median seconds of one program; of several functions that have the axes, added up."""
    along: Along
    """As of one axis."""
    data: int | None = None
    """So many rows of the data weigh the padding; None where each combination counts once."""
    beyond: int = 0
    """So many combinations of the data were never called."""
    counted: int | None = None
    """So many calls were counted and weigh the padding; None where they were not counted."""
    meant: Meant = ""


class Change(NamedTuple):
    """One thing to change, by what it is about."""

    family: str
    """As of a column: "shape", "static"; "eager" and "eager-sizes" of a line."""
    paths: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """What a function holds that is to be passed."""
    seen: int = 0
    """So many values were seen."""
    programs: int = 0
    """So many programs are left of values that steer; 0 where that is not told."""
    to_one: bool = False
    """Whether each value has a program of its own, and one is to be kept to."""
    lines: int = 1
    """So many lines it is about, of eager operations."""


class Proposal(NamedTuple):
    """What to do, where, and what it is about."""

    code: str
    changes: tuple[Change, ...]
    advice: Advice | None
    """What is advised on its misses; None where the changes say all."""
    file: str | None
    line: int | None
    sizes: Sizes | None = None
    pairs: Pairs | None = None
    made: bool = False
    """Whether the line is where what is made again is written, and not that of the call."""
    also: tuple[tuple[str, int], ...] = ()
    """Other lines that need the same, and another step besides."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change that a person would make."""

    misses: tuple[str, ...]
    """The ids of those that it takes away."""
    functions: tuple[str, ...]
    causes: tuple[Cause, ...]
    proposal: Proposal
    gone: Amount
    """By this step, after those before it."""
    alone: Amount
    """By this step and no other."""
    left: Amount
    sure: Sure
    worth: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What to change, in the order of what it saves."""

    now: Amount
    steps: tuple[Step, ...]
    floor: Amount
    """What no step takes away."""
    processes: int = 1
    """How many missed anything."""
    each: bool = False
    """Whether the counts are those of each process, which did the same; seconds are then those
    of the slowest."""
    losses: dict[str, int] = field(default_factory=dict[str, int])

"""Findings about the processes of a job: where they differ, which stopped, their settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from retrace.hosts.stored import Unserved
from retrace.model import JSON, Change, Function, HeldChange, Miss, Run

How: TypeAlias = Literal["other", "extra", "missing", "environment"]
"""They ran a different program, an extra one, one fewer, or the same with other settings."""


class Side(NamedTuple):
    """What one process did where the processes diverge."""

    miss: str | None
    """Its miss there, if any."""
    program: str | None
    stopped: bool
    """Whether it did not end its recording."""


@dataclass(frozen=True, slots=True)
class Parting:
    """A miss that is not the same in all processes."""

    how: How
    function: Function
    occurrence: int
    """Its position among the outermost misses of its definition site, from 1."""
    minority: tuple[int, ...]
    sides: dict[int, Side]
    spans: int | None
    """How many processes the program runs on; None if each runs it alone."""
    old: Miss | None
    """What most processes did; for `extra`, what they did at a similar call instead."""
    new: Miss | None
    """What the minority did."""
    changes: tuple[Change, ...] = ()
    reads: tuple[HeldChange, ...] = ()
    groups: int = 2
    """How many different things the processes did."""


class Setting(NamedTuple):
    """A setting of the environment that differs between processes."""

    name: str
    values: dict[int, JSON]
    matters: bool
    """Whether it may change the programs."""


class Stopped(NamedTuple):
    """A process that did not end its recording."""

    process: int
    run: Run
    at: Miss | None
    """The miss it was in, if any."""
    last: Miss | None
    """Its last outermost miss."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """All findings about the processes of a job."""

    runs: dict[int, Run]
    """The processes, by index."""
    partings: tuple[Parting, ...] = ()
    """In order."""
    environment: tuple[Setting, ...] = ()
    stopped: tuple[Stopped, ...] = ()
    absent: tuple[int, ...] = ()
    """Processes of the job without a recording."""
    seconds: dict[int, float] = field(default_factory=dict[int, float])
    """Total of the outermost misses of each process."""
    misses: dict[int, int] = field(default_factory=dict[int, int])
    unserved: tuple[Unserved, ...] = ()
    """Processes that find nothing in the disk cache that process 0 fills."""
    incomparable: bool = False
    """Whether they are redacted with different keys, so programs and values always differ."""

    @property
    def processes(self) -> tuple[int, ...]:
        """The indices of the processes."""
        return tuple(self.runs)

    @property
    def equal(self) -> bool:
        """Whether all processes did the same, as far as is known."""
        return not self.partings

    @property
    def first(self) -> Parting | None:
        """The first place where they diverge."""
        return self.partings[0] if self.partings else None

"""Findings about the processes of a job: where they differ, which stopped, their settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from retrace.hosts.stored import Unserved
from retrace.model import JSON, Change, Function, HeldChange, Miss, Run

How: TypeAlias = Literal["other", "extra", "missing", "environment"]
"""They ran another program there, one more, one fewer, or the same under other settings."""


class Side(NamedTuple):
    """What one process did where processes part."""

    miss: str | None
    """None where it had no such miss."""
    program: str | None
    stopped: bool
    """Whether its recording was not ended."""


@dataclass(frozen=True, slots=True)
class Parting:
    """A miss that not all processes had alike."""

    how: How
    function: Function
    occurrence: int
    """Which of the outermost misses of its definition site it is in its process, from 1."""
    minority: tuple[int, ...]
    sides: dict[int, Side]
    spans: int | None
    """On how many processes the program runs; None for one that each runs by itself."""
    old: Miss | None
    """What most did; of an `extra` one what they did instead, at an earlier call."""
    new: Miss | None
    """What the minority did."""
    changes: tuple[Change, ...] = ()
    reads: tuple[HeldChange, ...] = ()
    groups: int = 2
    """How many different things were done."""


class Setting(NamedTuple):
    """Something of the environment that is not the same everywhere."""

    name: str
    values: dict[int, JSON]
    matters: bool
    """Whether it may make other programs."""


class Stopped(NamedTuple):
    """A process that did not end its recording."""

    process: int
    run: Run
    at: Miss | None
    """The miss that it was in; None between two."""
    last: Miss | None
    """The last outermost miss that it had."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """All findings about the processes of a job."""

    runs: dict[int, Run]
    """The processes, by their index."""
    partings: tuple[Parting, ...] = ()
    """The first one first."""
    environment: tuple[Setting, ...] = ()
    stopped: tuple[Stopped, ...] = ()
    absent: tuple[int, ...] = ()
    """Those of the job that left no recording."""
    seconds: dict[int, float] = field(default_factory=dict[int, float])
    """Of all outermost misses of each."""
    misses: dict[int, int] = field(default_factory=dict[int, int])
    unserved: tuple[Unserved, ...] = ()
    """Those that find nothing in the disk cache that process 0 fills."""
    incomparable: bool = False
    """Redacted under keys of their own: neither programs nor values can be compared."""

    @property
    def processes(self) -> tuple[int, ...]:
        """The indices of the processes."""
        return tuple(self.runs)

    @property
    def equal(self) -> bool:
        """Whether all processes did the same, as far as can be told."""
        return not self.partings

    @property
    def first(self) -> Parting | None:
        """Where they part first."""
        return self.partings[0] if self.partings else None

"""What an audit observed: which programs no longer match the code and what it reads."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from retrace.model.key import Value


class Outcome(StrEnum):
    """What came of tracing a function anew."""

    SAME = "same"
    """The same program as the one that JAX keeps."""
    OTHER = "other"
    """Another program; traced once more, it is that one again."""
    EACH = "each"
    """Another program at each trace."""
    UNTRACED = "untraced"
    """It was not traced anew, or what came of it could not be compared; `reason` says why."""


class Reason(StrEnum):
    """Why a function was not traced anew."""

    WRITES = "writes"
    CALLS = "calls"
    THREAD = "thread"
    GONE = "gone"
    CONFIG = "config"
    RAISES = "raises"
    SLOW = "slow"
    TIME = "time"
    CONSTANTS = "constants"
    JAX = "jax"


class Reading(NamedTuple):
    """Something that a function reads from outside, and that has changed since its trace."""

    name: str
    old: Value
    new: Value | None
    """None where it is gone."""
    file: str | None
    """Where it is read."""
    line: int | None
    written: bool
    """Whether the function writes it itself, as one that counts its own traces does."""


class Source(NamedTuple):
    """A line that may give another value each time: `time.time()`."""

    name: str
    file: str
    line: int


class Checked(NamedTuple):
    """One program that was looked at."""

    miss: int
    """The number of the miss that traced it."""
    outcome: Outcome
    reads: tuple[Reading, ...] = ()
    reason: Reason | None = None
    detail: str = ""
    """What it writes, which option differs, what it raised."""
    old: str | None = None
    """The text of the program that JAX keeps, by id; recorded where it is out of date."""
    new: str | None = None
    """That of the program of today."""
    again: str | None = None
    """That of a further trace, where it is another one still."""
    sources: tuple[Source, ...] = ()
    seconds: float = 0.0
    disturbed: tuple[str, ...] = ()
    """What the function reads and changed itself when it was traced anew."""


class Audit(NamedTuple):
    """One audit of a process."""

    run: str
    number: int
    """From 1, in its process."""
    time: float
    misses: int
    """How many misses there had been."""
    programs: int
    """How many programs were looked at."""
    seconds: float
    checked: tuple[Checked, ...]
    """Those of which there is something to tell; the others are as they were."""
    same: tuple[int, ...] = ()
    """Of these, the misses that traced them."""
    gone: int = 0
    """How many programs JAX had let go of, so that nothing is known of them."""

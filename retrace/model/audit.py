"""What an audit observed: programs that no longer match their code and the values it reads."""

from enum import StrEnum

from retrace.model.key import Value
from retrace.model.row import Row


class Outcome(StrEnum):
    """The result of tracing a function again."""

    SAME = "same"
    """The same program as the cached one."""
    OTHER = "other"
    """Another program, which was the same when traced a second time."""
    EACH = "each"
    """Another program at each trace."""
    UNTRACED = "untraced"
    """It was not traced again, or the result could not be compared; `reason` says why."""


class Reason(StrEnum):
    """Why a function was not traced again."""

    WRITES = "writes"
    CALLS = "calls"
    THREAD = "thread"
    CONTEXT = "context"
    GONE = "gone"
    CONFIG = "config"
    RAISES = "raises"
    SLOW = "slow"
    TIME = "time"
    CONSTANTS = "constants"
    RETURNED = "returned"
    KEEPS = "keeps"
    HOLDS = "holds"
    RULES = "rules"
    JAX = "jax"


class Reading(Row):
    """A value from outside that a function reads and that has changed since it was traced."""

    name: str
    old: Value
    new: Value | None
    """None if it is gone."""
    file: str | None
    """Where it is read."""
    line: int | None
    written: bool
    """Whether the function writes it itself, such as a counter of its own traces."""


class Use(Row):
    """How functions use something that comes from outside of them."""

    path: tuple[str, ...]
    """The variable, and the steps from it; `[]` is any item."""
    as_it_is: bool
    """Whether it reaches JAX unchanged; if not, Python decides or computes with it."""


class Source(Row):
    """A line that may give another value each time: `time.time()`."""

    name: str
    file: str
    line: int


class Checked(Row):
    """One program that was checked."""

    miss: int
    """The number of the miss that traced it."""
    outcome: Outcome
    reads: tuple[Reading, ...] = ()
    reason: Reason | None = None
    detail: str = ""
    """What it writes, which option differs, what it raised, what its callback holds, or which
    custom rule reads what changed."""
    old: str | None = None
    """The id of the cached program's text; recorded if the program is stale."""
    new: str | None = None
    """The id of the text of the program as it is traced now."""
    again: str | None = None
    """The id of the text of a second trace, if that differs again."""
    sources: tuple[Source, ...] = ()
    returned: tuple[Value, Value] | None = None
    """What it returned besides arrays when it was traced, and now, if that differs."""
    seconds: float = 0.0
    disturbed: tuple[str, ...] = ()
    """What the function reads and changed itself when it was traced again."""
    uses: tuple[Use, ...] = ()
    """How it uses what it reads, if that changed and the program is another; empty if unknown."""


class Audit(Row):
    """One audit of a process."""

    run: str
    number: int
    """Starts at 1 in each process."""
    time: float
    misses: int
    """The number of misses so far."""
    programs: int
    """The number of programs checked."""
    seconds: float
    checked: tuple[Checked, ...]
    """The programs worth reporting; the others are unchanged."""
    same: tuple[int, ...] = ()
    """The misses that traced them."""
    gone: int = 0
    """The number of programs that JAX no longer had, so that they could not be checked."""

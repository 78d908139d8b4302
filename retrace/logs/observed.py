"""A miss in a log while its lines are still being read, and what is lost there."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrace.logs.message import Ingredient
from retrace.logs.words import Words
from retrace.model import CallSite, Leaf, PersistentCache, Stage

# The names of losses: what is not in a log, or could not be read there.
CUT_SHORT = "the rest of the log, which is damaged"
LONG_LINE = "a line longer than 4 MB"
TORN_LINE = "a line of JAX's that is torn"
LOWERING_ALONE = "a lowering whose beginning the log does not show"
DISK_CACHE_ALONE = "a line of the persistent cache about a program that the log does not show"

_UNNAMED = ("<unknown>", "<unnamed function>", "<unnamed wrapped function>")


@dataclass(slots=True)
class Observed:
    """One call, or one nested trace."""

    name: str
    time: float
    """Seconds since the epoch when it began."""
    thread: str
    words: Words | None = None
    call_site: CallSite | None = None
    children: list[Observed] = field(default_factory=list["Observed"])
    """Nested traces of user functions."""
    inner: int = 0
    announced: bool = False
    """Whether JAX logged it before the trace, so that its nesting is known."""
    traced: bool = False
    """Whether a line `Finished tracing` belongs to it."""
    stages: dict[Stage, float] = field(default_factory=dict[Stage, float])
    leaves: tuple[Leaf, ...] | None = None
    pmap: bool = False
    disk: PersistentCache | None = None
    ingredients: tuple[Ingredient, ...] = ()
    remarks: tuple[tuple[str, str], ...] = ()
    proven: bool = True
    """Whether its trace really ran; JAX also logs traces found in its cache."""
    number: int = -1
    """The number of the miss in the recording; -1 until it is written."""
    lowering: bool = False
    """Whether its lowering has begun and, according to the log, not ended."""

    @property
    def is_nameless(self) -> bool:
        """Whether it traces something that JAX cannot name, mostly its own functions."""
        return not self.traced and (self.words is None or self.words.file is None)


class Thread:
    """The state of one thread; without thread names, of all threads together."""

    def __init__(self) -> None:
        self.frames: list[Observed] = []
        """Cache misses whose trace has begun and not ended, according to JAX."""
        self.closed: list[Observed] = []
        """Traces that have ended, but may get further lines."""


def same_name(name: str, other: str) -> bool:
    """Whether two logged names may be those of the same function."""
    return name == other or (name in _UNNAMED and other in _UNNAMED)

"""What a log shows of one miss, while its lines still come."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrace.logs.message import Ingredient
from retrace.logs.words import Words
from retrace.model import CallSite, Leaf, Stage

_UNNAMED = ("<unknown>", "<unnamed function>", "<unnamed wrapped function>")


@dataclass(slots=True)
class Observed:
    """One call, or one trace inside another."""

    name: str
    time: float
    """Seconds since the epoch when it began."""
    thread: str
    words: Words | None = None
    call_site: CallSite | None = None
    children: list[Observed] = field(default_factory=list["Observed"])
    """Traces of the user's functions inside its own."""
    inner: int = 0
    announced: bool = False
    """Whether JAX told of it before it was traced, so that its place among others is known."""
    traced: bool = False
    """Whether a line `Finished tracing` belongs to it."""
    stages: dict[Stage, float] = field(default_factory=dict[Stage, float])
    leaves: tuple[Leaf, ...] | None = None
    pmap: bool = False
    disk: tuple[str, str | None, str | None] | None = None
    ingredients: tuple[Ingredient, ...] = ()
    remarks: tuple[tuple[str, str], ...] = ()
    proven: bool = True
    """Whether its trace really ran; JAX's line comes when a trace is found in its cache, too."""
    number: int = -1
    """Of the miss in the recording; -1 until it is written."""
    lowering: bool = False
    """Whether it has begun to be lowered, and the log does not tell that this ended."""

    @property
    def is_nameless(self) -> bool:
        """Whether it is a trace of something that JAX cannot name: of its own, mostly."""
        return not self.traced and (self.words is None or self.words.file is None)


class Thread:
    """What one thread of the process is at; without thread names there is one for all."""

    def __init__(self) -> None:
        self.frames: list[Observed] = []
        """Cache misses whose trace has begun, by JAX's words, and not ended."""
        self.closed: list[Observed] = []
        """Traces that ended, and what belongs to them may still come."""


def same_name(name: str, other: str) -> bool:
    """Whether two names that JAX logged may be of one function."""
    return name == other or (name in _UNNAMED and other in _UNNAMED)

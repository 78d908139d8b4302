"""What becomes known about a miss, piece by piece: when it begins, and as its stages end.

These are the fields of a recording's lines, as the model holds them. `store/schema` says how each
one is written, read and redacted.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict

from retrace.model.function import CallSite
from retrace.model.key import Leaf, Value
from retrace.model.miss import PersistentCache, Stage
from retrace.model.program import Program
from retrace.model.slow import Slow


class MissFields(TypedDict, total=False):
    """Some of the fields of a miss. `Miss` says what each one means."""

    at: float
    thread: str
    parent: int
    """The number of the miss that this one ran in."""
    derived: str
    nested: bool
    callers: tuple[CallSite, ...]
    entry: CallSite
    through: str
    via: str
    within: Literal["callback", "import", "tree"]
    picked: str
    disabled: bool
    lines: str
    ahead: bool
    new: bool
    new_bodies: Sequence[bool]
    settings: tuple[tuple[str, CallSite], ...]
    unseen: tuple[str, ...]
    epoch: int
    function_epoch: int
    cold: bool
    stages: Mapping[Stage, float]
    began: Mapping[Stage, float]
    stage: Stage
    """The stage that is running."""
    since: float
    raised: str
    inner: int
    calls: int
    processes: int
    persistent_cache: PersistentCache
    compiled_with: tuple[tuple[str, Value], ...]
    lowered_with: str | Callable[[], str]
    """The digest, or a function that computes it on the thread that writes."""
    carried: str
    slow: Slow
    said: Sequence[tuple[str, str]]
    leaves: tuple[Leaf, ...]
    """The arguments, if they became known after the miss began."""
    program: Program

"""What is concluded about a miss. `present` words it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from retrace.causes import Cause
from retrace.model.advice import Advice
from retrace.model.change import Change, HeldChange
from retrace.model.miss import Miss
from retrace.model.row import Row

if TYPE_CHECKING:
    from retrace.reason.program import Comparison


class How(StrEnum):
    """How a cause came about, if the cause alone does not say."""

    APPLIED_AGAIN = "a decorator was applied again"
    WRAPPED_AGAIN = "wrapped again"
    LAMBDA_MADE_AGAIN = "the lambda in it was made again"
    DEF_RAN_AGAIN = "its def ran again"
    BOUND_AGAIN = "a new bound method of the same object"
    OF_ANOTHER = "of another object"
    OF_AN_EQUAL = "of an equal object"
    OF_AN_UNEQUAL = "of an unequal object"
    JITTED_AGAIN = "a jitted function was jitted again"
    ALL_RAISED = "every earlier call raised"
    IN_ANOTHER_THREAD = "another thread was still at it"
    DROPPED = "a clear dropped the earlier program"
    CLEARED = "a clear"
    CLEARED_BY_MARKER = "the marker of a test"
    DERIVED_AGAIN = "another program derived from it"
    NAME_ALONE = "this JAX showed no more than its name"
    MADE_AGAIN = "the same program was made again"
    TRACED_AGAIN = "traced again with an equal key"
    WITHOUT_CLEAR = "ran again without a clear"
    NOT_SHOWN = "something was not shown"


class Detail(Row):
    """What the cause alone does not say. `present` words it."""

    how: How
    names: tuple[str, ...] = ()
    """What did it: a decorator, a type, a call; or what was not shown."""
    misses: int = 0
    """The number of misses in between."""


class Pattern(StrEnum):
    """What several misses of one function have in common. Names are stable, like causes."""

    COMPILES_TWICE = "compiles-twice"
    PLACED_LATER = "placed-later"
    EQUAL_BUT_NOT_THE_SAME = "equal-but-not-the-same"
    GROWS_BY_ONE = "grows-by-one"
    MANY_SIZES = "many-sizes"
    LAST_PARTIAL_BATCH = "last-partial-batch"
    PING_PONG = "ping-pong"
    THOUSAND_TINY_PROGRAMS = "thousand-tiny-programs"


@dataclass(slots=True)
class Verdict:
    """What is concluded about one miss. `present` words it."""

    miss: Miss
    cause: Cause
    nearest: Miss | None
    changes: tuple[Change, ...]
    program: "Comparison | None" = field(compare=False)
    """Its program compared with that of `nearest`, on demand; None if they cannot be."""
    avoidable: Literal["yes", "no", "maybe"]
    fix: Advice | None
    detail: Detail | None = None
    pattern: Pattern | None = None
    reads: tuple[HeldChange, ...] = ()
    """Outside values that changed, if the program differs and the key does not explain it. They
    are evidence, not part of the key."""
    repeat: bool = False
    """Whether it repeats an earlier miss and its cause, so that it is not another first trace:
    the same call after it raised, or a later stage of a program traced before."""
    follows: str | None = None
    """The id of the miss with the same key whose cause it shares: the call that a backward
    program belongs to, or the same call in another thread."""

    @property
    def program_change(self) -> str | None:
        """How its program differs from the closest one's, e.g. "shapes-only"."""
        return None if self.program is None else self.program.kind

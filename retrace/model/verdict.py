"""What is concluded of a miss. The wording is left to `present`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from retrace.causes import Cause
from retrace.model.advice import Advice
from retrace.model.change import Change, HeldChange
from retrace.model.miss import Miss


class Finding(NamedTuple):
    """What a miss shows about the calls after it."""

    code: Literal["slow-dispatch"]
    primitive: str
    file: str | None
    line: int | None


class Comparison(Protocol):
    """Two programs held against each other, when it is asked for."""

    @property
    def kind(self) -> str | None:
        """How they differ; None where that cannot be told."""
        ...


class Pattern(StrEnum):
    """What several misses of one function have in common. The names are stable, as causes are."""

    COMPILES_TWICE = "compiles-twice"
    PLACED_LATER = "placed-later"
    EQUAL_BUT_NOT_THE_SAME = "equal-but-not-the-same"
    GROWS_BY_ONE = "grows-by-one"
    MANY_SIZES = "many-sizes"
    LAST_PARTIAL_BATCH = "last-partial-batch"
    PING_PONG = "ping-pong"
    THOUSAND_TINY_PROGRAMS = "thousand-tiny-programs"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is concluded of one miss. The wording is left to `present`."""

    miss: Miss
    cause: Cause
    nearest: Miss | None
    changes: tuple[Change, ...]
    program: Comparison | None = field(compare=False)
    """Its program against the nearest's; None where they are not comparable."""
    avoidable: Literal["yes", "no", "maybe"]
    fix: Advice | None
    detail: str | None = None
    """What the cause alone does not say: "an equal Filter that has died"."""
    pattern: Pattern | None = None
    reads: tuple[HeldChange, ...] = ()
    """What its function reads from outside and found changed, where its program is another
    one with nothing in its key to say why: evidence, and part of no key."""
    repeat: bool = False
    """Of one cause with an earlier miss, and not counted as a further first trace: the
    same call again after it raised, or another stage of what was traced before."""
    follows: str | None = None
    """The id of the miss whose cause it shares, its own key being an earlier one's: the call
    that a backward program belongs to, or the same call in another thread."""

    @property
    def program_change(self) -> str | None:
        """How its program differs from the nearest's: "shapes-only"."""
        return None if self.program is None else self.program.kind

"""What is known of one cause, but for its words: those are in `present/cards`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from retrace.model import Component, Kind
from retrace.model.advice import Advice
from retrace.reason.evidence import Evidence

Avoidable: TypeAlias = Literal["yes", "no", "maybe"]


def _nothing(_: Evidence) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """How one cause is recognised, judged and advised on.

    Its code and precedence are in `retrace.causes`. A cause with neither components nor kinds is
    found by `reason/verdict`, which looks at what else was recorded of both misses.
    """

    components: tuple[Component, ...] = ()
    """The parts of the key whose change has this cause."""
    kinds: tuple[Kind, ...] = ()
    """The kinds of function that have this cause where nothing but the object is new."""
    settled: Callable[[Evidence], Avoidable | None] = _nothing
    """Whether it is avoidable, if that holds whatever the programs are."""
    avoidable: Callable[[Evidence], Avoidable]
    """Whether it is avoidable, where the two programs do not decide it."""
    proved: Callable[[Evidence], Advice | None] = _nothing
    """Advice that follows from the two programs. It goes before any other."""
    advice: Callable[[Evidence], Advice | None] | None
    """What to do. None where there is nothing to do, or nothing known to work."""


def no(_: Evidence) -> Avoidable:
    """Never avoidable."""
    return "no"


def yes(_: Evidence) -> Avoidable:
    """Always avoidable."""
    return "yes"


def perhaps(_: Evidence) -> Avoidable:
    """Depends on what the user meant, which retrace cannot know."""
    return "maybe"

"""Everything about one cause except its wording, which is in `present/cards`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from retrace.model import Component, Kind
from retrace.model.advice import Advice
from retrace.model.record import Record
from retrace.reason.evidence import Evidence

Avoidable: TypeAlias = Literal["yes", "no", "maybe"]


def _nothing(_: Evidence) -> None:
    return None


class Card(Record):
    """How a cause is recognised, whether it is avoidable, and what to advise.

    Its code and precedence are in `retrace.causes`. A cause without components and kinds is found
    by `reason/verdict`, from other recorded facts about the two misses.
    """

    components: tuple[Component, ...] = ()
    """The parts of the key whose change has this cause."""
    kinds: tuple[Kind, ...] = ()
    """The kinds of function that have this cause if only the function object is new."""
    settled: Callable[[Evidence], Avoidable | None] = _nothing
    """Whether it is avoidable, if that is known without comparing programs."""
    avoidable: Callable[[Evidence], Avoidable]
    """Whether it is avoidable, if comparing the programs does not decide it."""
    proved: Callable[[Evidence], Advice | None] = _nothing
    """Advice that follows from the two programs; it takes precedence over other advice."""
    advice: Callable[[Evidence], Advice | None] | None
    """What to do, or None if nothing is needed or known to work."""


def no(_: Evidence) -> Avoidable:
    """Never avoidable."""
    return "no"


def yes(_: Evidence) -> Avoidable:
    """Always avoidable."""
    return "yes"


def perhaps(_: Evidence) -> Avoidable:
    """Depends on what the user intended, which retrace cannot know."""
    return "maybe"

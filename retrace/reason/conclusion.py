"""What follows from the cause of a miss: whether it was avoidable, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from retrace.causes import OF_FUNCTION, Cause
from retrace.compare.keys import read_changes
from retrace.compare.nearest import TRACED
from retrace.model import Change, Detail, HeldChange, Kind, Listing, Miss, Stage, Verdict
from retrace.model.advice import Advice, Proof
from retrace.reason import unseen
from retrace.reason.avoidable import avoidable
from retrace.reason.cards.card import Avoidable
from retrace.reason.evidence import Evidence
from retrace.reason.fixes import advice
from retrace.reason.program import Comparison
from retrace.reason.state import suspects, telling


class Conclusion(NamedTuple):
    """The cause of one miss, and what its judge found beside it."""

    cause: Cause
    detail: Detail | None = None
    repeat: bool = False
    changes: tuple[Change, ...] | None = None
    follows: str | None = None


class Told(NamedTuple):
    """What was said of a miss that others may follow."""

    cause: Cause
    avoidable: Avoidable
    fix: Advice | None
    site: str = ""
    traces: int = 0
    """How many traces of JAX's own there had been until then."""


def was_traced(miss: Miss) -> bool:
    """Whether JAX traced the function for this miss, or was still tracing it at the end."""
    return Stage.TRACE in miss.stages or miss.in_flight is Stage.TRACE


def _comparison(
    miss: Miss,
    nearest: Miss | None,
    found: tuple[Change, ...],
    listings: Mapping[str, Listing],
) -> Comparison | None:
    if nearest is None:
        return None
    if (
        not was_traced(miss)
        and not unseen.hides_first(miss)
        and miss.derived is None
        and miss.function.kind is not Kind.OP
    ):
        retraced = any(change.component in TRACED for change in found)
        return None if retraced else Comparison(nearest, miss, found, listings, "identical")
    if miss.program is None or nearest.program is None:
        return None
    return Comparison(nearest, miss, found, listings)


def _reads(cause: Cause, miss: Miss, nearest: Miss | None) -> tuple[HeldChange, ...]:
    """What changed outside of a function that became another program by itself."""
    if nearest is None or nearest.program is None or miss.program is None:
        return ()
    if cause is not Cause.JAXPR_CHANGED and cause not in OF_FUNCTION:
        return ()
    if nearest.program.hash == miss.program.hash:
        return ()
    return read_changes(nearest.function, miss.function)


def concluded(
    miss: Miss,
    nearest: Miss | None,
    found: tuple[Change, ...],
    conclusion: Conclusion,
    listings: Mapping[str, Listing],
    told: Told | None = None,
    *,
    first_of_line: bool = False,
) -> Verdict:
    """The verdict on a miss whose cause is known."""
    cause = conclusion.cause
    program = _comparison(miss, nearest, found, listings)
    sure, others = telling(_reads(cause, miss, nearest), program)
    if told is None:
        seen = (*found, *(sure or suspects(others, program)))
        advised = advice(cause, Evidence(miss, nearest, seen, program), found)
        by_key = Evidence(miss, nearest, found, program)
        worth = "no" if first_of_line else avoidable(cause, by_key)
        if worth == "yes" and advised is not None and advised.proof is Proof.MEANING:
            worth = "maybe"  # what is advised may not suffice, or may change results
        told = Told(cause, worth, advised)
    return Verdict(
        miss=miss,
        cause=cause,
        nearest=nearest,
        changes=found,
        program=program,
        avoidable=told.avoidable,
        fix=told.fix,
        reads=(*sure, *others),
        detail=conclusion.detail,
        repeat=conclusion.repeat,
        follows=conclusion.follows,
    )

"""What follows from the cause of a miss: whether it was avoidable, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from retrace.causes import OF_FUNCTION, Cause
from retrace.compare.keys import read_changes
from retrace.compare.nearest import TRACED
from retrace.model import (
    Change,
    Detail,
    HeldChange,
    How,
    Kind,
    Listing,
    Miss,
    Stage,
    Verdict,
)
from retrace.model.advice import Advice, Proof
from retrace.reason import unseen
from retrace.reason.avoidable import avoidable
from retrace.reason.cards.card import Avoidable
from retrace.reason.evidence import Evidence
from retrace.reason.fixes import advice
from retrace.reason.held import is_in
from retrace.reason.program import Comparison
from retrace.reason.state import behind, split_reads, suspects


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
        if any(change.component in TRACED for change in found):
            return None
        # It may go on from another trace: one under another setting, or inside a transform.
        seen = Comparison(nearest, miss, found, listings)
        return (
            seen
            if seen.hashes_differ
            else Comparison(nearest, miss, found, listings, known="identical")
        )
    if miss.program is None or nearest.program is None:
        return None
    return Comparison(nearest, miss, found, listings)


def _reads(cause: Cause, miss: Miss, nearest: Miss | None) -> tuple[HeldChange, ...]:
    """What changed outside a function whose program changed although its key did not."""
    if nearest is None or nearest.program is None or miss.program is None:
        return ()
    if cause is not Cause.JAXPR_CHANGED and cause not in OF_FUNCTION:
        return ()
    if nearest.program.hash == miss.program.hash and not miss.program.callbacks:
        return ()
    return read_changes(nearest.function, miss.function)


def _with_reads(
    fix: Advice | None,
    cause: Cause,
    miss: Miss,
    nearest: Miss | None,
    program: Comparison | None,
) -> Advice | None:
    """Advice on arguments, with what the function reads besides them that changed as well.

    If it is a constant of the program, it must be passed too; otherwise that is a question.
    """
    if fix is None or nearest is None or cause is Cause.JAXPR_CHANGED or cause in OF_FUNCTION:
        return fix
    known = (*fix.holding, *fix.calling, *fix.reading)
    changed = read_changes(nearest.function, miss.function)
    read = [one for one in changed if not is_in(str(one.path), known)]
    if not read or program is None or program.kind == "identical":
        return fix
    sure, others = split_reads(tuple(read), program)
    found = (*sure, *suspects(others, program))
    asked = {"proof": Proof.MEANING} if len(found) > len(sure) else {}
    return fix.changed(read_too=tuple(str(one.path) for one in found), **asked) if found else fix


def concluded(
    listings: Mapping[str, Listing],
    miss: Miss,
    nearest: Miss | None,
    found: tuple[Change, ...],
    cause: Cause,
    detail: Detail | None = None,
    *,
    repeat: bool = False,
    before: Verdict | None = None,
    first_of_line: bool = False,
) -> Verdict:
    """The verdict on a miss whose cause is known.

    Args:
        listings: the texts of programs.
        miss: the miss.
        nearest: the miss that it is compared with, if there is one.
        found: what differs.
        cause: the cause.
        detail: how it came about, if the cause alone does not say.
        repeat: whether it repeats an earlier miss.
        before: the earlier verdict whose cause it shares, and so what to do.
        first_of_line: whether it is the first operation of its line.
    """
    program = _comparison(miss, nearest, found, listings)
    sure, others = split_reads(_reads(cause, miss, nearest), program)
    worth: Avoidable = "maybe"
    fix: Advice | None = None
    if before is not None:
        worth, fix = before.avoidable, before.fix
    elif detail is None or detail.how is not How.NOT_SHOWN:
        named = (*sure, *behind(found, sure, others, program))
        seen = (*found, *(named or suspects(others, program)))
        by_key = Evidence(miss, nearest, found, program)
        evidence = Evidence(miss, nearest, seen, program) if len(seen) > len(found) else by_key
        fix = advice(cause, evidence, found)
        fix = _with_reads(fix, cause, miss, nearest, program)
        worth = "no" if first_of_line else avoidable(cause, by_key)
        if worth == "yes" and fix is not None and fix.proof is Proof.MEANING:
            worth = "maybe"  # following the advice may not be enough, or may change results
    return Verdict(
        miss=miss,
        cause=cause,
        nearest=nearest,
        changes=found,
        program=program,
        avoidable=worth,
        fix=fix,
        reads=(*sure, *others),
        detail=detail,
        repeat=repeat or before is not None,
        follows=None if before is None else before.miss.id,
    )

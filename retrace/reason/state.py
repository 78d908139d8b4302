"""What a function reads that is no argument: which of it made another program, and what to do."""

from __future__ import annotations

from retrace.model import Component, HeldChange
from retrace.model.advice import PassState
from retrace.reason.evidence import Evidence, innermost, paths
from retrace.reason.program import Comparison, numbers
from retrace.reason.values import is_number


def pass_state(evidence: Evidence) -> PassState | None:
    """What to do about hidden state that can be named; None where none was seen to change."""
    program = evidence.program
    cells = innermost(paths(evidence.changes, Component.CLOSURE))
    if not cells:
        return None
    # What steers a Python `if` or `for` cannot be traced.
    traced = program is not None and program.kind == "constants-only"
    return PassState(paths=tuple(cells), name=evidence.miss.function.name, static=not traced)


def telling(
    reads: tuple[HeldChange, ...], program: Comparison | None
) -> tuple[tuple[HeldChange, ...], tuple[HeldChange, ...]]:
    """Changes outside a function: those that are a changed constant of its program, and the rest.

    A counter of its own traces changes as well, and is no constant of the program.
    """
    if program is None or not reads or program.difference is None:
        return (), reads
    sure = tuple([change for change in reads if numbers(change) in program.constants])
    return sure, tuple([c for c in reads if c not in sure])


def suspects(
    others: tuple[HeldChange, ...], program: Comparison | None
) -> tuple[HeldChange, ...]:
    """Those that may be why, of what changed outside a function and is in no constant of it.

    Where a constant alone is another one, no other number is why.
    """
    # To ask for the kind is to compare the programs.
    if not others or program is None or program.kind != "constants-only":
        return others
    return tuple([change for change in others if not is_number(change)])

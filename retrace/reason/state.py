"""What a function reads besides its arguments: what changed the program, and what to do."""

from __future__ import annotations

from typing import cast

from retrace.model import Component, HeldChange, Value
from retrace.model.advice import PassState
from retrace.reason.evidence import Evidence, innermost, paths
from retrace.reason.program import Comparison, numbers
from retrace.reason.values import is_number


def pass_state(evidence: Evidence) -> PassState | None:
    """Advice about hidden state that can be named, or None if none was seen to change."""
    program = evidence.program
    cells = innermost(paths(evidence.changes, Component.CLOSURE))
    if not cells:
        return None
    # A value that decides a Python `if` or `for` cannot be traced.
    traced = program is not None and program.kind == "constants-only"
    return PassState(paths=tuple(cells), name=evidence.miss.function.name, static=not traced)


def split_reads(
    reads: tuple[HeldChange, ...], program: Comparison | None
) -> tuple[tuple[HeldChange, ...], tuple[HeldChange, ...]]:
    """Split changes outside a function: changed constants of its program, and the others.

    A counter of the function's own traces changes too, but is not a constant of the program.
    The length of a container may be one, beside a number that is the same.
    """
    if program is None or not reads or program.difference is None:
        return (), reads
    constants = program.constants
    sure = tuple([c for c in reads if numbers(c) in constants or _lengths(c) in constants])
    return sure, tuple([c for c in reads if c not in sure])


def _lengths(change: HeldChange) -> tuple[float | None, float | None]:
    """The lengths of both sides of a container; None for other values."""
    return _length(change.old), _length(change.new)


def _length(side: Value | None) -> float | None:
    data = None if side is None else side.data
    if isinstance(data, list):
        return float(len(cast(list[object], data)))
    return float(len(cast(dict[str, object], data))) if isinstance(data, dict) else None


def suspects(
    others: tuple[HeldChange, ...], program: Comparison | None
) -> tuple[HeldChange, ...]:
    """Other changes outside the function that may be the reason.

    If the program differs only in constants, no other number can be the reason.
    """
    # Asking for the kind compares the programs.
    if not others or program is None or program.kind != "constants-only":
        return others
    return tuple([change for change in others if not is_number(change)])

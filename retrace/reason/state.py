"""What a function reads besides its arguments: what changed the program, and what to do."""

from __future__ import annotations

from typing import cast

from retrace.model import Change, Component, HeldChange, Value
from retrace.model.advice import PassState
from retrace.reason.evidence import Evidence, innermost, is_arrays, paths
from retrace.reason.fields import known_fields
from retrace.reason.held import is_in
from retrace.reason.program import Comparison, number, numbers
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
    constants, seen = program.constants, program.as_constant
    sure = tuple([c for c in reads if seen(numbers(c)) in constants or _lengths(c) in constants])
    return sure, tuple([c for c in reads if c not in sure])


def behind(
    found: tuple[Change, ...],
    sure: tuple[HeldChange, ...],
    others: tuple[HeldChange, ...],
    program: Comparison | None,
) -> tuple[HeldChange, ...]:
    """What a function captured or reads that may be behind constants that none of its reads is.

    Args:
        found: what differs between the functions.
        sure: what they read and is a constant of the programs.
        others: what else they read.
        program: compares the programs.
    """
    if not sure or program is None or program.difference is None:
        return ()
    seen = program.as_constant
    read = {seen(each(change)) for change in sure for each in (numbers, _lengths)}
    read -= {(None, None)}
    pairs = [(number(one.old), number(one.new)) for one in program.difference.constants]
    pairs = [seen(pair) for pair in pairs]
    left = [pair for pair in pairs if pair not in read]
    names = [str(change.path) for change in sure]
    fields = [
        part
        for change in found
        if change.component is Component.CLOSURE and isinstance(change, HeldChange)
        for part in known_fields(change)
        if not any(
            is_in(one, (str(part.path),)) or is_in(str(part.path), (one,)) for one in names
        )
    ]
    told = [part for part in fields if seen(numbers(part)) in left]
    if {seen(numbers(part)) for part in told} == {*left}:
        return tuple(told)
    # One of another size changes operations.
    arrays = program.has_other_arrays or program.kind != "constants-only"
    if not left and not arrays:
        return ()
    also = [one for one in others if (left and is_number(one)) or (arrays and is_arrays(one))]
    return (*(fields if left else ()), *also)


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

    If the program differs only in constants, a whole number that is none of them may be a counter
    of its traces. From another number Python may have computed them.
    """
    # Asking for the kind compares the programs.
    if not others or program is None or program.kind != "constants-only":
        return others
    return tuple([change for change in others if not _is_counted(change)])


def _is_counted(change: HeldChange) -> bool:
    sides = (change.old, change.new)
    return is_number(change) and all(side is None or side.type == "int" for side in sides)

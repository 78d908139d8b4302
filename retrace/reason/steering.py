"""Which of the values that functions hold decide their programs."""

from __future__ import annotations

from collections.abc import Iterable

from retrace.model import Change, Component, HeldChange, TreeChange, Verdict
from retrace.model.advice import JitAndPass, JitForEach
from retrace.reason.evidence import is_arrays
from retrace.reason.held import is_in
from retrace.reason.statics import OF_TYPES


def needed_static(
    found: Iterable[JitForEach | JitAndPass], traced: tuple[str, ...], steers: set[str]
) -> tuple[str, ...]:
    """What is to be a static argument of a function, if any call says so and none disproves it.

    Args:
        found: the advice on its calls.
        traced: what is a constant of the program between some calls.
        steers: what led to another program between others.
    """
    names = dict.fromkeys(name for one in found for name in one.static)
    return tuple(name for name in names if name in steers or name not in traced)


def steering(history: list[Verdict], traced: tuple[str, ...]) -> set[str]:
    """The values whose change led to another program.

    If two things changed at once and one of them was only a constant between other calls, the
    other one counts, a type or size of an argument included. Values that did not change show
    nothing.
    """
    found: set[str] = set()
    for verdict in history:
        if not isinstance(verdict.fix, JitAndPass | JitForEach):
            continue
        changed = tuple(str(one.path) for one in (*verdict.changes, *verdict.reads) if one.path)
        own = {name for name in verdict.fix.static if is_in(name, changed)}
        others = own.difference(traced)
        explained = any(map(is_of_program, verdict.changes)) or _holds_other_sizes(verdict)
        found |= others if others or explained else own
    return found


def is_of_program(change: Change) -> bool:
    """Whether programs may follow this change, whatever a static value holds."""
    parts = OF_TYPES | {Component.SIGNATURE}
    return change.component in parts or isinstance(change, TreeChange)


def _holds_other_sizes(verdict: Verdict) -> bool:
    """Whether an array that the function holds has another size or dtype."""
    return any(
        isinstance(part, HeldChange)
        and part.old is not None
        and part.new is not None
        and part.old.text != part.new.text
        and is_arrays(part)
        for part in (*verdict.changes, *verdict.reads)
    )

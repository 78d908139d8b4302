"""Causes of misses outside all jitted functions."""

from __future__ import annotations

from retrace.model import Component, Kind
from retrace.model.advice import LeaveEager
from retrace.reason import bodies, rules, values
from retrace.reason.cards.card import Avoidable, Card, perhaps
from retrace.reason.eager import eager, of_caller
from retrace.reason.evidence import Evidence


def _body_avoidable(evidence: Evidence) -> Avoidable:
    """Whether jitting around the loop would have given one program for all bodies."""
    program = evidence.program
    if program is None or program.kind is None:
        # There is nothing to compare; for other values the program may differ.
        return "maybe" if rules.holds_other(evidence.changes) else "yes"
    # With jit around it, another length or body still means another program, unless only a
    # number that the body captures changed.
    held = [change for change in evidence.changes if change.component is Component.CLOSURE]
    shared = program.kind == "constants-only" and values.are_constants(held, program)
    return "yes" if shared else "maybe"


def _left_alone(evidence: Evidence) -> Avoidable | None:
    """What a library runs for itself, at import or in a trace, is nobody's to avoid."""
    return "no" if isinstance(of_caller(evidence.miss), LeaveEager) else None


EAGER_OP = Card(kinds=(Kind.OP,), settled=_left_alone, avoidable=perhaps, advice=eager)
# `reason/verdict` finds it: an operation with an equal key whose body is a new object.
CONTROL_FLOW_RECREATED = Card(avoidable=_body_avoidable, advice=bodies.defined_again)

"""The causes of what runs outside all jitted functions."""

from __future__ import annotations

from retrace.model import Component, Kind
from retrace.reason import functions, values
from retrace.reason.cards.card import Avoidable, Card, perhaps
from retrace.reason.eager import eager
from retrace.reason.evidence import Evidence


def _of_body(evidence: Evidence) -> Avoidable:
    """Whether a jitted function around the loop would have been one program for all bodies."""
    program = evidence.program
    if program is None or program.kind is None:
        # With nothing to compare: over other values it may be another program.
        return "maybe" if functions.holds_other(evidence.changes) else "yes"
    # Jitted around, a loop of another length or another body is another program too,
    # unless all that changed is a number that the body holds.
    held = [change for change in evidence.changes if change.component is Component.CLOSURE]
    shared = program.kind == "constants-only" and values.are_constants(held, program)
    return "yes" if shared else "maybe"


EAGER_OP = Card(kinds=(Kind.OP,), avoidable=perhaps, advice=eager)
# Found by `reason/verdict`, of an operation whose key is equal and whose body is a new object.
CONTROL_FLOW_RECREATED = Card(avoidable=_of_body, advice=functions.body)

"""The causes that lie in how a function is jitted and called, its arrays apart."""

from __future__ import annotations

from retrace.model import Component
from retrace.reason import arrays, functions, statics, values
from retrace.reason.cards.card import Avoidable, Card, perhaps
from retrace.reason.evidence import Evidence
from retrace.reason.rules import in_key
from retrace.reason.traits import calling_library, looks_equal, stands_for_none


def _if_all_look_equal(evidence: Evidence) -> Avoidable:
    """Whether one object would have done, since nothing but `==` tells the values apart."""
    own = [c for c in in_key(evidence.changes) if c.component is not Component.SIGNATURE]
    program = evidence.program
    same = program is None or program.kind in (None, "identical")
    return "yes" if same and own and all(map(looks_equal, own)) else "maybe"


def _of_static_value(evidence: Evidence) -> Avoidable:
    decided = values.avoidable(evidence.changes, evidence.program)
    return _if_all_look_equal(evidence) if decided is None else decided


def _if_called_alike(evidence: Evidence) -> Avoidable:
    """Whether the two calls pass the same things in two ways."""
    changes = evidence.changes
    # Of `*rest` and `**options`, more or fewer arguments may be meant.
    own = [change for change in changes if change.component is Component.SIGNATURE]
    meant = any("[" in (change.path or "") for change in own)
    passing = (Component.SIGNATURE, Component.STATIC, Component.TREE)
    if calling_library(evidence.miss):
        return "maybe"
    arrays_too = any(change.component not in passing for change in in_key(changes))
    return "maybe" if meant or arrays_too or stands_for_none(evidence.miss, changes) else "yes"


JIT_OPTIONS_CHANGED = Card(
    components=(Component.OPTIONS,),
    settled=perhaps,  # one program that donates and one that does not may both be wanted
    avoidable=perhaps,
    advice=functions.options,
)
CONFIG_CHANGED = Card(
    components=(Component.CONFIG,),
    avoidable=perhaps,
    advice=functions.config,
)
STATIC_ARGUMENT_CHANGED = Card(
    components=(Component.STATIC,),
    avoidable=_of_static_value,
    proved=values.advice,
    advice=statics.static_argument,
)
# Also of a static argument that one call gave the default which the other one left out:
# `reason/precedence` looks for those.
CALL_SIGNATURE_CHANGED = Card(
    components=(Component.SIGNATURE,),
    avoidable=_if_called_alike,
    advice=arrays.signature,
)
TREE_STRUCTURE_CHANGED = Card(
    components=(Component.TREE,),
    avoidable=_if_all_look_equal,
    advice=statics.tree_structure,
)

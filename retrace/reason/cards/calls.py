"""Causes that lie in how a function is jitted and called, apart from its arrays."""

from __future__ import annotations

from functools import partial

from retrace.model import Component
from retrace.model.parts import OF_ARGUMENTS
from retrace.reason import arrays, settings, statics, trees, values
from retrace.reason.cards.card import Avoidable, Card, perhaps
from retrace.reason.evidence import Evidence
from retrace.reason.rules import in_key
from retrace.reason.traits import calling_library, looks_equal, stands_for_none


def _if_all_look_equal(evidence: Evidence) -> Avoidable:
    """Whether one object would have been enough, because only `==` distinguishes the values."""
    own = [c for c in in_key(evidence.changes) if c.component is not Component.SIGNATURE]
    program = evidence.program
    same = program is None or program.kind in (None, "identical")
    return "yes" if same and own and all(map(looks_equal, own)) else "maybe"


def _static_avoidable(evidence: Evidence) -> Avoidable:
    decided = values.avoidable(evidence.changes, evidence.program)
    return _if_all_look_equal(evidence) if decided is None else decided


def _if_called_alike(evidence: Evidence) -> Avoidable:
    """Whether the two calls pass the same arguments in different ways."""
    changes = evidence.changes
    # With `*rest` and `**options`, more or fewer arguments may be intended.
    own = [change for change in changes if change.component is Component.SIGNATURE]
    meant = any("[" in (change.path or "") for change in own)
    passing = (Component.SIGNATURE, Component.TREE, *OF_ARGUMENTS)
    if calling_library(evidence.miss) or arrays.computes_with_default(evidence):
        return "maybe"
    arrays_too = any(change.component not in passing for change in in_key(changes))
    return "maybe" if meant or arrays_too or stands_for_none(evidence.miss, changes) else "yes"


_OPTIONS = (Component.OPTIONS,)
_CONFIG = (Component.CONFIG,)
_STATIC = (Component.STATIC,)

JIT_OPTIONS_CHANGED = Card(
    components=_OPTIONS,
    settled=perhaps,  # one program that donates and one that does not may both be intended
    avoidable=perhaps,
    advice=partial(settings.options, _OPTIONS),
)
CONFIG_CHANGED = Card(
    components=_CONFIG,
    avoidable=perhaps,
    advice=partial(settings.config, _CONFIG),
)
STATIC_ARGUMENT_CHANGED = Card(
    components=_STATIC,
    avoidable=_static_avoidable,
    proved=values.advice,
    advice=partial(statics.static_argument, _STATIC),
)
# Also if one call passes a static argument's default and the other omits it: see
# `reason/precedence`.
CALL_SIGNATURE_CHANGED = Card(
    components=(Component.SIGNATURE,),
    avoidable=_if_called_alike,
    advice=arrays.signature,
)
TREE_STRUCTURE_CHANGED = Card(
    components=(Component.TREE,),
    avoidable=_if_all_look_equal,
    advice=trees.tree_structure,
)

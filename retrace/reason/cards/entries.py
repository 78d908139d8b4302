"""Causes that lie in JAX's caches: the key equals an earlier one, or there is no earlier one.

`reason/verdict` distinguishes them by clears, programs and the number of traces in between.
"""

from __future__ import annotations

from retrace.model.advice import Advice, KeepCaches
from retrace.reason import functions, state
from retrace.reason.cards.card import Avoidable, Card, no, perhaps, yes
from retrace.reason.evidence import Evidence


def _keep_caches(evidence: Evidence) -> Advice | None:
    return None if evidence.miss.cold else KeepCaches()


def _cleared_by_marker(evidence: Evidence) -> Avoidable | None:
    """A test's marker clears the caches of functions it names, so test order is irrelevant."""
    return "no" if evidence.miss.cold else None


FIRST_TRACE = Card(settled=no, avoidable=no, advice=None)
CACHE_CLEARED = Card(settled=_cleared_by_marker, avoidable=yes, advice=_keep_caches)
CACHE_EVICTED = Card(avoidable=perhaps, advice=None)
JAXPR_CHANGED = Card(avoidable=perhaps, proved=state.pass_state, advice=functions.hidden)
UNKNOWN = Card(avoidable=perhaps, advice=None)

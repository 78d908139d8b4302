"""Causes that lie in JAX's caches: the key equals an earlier one, or there is no earlier one.

`reason/verdict` distinguishes them by clears, programs and the number of traces in between.
"""

from __future__ import annotations

from retrace.model import Stage
from retrace.model.advice import Advice, KeepCaches, Proof
from retrace.reason import functions, state
from retrace.reason.cards.card import Avoidable, Card, no, perhaps, yes
from retrace.reason.evidence import Evidence


def _keep_caches(evidence: Evidence) -> Advice | None:
    if _costs_nothing(evidence):
        return None
    if evidence.program is not None and evidence.program.calls_back:
        return KeepCaches(calls_back=True, proof=Proof.MEANING)
    return KeepCaches()


def _nothing_lost(evidence: Evidence) -> Avoidable | None:
    return "no" if _costs_nothing(evidence) else None


def _costs_nothing(evidence: Evidence) -> bool:
    """Whether the call would have been lowered and compiled in any case, or was to be.

    A test's marker clears the caches of functions it names, so test order is irrelevant. And what
    was only traced before, as by `jax.eval_shape`, was never compiled.
    """
    miss, before = evidence.miss, evidence.nearest
    only_traced = before is not None and before.ahead and Stage.COMPILE not in before.stages
    return miss.cold or (only_traced and Stage.COMPILE in miss.stages)


FIRST_TRACE = Card(settled=no, avoidable=no, advice=None)
CACHE_CLEARED = Card(settled=_nothing_lost, avoidable=yes, advice=_keep_caches)
CACHE_EVICTED = Card(avoidable=perhaps, advice=None)
JAXPR_CHANGED = Card(avoidable=perhaps, proved=state.pass_state, advice=functions.hidden)
UNKNOWN = Card(avoidable=perhaps, advice=None)

"""Words for the causes that lie in JAX's caches."""

from __future__ import annotations

from retrace.model import Component, Miss, Stage
from retrace.present.cards.card import Told, Words, then
from retrace.present.changes import all_of, in_words
from retrace.present.program import evidence
from retrace.present.words import did, listed


def _first(told: Told) -> str:
    if told.verdict.repeat:
        why = told.detail or "it is not a new function"
        return f"{told.who} was {did(told.miss, '')} as part of its first use: {why}."
    return f"{told.who} was {_for_the_first(told.miss)} for the first time in this process."


def _for_the_first(miss: Miss) -> str:
    stages = {*miss.stages, miss.in_flight}
    if Stage.TRACE not in stages:
        return did(miss, "").replace(" without a trace", "")
    return "traced and compiled" if Stage.COMPILE in stages else "traced"


def _cleared(told: Told) -> str:
    said = "the cache was cleared in between"
    return f"{told.again} with the same key as {told.before} because {then(said)(told.detail)}."


def _evicted(told: Told) -> str:
    detail = f": {told.detail}" if told.detail else ""
    return (
        f"{told.again} with the same key as {told.before} because JAX dropped that entry from a "
        f"full cache{detail}."
    )


def _another_program(told: Told) -> str:
    detail = f": {told.detail}" if told.detail else ""
    return (
        f"{told.again} with the same key as {told.before} and became a different program: it "
        f"reads something that is not an argument{_read(told)}{detail}.{_read_at(told)}"
    )


def _read(told: Told) -> str:
    """What was seen to change outside of a function, or what else it can be."""
    cells = [change for change in told.changes if change.component is Component.CLOSURE]
    said = [in_words(change) for change in (*cells, *told.verdict.reads)]
    if said:
        return f", of which {listed(said)} changed"
    return " (a global, a closure, a clock, the order of a set)"


def _read_at(told: Told) -> str:
    found = evidence(told.view, told.verdict, 1)
    before = "it" if told.verdict.nearest is None else told.before
    return f" Compared with {before}, {found[0]}." if found else ""


def _unknown(told: Told) -> str:
    if told.miss.unseen:
        why = told.detail or "JAX does not show it"
        changes = all_of(told.verdict)
        shown = f" What it shows, compared with {told.before}: {changes}." if changes else ""
        return f"{told.again}; the reason is unknown because {why}.{shown}"
    return (
        f"{told.again}, and retrace does not know why: function, arguments, static values, "
        f"options and config were compared with {told.before}, and nothing differs. This is "
        f"a bug in retrace: please report it with the output of `retrace show {told.miss.id}`."
    )


FIRST_TRACE = Words(
    meaning="The function is traced and compiled for the first time in this process.",
    sentence=_first,
    because=None,
)
CACHE_CLEARED = Words(
    meaning="`jax.clear_caches()` or `f.clear_cache()` dropped the program.",
    sentence=_cleared,
    because=then("an equal entry was cleared from the cache"),
)
CACHE_EVICTED = Words(
    meaning="JAX dropped the program because one of its caches was full.",
    sentence=_evicted,
    because=then("JAX dropped an equal entry from a full cache"),
)
JAXPR_CHANGED = Words(
    meaning="The same call gave a different program: the function reads hidden state.",
    sentence=_another_program,
    because=then("an equal key, but a different program"),
)
UNKNOWN = Words(
    meaning="None of these: a bug in retrace, or this JAX does not show the reason.",
    sentence=_unknown,
    because=None,
)

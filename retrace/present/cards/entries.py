"""The wording of causes that lie in JAX's caches."""

from __future__ import annotations

from retrace.model import Component, Miss, Stage
from retrace.present.cards.card import Case, Words, then
from retrace.present.changes import all_of, in_words
from retrace.present.program import evidence
from retrace.present.words import did, listed


def _first(case: Case) -> str:
    if case.verdict.repeat:
        why = case.detail or "it is not a new function"
        return f"{case.who} was {did(case.miss, '')} as part of its first use: {why}."
    return f"{case.who} was {_for_the_first(case.miss)} for the first time in this process."


def _for_the_first(miss: Miss) -> str:
    stages = {*miss.stages, miss.in_flight}
    if Stage.TRACE not in stages:
        return did(miss, "").replace(" without a trace", "")
    return "traced and compiled" if Stage.COMPILE in stages else "traced"


def _cleared(case: Case) -> str:
    text = "the cache was cleared in between"
    return f"{case.again} with the same key as {case.before} because {then(text)(case.detail)}."


def _evicted(case: Case) -> str:
    detail = f": {case.detail}" if case.detail else ""
    return (
        f"{case.again} with the same key as {case.before} because JAX dropped that entry from a "
        f"full cache{detail}."
    )


def _another_program(case: Case) -> str:
    detail = f": {case.detail}" if case.detail else ""
    return (
        f"{case.again} with the same key as {case.before} and became a different program: it "
        f"reads something that is not an argument{_read(case)}{detail}.{_read_at(case)}"
    )


def _read(case: Case) -> str:
    """What is known to have changed outside the function, or what it may be."""
    cells = [change for change in case.changes if change.component is Component.CLOSURE]
    texts = [in_words(change) for change in (*cells, *case.verdict.reads)]
    if texts:
        return f", of which {listed(texts)} changed"
    return " (a global, a closure, a clock, the order of a set)"


def _read_at(case: Case) -> str:
    found = evidence(case.view, case.verdict, 1)
    before = "it" if case.verdict.nearest is None else case.before
    return f" Compared with {before}, {found[0]}." if found else ""


def _unknown(case: Case) -> str:
    if case.miss.unseen:
        why = case.detail or "JAX does not show it"
        changes = all_of(case.verdict)
        shown = f" What it shows, compared with {case.before}: {changes}." if changes else ""
        return f"{case.again}; the reason is unknown because {why}.{shown}"
    return (
        f"{case.again}, and retrace does not know why: function, arguments, static values, "
        f"options and config were compared with {case.before}, and nothing differs. This is "
        f"a bug in retrace: please report it with the output of `retrace show {case.miss.id}`."
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

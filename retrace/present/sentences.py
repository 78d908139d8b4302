"""Explains in one or two sentences why a miss happened. Each cause's wording is on its card."""

from __future__ import annotations

from retrace.model import Pattern, Stage, Verdict
from retrace.present.cards import words
from retrace.present.cards.card import Case
from retrace.present.view import View
from retrace.present.words import clean, did, name


def pattern(found: Pattern) -> str:
    """A pattern in words."""
    match found:
        case Pattern.COMPILES_TWICE:
            return (
                "compiles twice: weakly typed in one call, as a Python number is, and strongly "
                "typed in another"
            )
        case Pattern.PLACED_LATER:
            return (
                "placed later: inputs were uncommitted in one call and committed in a later one"
            )
        case Pattern.EQUAL_BUT_NOT_THE_SAME:
            return "same contents, different object"
        case Pattern.GROWS_BY_ONE:
            return "grows by one: each new size is one more"
        case Pattern.LAST_PARTIAL_BATCH:
            return "last partial batch: the dataset size is not a multiple of the batch size"
        case Pattern.MANY_SIZES:
            return "many sizes: JAX compiles one program for each"
        case Pattern.PING_PONG:
            return "ping-pong: the same settings alternate"
        case Pattern.THOUSAND_TINY_PROGRAMS:
            return "a thousand tiny programs: each operation is compiled separately"


def explanation(view: View, verdict: Verdict) -> str:
    """Why a miss happened: one or two sentences, never empty."""
    miss, nearest = verdict.miss, verdict.nearest
    who = " ".join((f"`{name(miss.function)}`", *view.around(miss.function, "`")))
    if miss.derived is not None:
        who = f"the {clean(miss.derived)} program of {who}"
    before = "an earlier call" if nearest is None else view.earlier(nearest, miss)
    if verdict.follows is not None and verdict.changes == ():
        text = _followed(view, verdict, who)
    else:
        text = words(verdict.cause).sentence(
            Case(view=view, verdict=verdict, who=who, before=before)
        )
    if miss.raised is not None:
        text += f" It raised {clean(miss.raised)} and left no entry in JAX's cache."
    if miss.in_flight is not None:
        text += f" The recording ends while it was in its {miss.in_flight.value} stage."
    return text[0].upper() + text[1:]


def _followed(view: View, verdict: Verdict, who: str) -> str:
    """For a miss that shares the cause of another one."""
    miss = verdict.miss
    again = f"{who} was {did(miss)}"
    other = view.by_id.get(verdict.follows or "")
    label = "the call" if other is None else view.earlier(other.miss, miss)
    if miss.derived is None and miss.parent == verdict.follows:
        made = "the function that was made of it; both are one first trace"
        return f"{who} was {did(miss, '')} inside {label}, {made}."
    if other is not None and other.miss.raised is not None:
        return f"{again} because {label}, the same call, raised and left no entry in JAX's cache."
    if miss.derived is None and verdict.detail is None:
        what = "lowering" if other is not None and Stage.LOWER in other.miss.stages else "trace"
        went_on = did(miss, "").removesuffix(" without a trace")
        return f"{who} was {went_on} from the {what} of {label}: both are one program."
    if miss.derived is None:
        return f"{again} because {label}, the same call in another thread, was still under way."
    return f"{again} because {label}, the call it belongs to, missed, for the same cause."

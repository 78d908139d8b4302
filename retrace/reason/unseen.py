"""What cannot be concluded about a miss if the installed JAX did not show all of it."""

from __future__ import annotations

from retrace.model import Detail, How, Miss
from retrace.model.log import OF_LOG

_OF_KEY = frozenset(
    {
        "the options of jit",
        "arguments",
        "pytrees",
        "where arrays lie",
        "its configuration",
    }
)
"""Without these it is unknown whether keys are equal, but not whether a function is new."""
_OF_STATE = frozenset({"cleared caches", "programs", "compilations"})
"""Without these only the reason for missing with an equal key is unknown."""


def hides_first(miss: Miss) -> bool:
    """Whether the function may have been traced before without retrace seeing it."""
    return bool(set(miss.unseen) - _OF_KEY - _OF_STATE)


def hides_changes(miss: Miss, nearest: Miss) -> bool:
    """Whether something may have changed between two calls without retrace seeing it."""
    # What a log omits for one miss is complete for later ones: JAX's own explanations, of which
    # the log holds more, each compare against the whole key.
    return bool({*miss.unseen, *(set(nearest.unseen) - OF_LOG)} - _OF_STATE)


def hides_state(miss: Miss, nearest: Miss) -> bool:
    """Whether retrace did not see why an equal key missed."""
    return bool(miss.unseen or nearest.unseen)


def detail(miss: Miss, nearest: Miss | None = None) -> Detail:
    """Why the cause is unknown."""
    parts = dict.fromkeys((*miss.unseen, *(() if nearest is None else nearest.unseen)))
    return Detail(How.NOT_SHOWN, tuple(parts))

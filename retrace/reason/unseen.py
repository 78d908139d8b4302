"""What cannot be concluded of a miss where the installed JAX did not show all of it."""

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
"""Whether keys are equal is not known then; that a function is seen for the first time is."""
_OF_STATE = frozenset({"cleared caches", "programs", "compilations"})
"""Only why an equal key missed is not known then."""


def hides_first(miss: Miss) -> bool:
    """Whether the function may have been traced before, and that was not seen."""
    return bool(set(miss.unseen) - _OF_KEY - _OF_STATE)


def hides_changes(miss: Miss, nearest: Miss) -> bool:
    """Whether something may have changed between two calls that was not seen."""
    # What a log leaves out of one miss is not left out of those after it: JAX's own words, of
    # which the log has more, hold each against its whole key.
    return bool({*miss.unseen, *(set(nearest.unseen) - OF_LOG)} - _OF_STATE)


def hides_state(miss: Miss, nearest: Miss) -> bool:
    """Whether it was not seen why an equal key missed."""
    return bool(miss.unseen or nearest.unseen)


def detail(miss: Miss, nearest: Miss | None = None) -> Detail:
    """Why the cause is not known."""
    parts = dict.fromkeys((*miss.unseen, *(() if nearest is None else nearest.unseen)))
    return Detail(How.NOT_SHOWN, tuple(parts))

"""What of the results of an audit is told."""

from __future__ import annotations

from retrace.model import Checked, Outcome

_BY_WEIGHT = (Outcome.SAME, Outcome.UNTRACED, Outcome.EACH, Outcome.OTHER)


def is_worse(found: Checked, other: Checked | None) -> bool:
    """Whether a result is to be told rather than another one, or than none, of the same miss."""
    if other is None:
        return True
    old, new = (_BY_WEIGHT.index(one.outcome) for one in (other, found))
    return old < new or (old == new and not other.reads)


def is_current(found: Checked) -> bool:
    """Whether there is nothing to tell: the program is the same, and so is what it reads."""
    return found.outcome is Outcome.SAME and not found.reads and not found.disturbed

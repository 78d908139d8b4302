"""Words the details that a cause alone does not tell."""

from __future__ import annotations

from retrace.compare.equality import type_name
from retrace.model import Detail, How
from retrace.model.log import OF_LOG


def in_words(detail: Detail | None) -> str | None:  # noqa: C901, PLR0912 - one branch a way
    """How a cause came about, or None if the cause says it all."""
    if detail is None:
        return None
    names = detail.names
    match detail.how:
        case How.APPLIED_AGAIN:
            return f"`{names[0]}` was applied to it again"
        case How.WRAPPED_AGAIN:
            return "it was wrapped again"
        case How.LAMBDA_MADE_AGAIN:
            return "the lambda in it was created again"
        case How.DEF_RAN_AGAIN:
            return "its `def` ran again"
        case How.BOUND_AGAIN:
            return f"a new bound method of the same {_object(names)}; the previous one is gone"
        case How.OF_ANOTHER:
            return f"of another {_object(names)}"
        case How.OF_AN_EQUAL:
            return f"of an equal {_object(names)}; the previous one is gone"
        case How.OF_AN_UNEQUAL:
            return f"of a new {_object(names)}, unequal to the previous one"
        case How.JITTED_AGAIN:
            return "a jitted function was jitted again"
        case How.ALL_RAISED:
            return "every earlier call raised"
        case How.IN_ANOTHER_THREAD:
            return "another thread was still working on it"
        case How.DROPPED:
            return f"`{names[0]}` dropped the earlier program"
        case How.CLEARED:
            return f"by `{names[0]}`"
        case How.CLEARED_BY_MARKER:
            return "by the marker of a test"
        case How.DERIVED_AGAIN:
            return "another program derived from it"
        case How.NAME_ALONE:
            return "this JAX showed only its name"
        case How.MADE_AGAIN:
            return "JAX created the same program again"
        case How.TRACED_AGAIN:
            return "JAX traced it again with an equal key, although none of its caches was full"
        case How.WITHOUT_CLEAR:
            misses = "miss" if detail.misses == 1 else "misses"
            between = f"{detail.misses:,} {misses}"
            return f"it ran again although nothing was cleared, {between} after the equal one"
        case How.NOT_SHOWN:
            parts = list(names)
            named = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
            shown = "the log" if OF_LOG.intersection(parts) else "this JAX"
            return f"{shown} does not show {named}"


def _object(names: tuple[str, ...]) -> str:
    return f"`{type_name(names[0])}` object"

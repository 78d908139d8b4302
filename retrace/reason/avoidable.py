"""Whether a miss need not have been."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast

from retrace.causes import Cause
from retrace.compare.detail import EQUAL_FIELDS
from retrace.compare.equality import is_cut
from retrace.compare.keys import NOT_IN_KEY
from retrace.model import Change, Component, Miss
from retrace.reason import rules, values
from retrace.reason.program import Comparison

Avoidable: TypeAlias = Literal["yes", "no", "maybe"]

_ALWAYS = frozenset(
    {
        Cause.WEAK_TYPE_CHANGED,
        Cause.CACHE_CLEARED,
    }
)
"""Causes whose fix applies wherever they occur."""


def avoidable(
    cause: Cause,
    miss: Miss,
    nearest: Miss | None,
    changes: tuple[Change, ...],
    program: Comparison | None,
) -> Avoidable:
    """Whether the fix of the cause was seen to work and applies to this miss."""
    if cause is Cause.FIRST_TRACE:
        return "no"
    wasted = program is not None and program.is_wasted
    if of_library(cause, miss) and (miss.nested or not wasted):
        return "maybe"
    if wasted:
        return "yes"
    if cause is Cause.CONTROL_FLOW_RECREATED:
        # Jitted around, a loop of another length or another body is another program as well.
        shared = program is None or program.kind is None or _takes_numbers(changes, program)
        return "yes" if shared else "maybe"
    if cause is Cause.CALL_SIGNATURE_CHANGED:
        # Of `*rest` and `**options`, more or fewer arguments may be meant.
        own = [change for change in changes if change.component is Component.SIGNATURE]
        meant = any("[" in (change.path or "") for change in own)
        return "maybe" if meant or _is_more(changes) or stands_for_none(miss, changes) else "yes"
    if cause in _ALWAYS:
        return "yes"
    if cause is Cause.SOURCE_CHANGED:
        return "no"
    if (decided := values.avoidable(cause, changes, program)) is not None:
        return decided
    if cause in rules.OF_FUNCTION:
        # The same function made again is wasted; one made over other values needs
        # them as arguments, which is not always possible.
        differing = (Component.CLOSURE, Component.DEFAULTS)
        if any(change.component in differing for change in changes):
            return "maybe"
        # With nothing else changed, another program comes from a global that it reads.
        return "yes" if program is None else "maybe"
    if cause is Cause.SHAPE_CHANGED:
        return "yes" if partial_batch(miss, nearest, changes) else "maybe"
    if cause in (Cause.STATIC_ARGUMENT_CHANGED, Cause.TREE_STRUCTURE_CHANGED):
        own = [c for c in rules.in_key(changes) if c.component is not Component.SIGNATURE]
        return "yes" if own and all(map(looks_equal, own)) else "maybe"
    return "maybe"


def stands_for_none(miss: Miss, changes: tuple[Change, ...]) -> list[str]:
    """The parameters that one call gave an array, and another left out, which are None then."""
    none = {name for name, default in miss.function.defaults if default.text == "None"}
    return [
        change.path
        for change in changes
        if change.component is Component.TREE and change.path is not None and change.path in none
    ]


def of_library(cause: Cause, miss: Miss) -> bool:
    """Whether a library's own function was made anew.

    Whether the user holds what it is made from, or the library keeps it to itself,
    cannot be seen.
    """
    return miss.function.in_library and cause in rules.OF_FUNCTION


def _takes_numbers(changes: tuple[Change, ...], program: Comparison) -> bool:
    """Whether all that changed in the program is a number that the body holds."""
    held = [change for change in changes if change.component is Component.CLOSURE]
    return program.kind == "constants-only" and values.are_constants(held, program)


def _is_more(changes: tuple[Change, ...]) -> bool:
    """Whether a call that is written otherwise has other arrays as well."""
    passing = (Component.SIGNATURE, Component.STATIC, Component.TREE)
    return any(change.component not in passing for change in rules.in_key(changes))


def partial_batch(miss: Miss, nearest: Miss | None, changes: tuple[Change, ...]) -> bool:
    """Whether on one line nothing but a leading axis became shorter: the rest of a data set."""
    lines = [
        (one.call_site.file, one.call_site.line)
        for one in (miss, nearest)
        if one is not None and one.call_site is not None
    ]
    if len(set(lines)) > 1:
        return False
    size: tuple[int, int] | None = None
    for change in changes:
        if change.component is not Component.SHAPE:
            if change.component in NOT_IN_KEY:
                continue
            return False
        old, new = cast(list[int], change.old), cast(list[int], change.new)
        if not old or len(old) != len(new) or new[0] >= old[0] or old[1:] != new[1:]:
            return False
        if size not in (None, (old[0], new[0])):
            return False
        size = old[0], new[0]
    return size is not None


def looks_equal(change: Change) -> bool:
    """Whether the two sides have one content, and only their own `==` tells them apart."""
    return EQUAL_FIELDS in change.detail or (
        not change.exact and _content(change.old) == _content(change.new) is not None
    )


def _content(side: object) -> object:
    if not isinstance(side, dict) or "text" not in side:
        return None
    value = cast(dict[str, Any], side)
    if is_cut(value.get("data"), value["text"], exact=value["exact"]):
        return None
    return (value["type"], value["text"], repr(value.get("data")))

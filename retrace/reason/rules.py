"""What is asked of the changes and functions of two misses before their cause is known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from retrace.compare.equality import same_content
from retrace.compare.keys import NOT_IN_KEY
from retrace.model import Change, Detail, Function, How, Kind, Miss, Passing

Passed: TypeAlias = frozenset[str]
"""Static parameters of which nothing but the passing changed."""


def in_key(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes that would have missed with a stable function as well."""
    return tuple([change for change in changes if change.component not in NOT_IN_KEY])


def passed_otherwise(old: Miss, new: Miss) -> Passed:
    """The static parameters that one call gave the value which the other one omitted.

    Where another value than the default was given, the value has changed as well.
    """
    before, after = dict(old.key.static), dict(new.key.static)
    defaults = dict(new.function.defaults)
    ways = dict(old.key.signature), dict(new.key.signature)
    return frozenset(
        name
        for name in before.keys() ^ after.keys()
        if len({way.get(name, Passing.OMITTED) for way in ways}) > 1
        and (
            name not in defaults or same_content(defaults[name], before.get(name) or after[name])
        )
    )


def wrapped_again(old: Function, new: Function) -> bool:
    """Whether the user's function is the same object, and what is made around it is not."""
    return new.base != 0 and (old.base or old.object) == new.base


def detail_of_function(old: Function, new: Function) -> Detail | None:
    """What the cause alone does not say: of a receiver, and of what is new in what is new."""
    if new.kind in (Kind.DEF, Kind.LAMBDA) and wrapped_again(old, new):
        made = new.decorators or new.wrappers
        return Detail(How.APPLIED_AGAIN, made[:1]) if made else Detail(How.WRAPPED_AGAIN)
    if new.kind in (Kind.TRANSFORM, Kind.PARTIAL) and old.base and new.base not in (0, old.base):
        is_lambda = new.qualname.endswith("<lambda>")
        return Detail(How.LAMBDA_MADE_AGAIN if is_lambda else How.DEF_RAN_AGAIN)
    before, after = old.receiver, new.receiver
    if before is None or after is None or new.kind not in (Kind.METHOD, Kind.CALLABLE):
        return None
    if before.object is not None and before.object == after.object:
        how = How.BOUND_AGAIN
    elif before.equal is None or after.equal is None:
        how = How.OF_ANOTHER
    else:
        how = How.OF_AN_EQUAL if before.equal == after.equal else How.OF_AN_UNEQUAL
    return Detail(how, (after.type,))

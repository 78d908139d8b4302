"""Checks on two misses' changes and functions that are made before the cause is known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from retrace.compare.equality import same_content
from retrace.compare.keys import NOT_IN_KEY
from retrace.model import Change, Component, Detail, Function, How, Kind, Miss, Passing
from retrace.model.parts import passed, passes_the_same

Passed: TypeAlias = frozenset[str]
"""Static parameters that differ only in how they were passed."""


def in_key(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes that would cause a miss even with a stable function."""
    return tuple([change for change in changes if change.component not in NOT_IN_KEY])


def passed_differently(old: Miss, new: Miss) -> Passed:
    """Static parameters that one call passed and the other omitted.

    If the passed value is not the default, the value has changed as well.
    """
    if passes_the_same(old.key, new.key):
        return frozenset()
    before, after = dict(passed(old.key)), dict(passed(new.key))
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


def root(path: str) -> str:
    """The argument or variable that a path starts with."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def holds_other(changes: Iterable[Change]) -> bool:
    """Whether a recreated function closes over other values or has other defaults."""
    return bool(held_otherwise(changes))


def held_otherwise(changes: Iterable[Change]) -> tuple[str, ...]:
    """The names of what a recreated function closes over, or has as a default, that differs."""
    differing = (Component.CLOSURE, Component.DEFAULTS)
    names = [root(c.path) for c in changes if c.component in differing and c.path]
    return tuple(dict.fromkeys(names))


def wrapped_again(old: Function, new: Function) -> bool:
    """Whether the user's function is the same object but something new is wrapped around it."""
    return new.base != 0 and (old.base or old.object) == new.base


def detail_of_function(old: Function, new: Function) -> Detail | None:
    """Details that the cause alone leaves out, about receivers and about what exactly is new."""
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

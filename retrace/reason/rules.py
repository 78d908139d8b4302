"""Which cause a set of changes has. The order of `Cause` decides between several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from retrace.causes import Cause
from retrace.compare.detail import type_name
from retrace.compare.equality import same_content
from retrace.compare.keys import NOT_IN_KEY
from retrace.model import Change, Component, Function, Kind, Miss, Passing

Passed: TypeAlias = frozenset[str]
"""Static parameters of which nothing but the passing changed."""

RANK = {cause: rank for rank, cause in enumerate(Cause)}

_OF_COMPONENT = {
    Component.OPTIONS: Cause.JIT_OPTIONS_CHANGED,
    Component.CONFIG: Cause.CONFIG_CHANGED,
    Component.STATIC: Cause.STATIC_ARGUMENT_CHANGED,
    Component.SIGNATURE: Cause.CALL_SIGNATURE_CHANGED,
    Component.TREE: Cause.TREE_STRUCTURE_CHANGED,
    Component.SHAPE: Cause.SHAPE_CHANGED,
    Component.DTYPE: Cause.DTYPE_CHANGED,
    Component.WEAK_TYPE: Cause.WEAK_TYPE_CHANGED,
    Component.SHARDING: Cause.SHARDING_CHANGED,
}

_OF_KIND = {
    Kind.DEF: Cause.FUNCTION_REDEFINED,
    Kind.LAMBDA: Cause.LAMBDA_RECREATED,
    Kind.PARTIAL: Cause.PARTIAL_RECREATED,
    Kind.TRANSFORM: Cause.TRANSFORM_RECREATED,
    Kind.METHOD: Cause.METHOD_REBOUND,
    Kind.CALLABLE: Cause.METHOD_REBOUND,
    Kind.OP: Cause.EAGER_OP,
}

_RANKS = {part: RANK[_OF_COMPONENT.get(part, Cause.UNKNOWN)] for part in Component}

OF_FUNCTION = frozenset({*_OF_KIND.values(), Cause.SOURCE_CHANGED}) - {Cause.EAGER_OP}
"""The causes that lie in the function object, not in what it was called with."""


def in_key(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes that would have missed with a stable function as well."""
    return tuple([change for change in changes if change.component not in NOT_IN_KEY])


def others(changes: tuple[Change, ...], cause: Cause) -> list[Change]:
    """The changes of the key that have another cause, each of which alone would have missed."""
    components = {change.component for change in changes} - NOT_IN_KEY
    if len(components) < 2:  # as of nearly every miss
        return []
    return [
        change
        for change in in_key(changes)
        if _OF_COMPONENT.get(change.component, cause) is not cause and change.path is not None
    ]


def cause_of(changes: Iterable[Change], passed: Passed = frozenset()) -> Cause:
    """The cause among the changes of a key, by precedence; `unknown` where there is none."""
    causes = map(_cause_within(passed), changes)
    return min(causes, key=RANK.__getitem__, default=Cause.UNKNOWN)


def _cause_within(passed: Passed) -> Callable[[Change], Cause]:
    """The cause of one change; `unknown` of what is in no key."""

    def cause(change: Change) -> Cause:
        if passed and change.component is Component.STATIC and change.path in passed:
            return Cause.CALL_SIGNATURE_CHANGED
        return _OF_COMPONENT.get(change.component, Cause.UNKNOWN)

    return cause


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


def by_precedence(
    changes: tuple[Change, ...], passed: Passed = frozenset()
) -> tuple[Change, ...]:
    """The changes with that of the cause first, those outside the key last."""
    if not passed:
        if len({change.component for change in changes}) < 2:  # as of nearly every miss
            return changes
        return tuple(sorted(changes, key=lambda change: _RANKS[change.component]))
    cause = _cause_within(passed)
    return tuple(sorted(changes, key=lambda change: RANK[cause(change)]))


def cause_of_function(old: Function, new: Function) -> Cause:
    """Why a function object is another one, when nothing else differs."""
    if old.code is not None and new.code is not None and old.code != new.code:
        return Cause.SOURCE_CHANGED
    if new.kind is Kind.LAMBDA and wrapped_again(old, new):
        return Cause.FUNCTION_REDEFINED
    return _OF_KIND[new.kind]


def wrapped_again(old: Function, new: Function) -> bool:
    """Whether the user's function is the same object, and what is made around it is not."""
    return new.base != 0 and (old.base or old.object) == new.base


def detail_of_function(old: Function, new: Function) -> str | None:
    """What the cause alone does not say: of a receiver, and of what is new in what is new."""
    if new.kind in (Kind.DEF, Kind.LAMBDA) and wrapped_again(old, new):
        made = new.decorators or new.wrappers
        return f"`{made[0]}` was applied to it again" if made else "it was wrapped again"
    if new.kind in (Kind.TRANSFORM, Kind.PARTIAL) and old.base and new.base not in (0, old.base):
        is_lambda = new.qualname.endswith("<lambda>")
        return "the lambda in it was made again" if is_lambda else "its `def` ran again"
    before, after = old.receiver, new.receiver
    if before is None or after is None or new.kind not in (Kind.METHOD, Kind.CALLABLE):
        return None
    what = f"`{type_name(after.type)}` object"
    if before.object is not None and before.object == after.object:
        return f"a new bound method of the same {what}; the method before it has died"
    if before.equal is None or after.equal is None:
        return f"of another {what}"
    if before.equal == after.equal:
        return f"of an equal {what}; the one before it has died"
    return f"of a new {what}, unequal to the one before"

"""Which cause a set of changes has. The order of `Cause` decides between several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from retrace.causes import Cause
from retrace.compare.keys import NOT_IN_KEY
from retrace.model import Change, Component, Function, Kind
from retrace.model.change import Changes, component_of, together
from retrace.model.parts import OF_ARGUMENTS
from retrace.reason.cards import card
from retrace.reason.rules import Passed, in_key, wrapped_again

RANK = {cause: rank for rank, cause in enumerate(Cause)}
_OF_COMPONENT = {part: cause for cause in Cause for part in card(cause).components}
_OF_KIND = {kind: cause for cause in Cause for kind in card(cause).kinds}
_RANKS = {part: RANK[_OF_COMPONENT.get(part, Cause.UNKNOWN)] for part in Component}


def others(changes: tuple[Change, ...], cause: Cause) -> list[Change]:
    """The changes of the key that have another cause; each alone would have caused a miss."""
    components = together(changes).components - NOT_IN_KEY
    if len(components) < 2:  # the case for nearly every miss
        return []
    return [
        change
        for change in in_key(changes)
        if _OF_COMPONENT.get(change.component, cause) is not cause and change.path is not None
    ]


def cause_alone(change: Change) -> Cause:
    """The cause that a change of the key would have if nothing else differed."""
    return _OF_COMPONENT.get(change.component, Cause.UNKNOWN)


def cause_of(changes: Iterable[Change], passed: Passed = frozenset()) -> Cause:
    """The cause among the changes of a key, by precedence, or `unknown` if there is none."""
    causes = map(_cause_within(passed), changes)
    return min(causes, key=RANK.__getitem__, default=Cause.UNKNOWN)


def _cause_within(passed: Passed) -> Callable[[Change], Cause]:
    """The cause of one change, or `unknown` if it is not part of a key."""

    def cause(change: Change) -> Cause:
        if passed and change.component in OF_ARGUMENTS and change.path in passed:
            return Cause.CALL_SIGNATURE_CHANGED
        return cause_alone(change)

    return cause


def by_precedence(
    changes: tuple[Change, ...], passed: Passed = frozenset()
) -> tuple[Change, ...]:
    """The changes, those of the cause first and those outside the key last."""
    if not passed:
        ranks = [_RANKS[component] for component, _ in groupby(changes, component_of)]
        if ranks == sorted(ranks):  # the case for nearly every miss
            return changes
        return Changes(sorted(changes, key=lambda change: _RANKS[change.component]))
    cause = _cause_within(passed)
    return tuple(sorted(changes, key=lambda change: RANK[cause(change)]))


def cause_of_function(old: Function, new: Function) -> Cause:
    """Why a function object differs, if nothing else does."""
    if old.code is not None and new.code is not None and old.code != new.code:
        return Cause.SOURCE_CHANGED
    if new.kind is Kind.LAMBDA and wrapped_again(old, new):
        return Cause.FUNCTION_REDEFINED
    return _OF_KIND[new.kind]

"""Patterns in the misses of one function that deserve their own name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from retrace.causes import Cause
from retrace.model import Pattern, ShardingChange, Verdict, WeakTypeChange
from retrace.model.change import together
from retrace.reason import rules
from retrace.reason.evidence import grown
from retrace.reason.history import is_partial_batch
from retrace.reason.traits import is_placed_later, looks_equal

Verdicts: TypeAlias = list[Verdict]

_MIN_MISSES = 4
"""Minimum number of misses of one kind for a pattern."""
_MIN_TINY_PROGRAMS = 10
"""Minimum number of single-operation programs on one line for a pattern."""


def recognise(verdicts: Sequence[Verdict]) -> dict[str, Pattern]:
    """The pattern of each miss that belongs to one, by the id of the miss."""
    functions: dict[tuple[str, str], Verdicts] = {}
    for verdict in verdicts:
        # A call that raised left no entry, so it says nothing about how sizes vary.
        if verdict.cause is not Cause.FIRST_TRACE and verdict.miss.raised is None:
            key = (verdict.miss.run, verdict.miss.function.site)
            functions.setdefault(key, []).append(verdict)
    found: dict[str, Pattern] = {}
    for group in functions.values():
        for name, members in OF_FUNCTION:
            for verdict in members(group):
                found.setdefault(verdict.miss.id, name)
    for verdict in _tiny_programs(verdicts):
        found.setdefault(verdict.miss.id, Pattern.THOUSAND_TINY_PROGRAMS)
    return found


def _tiny_programs(verdicts: Iterable[Verdict]) -> Verdicts:
    lines: dict[tuple[str, str, int], Verdicts] = {}
    for verdict in verdicts:
        site = verdict.miss.entry or verdict.miss.call_site
        if verdict.cause is Cause.EAGER_OP and site is not None and not site.in_library:
            lines.setdefault((verdict.miss.run, site.file, site.line), []).append(verdict)
    return [
        verdict for line in lines.values() if len(line) >= _MIN_TINY_PROGRAMS for verdict in line
    ]


def _compiles_twice(group: Verdicts) -> Verdicts:
    # Weak first, then strong, as when the program's own result is passed back in.
    return [
        verdict
        for verdict in group
        if verdict.cause is Cause.WEAK_TYPE_CHANGED
        and all(c.old for c in verdict.changes if isinstance(c, WeakTypeChange))
    ]


def _placed_later(group: Verdicts) -> Verdicts:
    return [
        verdict
        for verdict in group
        if verdict.cause is Cause.SHARDING_CHANGED
        and all(is_placed_later(c) for c in verdict.changes if isinstance(c, ShardingChange))
    ]


def _equal_but_not_the_same(group: Verdicts) -> Verdicts:
    causes = (Cause.STATIC_ARGUMENT_CHANGED, Cause.TREE_STRUCTURE_CHANGED)
    return [
        verdict
        for verdict in group
        if verdict.cause in causes
        and any(map(looks_equal, rules.in_key(verdict.changes)))
        and verdict.program_change in (None, "identical")
    ]


def _grows_by_one(group: Verdicts) -> Verdicts:
    grown = [verdict for verdict in group if _grew_by_one(verdict)]
    return grown if len(grown) >= _MIN_MISSES - 1 else []


def _last_partial_batch(group: Verdicts) -> Verdicts:
    return [verdict for verdict in _of_shape(group) if is_partial_batch(verdict)]


def _many_sizes(group: Verdicts) -> Verdicts:
    shapes = _of_shape(group)
    return shapes if len(shapes) >= _MIN_MISSES else []


def _ping_pong(group: Verdicts) -> Verdicts:
    # Each side of an alternation is cached, so a repeat shows only if
    # the entry was dropped or its value was created anew.
    configs = [v for v in group if v.cause in (Cause.CONFIG_CHANGED, Cause.JIT_OPTIONS_CHANGED)]
    sides = [frozenset((repr(c.old), repr(c.new)) for c in v.changes) for v in configs]
    turned = [frozenset((new, old) for old, new in side) for side in sides]
    return [v for v, side in zip(configs, sides, strict=True) if side in turned]


OF_FUNCTION: tuple[tuple[Pattern, Callable[[Verdicts], Verdicts]], ...] = (
    (Pattern.COMPILES_TWICE, _compiles_twice),
    (Pattern.PLACED_LATER, _placed_later),
    (Pattern.EQUAL_BUT_NOT_THE_SAME, _equal_but_not_the_same),
    (Pattern.GROWS_BY_ONE, _grows_by_one),
    (Pattern.MANY_SIZES, _many_sizes),
    (Pattern.LAST_PARTIAL_BATCH, _last_partial_batch),
    (Pattern.PING_PONG, _ping_pong),
)
"""How to recognise each pattern in the misses of one function; the first match applies."""


def _of_shape(group: Verdicts) -> Verdicts:
    return [verdict for verdict in group if verdict.cause is Cause.SHAPE_CHANGED]


def _grew_by_one(verdict: Verdict) -> bool:
    """Whether an axis is one longer than in the closest key."""
    if not _is_steady(verdict):
        return False
    shapes = together(verdict.changes).sides
    return any(grown(a, b) == 1 for sides in shapes for a, b in zip(*sides, strict=False))


def _is_steady(verdict: Verdict) -> bool:
    return verdict.cause in (Cause.SHAPE_CHANGED, Cause.EAGER_OP)

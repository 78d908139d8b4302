"""Compares the misses of a test suite with the baseline.

JAX's caches outlive a test: if two tests call a function with the same arguments, only the first
one misses, and which one is first depends on the selection, the order and the worker. So a
function is compared with what the whole suite may miss; single tests only show where.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from retrace.causes import Cause
from retrace.guards.baseline import Causes, Functions, Names, is_new, more
from retrace.model import Key, Kind, Miss, Verdict
from retrace.model.parts import by_kind, unchanged
from retrace.present.guard import explanation
from retrace.present.view import View

Tests: TypeAlias = Mapping[str, Functions]
"""By test id."""


class Row(NamedTuple):
    """One miss."""

    function: str
    cause: str
    key: str
    """Digest of JAX's key if another worker's miss with it would have been a hit in one process;
    otherwise empty."""


class Tested(NamedTuple):
    """One test that ran."""

    test: str
    process: int
    passed: bool
    rows: list[Row]
    texts: dict[str, str]
    """Explanations of misses that the baseline does not have for this test, by function."""


class Excess(NamedTuple):
    """A function that misses more often than the baseline allows."""

    function: str
    old: Causes
    new: Causes
    texts: list[str]


class Held(NamedTuple):
    """The result for a suite."""

    excesses: list[Excess]
    new: list[str]
    """Functions not in the baseline that were only traced for the first time."""
    raised: dict[str, Functions]
    """The baseline with the additional misses."""
    lowered: dict[str, Functions]
    """The baseline without entries that are no longer needed."""
    updated: dict[str, Functions]
    """The baseline with both changes."""


def tested(
    test: str,
    process: int,
    missed: tuple[View, list[Verdict]] | None,
    names: Names,
    known: Functions | None,
) -> Tested:
    """One test with its misses and their explanations.

    Args:
        test: its id.
        process: the process that ran it.
        missed: the view, and the misses of the test; None if it had none.
        names: the names of functions.
        known: its functions in the baseline; None to explain nothing.
    """
    if missed is None:
        return Tested(test, process, True, [], {})
    view, verdicts = missed
    found: dict[str, list[Verdict]] = {}
    rows: list[Row] = []
    for verdict in verdicts:
        if (name := names.of(verdict)) is not None:
            found.setdefault(name, []).append(verdict)
            rows.append(Row(name, verdict.cause.value, _digest(verdict.miss)))
    texts: dict[str, str] = {}
    for name, own in found.items() if known is not None else ():
        if more((known or {}).get(name, {}), Counter(verdict.cause.value for verdict in own)):
            texts[name] = explanation(view, [], own).strip()
    return Tested(test, process, True, rows, texts)


def _digest(miss: Miss) -> str:
    """Digest of the key if the function exists once per process; otherwise empty."""
    function = miss.function
    if function.kind is not Kind.DEF or "<locals>" in function.qualname or function.receiver:
        return ""
    content = repr((_plain(miss.key), miss.derived, sorted(miss.stages)))
    return hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()[:12]


def _plain(key: Key) -> tuple[object, ...]:
    """A key without tokens, which differ between processes."""
    found = by_kind(
        key,
        arrays=unchanged,
        containers=lambda tree: [(x.path, x.type, x.children, _texts(x.meta)) for x in tree],
        values=lambda _, values: _texts(values),
        words=unchanged,
    )
    return tuple(found.values())


def _texts(values: Iterable[tuple[str, object]]) -> list[tuple[str, str, str]]:
    return [(name, getattr(v, "type", ""), getattr(v, "text", "")) for name, v in values]


def hold(known: Tests, tested: Sequence[Tested], gone: Collection[str] = ()) -> Held:
    """Compare tests with the baseline.

    Args:
        known: the tests in the baseline.
        tested: the tests that ran, in any number of processes; nothing is concluded from
            tests that failed or were skipped.
        gone: tests in the baseline that no longer exist.
    """
    passed = [one for one in tested if one.passed]
    ran = {one.test for one in passed}
    unsure = {row.function for one in tested if not one.passed for row in one.rows}
    before, now, spent = _by_function(known), _observed(passed), _certain_misses(passed)
    held = Held([], [], *({t: dict(known[t]) for t in known} for _ in range(3)))
    for function in sorted({*before, *now}):
        old, new = before.get(function, {}), now.get(function, {})
        if spent.get(function, 0) > _total(old) or _differs_within(old, new):
            excess = _excess(function, old, new, passed)
            if is_new(excess.old, excess.new):
                held.new.append(function)
            else:
                held.excesses.append(excess)
                _set(held.raised, function, new, ran)
            _set(held.updated, function, new, ran)
        elif _total(new) < _total(old) and ran >= set(old) and function not in unsure:
            _set(held.lowered, function, new, ran)
            _set(held.updated, function, new, ran)
    for test in gone:
        held.lowered.pop(test, None)
        held.updated.pop(test, None)
    for tests in (held.raised, held.lowered, held.updated):
        for test in [test for test, functions in tests.items() if not functions]:
            del tests[test]
    return held


def _set(
    tests: dict[str, Functions], function: str, new: Mapping[str, Causes], ran: Iterable[str]
) -> None:
    for test in ran:
        tests.get(test, {}).pop(function, None)
    for test, causes in new.items():
        tests.setdefault(test, {})[function] = causes


def _excess(
    function: str, old: Mapping[str, Causes], new: Mapping[str, Causes], passed: Sequence[Tested]
) -> Excess:
    grown = [test for test in sorted(new) if more(old.get(test, {}), new[test])]
    texts = {one.test: one.texts.get(function, "") for one in passed}
    return Excess(function, _sum(old), _sum(new), [texts[test] for test in grown if texts[test]])


def _differs_within(old: Mapping[str, Causes], new: Mapping[str, Causes]) -> bool:
    """Whether a function that only one test misses does so for a different cause."""
    return len(old) == 1 and old.keys() == new.keys() and bool(more(_sum(old), _sum(new)))


def _certain_misses(passed: Iterable[Tested]) -> dict[str, int]:
    """How often a single process running all these tests would certainly miss, by function."""
    alike: dict[tuple[str, str], Counter[int]] = {}
    for one in passed:
        for row in one.rows:
            alike.setdefault((row.function, row.key), Counter())[one.process] += 1
    spent: Counter[str] = Counter()
    for (function, _), processes in alike.items():
        spent[function] += max(processes.values())
    return spent


def _observed(passed: Iterable[Tested]) -> dict[str, dict[str, Causes]]:
    """The misses by function and test; equal misses of several workers count once."""
    found: dict[str, dict[str, Causes]] = {}
    counted: Counter[tuple[str, str]] = Counter()
    seen: Counter[tuple[str, str, int]] = Counter()
    for one in sorted(passed, key=lambda one: one.test):
        for row in one.rows:
            if row.key:
                seen[row.function, row.key, one.process] += 1
                if seen[row.function, row.key, one.process] <= counted[row.function, row.key]:
                    continue
                counted[row.function, row.key] += 1
            causes = found.setdefault(row.function, {}).setdefault(one.test, {})
            causes[row.cause] = causes.get(row.cause, 0) + 1
    return found


def _by_function(tests: Tests) -> dict[str, dict[str, Causes]]:
    found: dict[str, dict[str, Causes]] = {}
    for test, functions in tests.items():
        for function, causes in functions.items():
            found.setdefault(function, {})[test] = causes
    return found


def _sum(tests: Mapping[str, Causes]) -> Causes:
    found: Counter[str] = Counter()
    for causes in tests.values():
        found.update(causes)
    return {cause.value: found[cause.value] for cause in Cause if found[cause.value]}


def _total(tests: Mapping[str, Causes]) -> int:
    return sum(_sum(tests).values())

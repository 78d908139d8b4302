"""Alarms for generated test suites, with a simulated cache in each worker."""

from __future__ import annotations

from typing import NamedTuple

import hypothesis.strategies as st
from hypothesis import given, settings

from retrace.guards import suite
from retrace.guards.suite import Row, hold

SHARED, FIXTURE, LOCAL = "library.py::step", "library.py::make.<locals>.step", "test.py::own"
"""One in each process; one in each process that does not look so; one in each test."""

Call = tuple[str, int]
"""A function, and the key that it is called with."""


class Plan(NamedTuple):
    """The tests, and which worker runs them in which order."""

    tests: dict[str, list[Call]]
    workers: list[list[str]]
    later: list[list[str]]
    """Another run: some or all tests, by other workers in another order."""


calls = st.lists(
    st.tuples(st.sampled_from([SHARED, FIXTURE, LOCAL]), st.integers(0, 3)), max_size=5
)


@st.composite
def plans(draw: st.DrawFn, whole: bool = False) -> Plan:
    tests = draw(st.dictionaries(st.sampled_from("abcdef").map("test.py::test_{}".format), calls))
    return Plan(tests, [sorted(tests)], _dealt(draw, tests, whole))


def _dealt(draw: st.DrawFn, tests: dict[str, list[Call]], whole: bool) -> list[list[str]]:
    order = draw(st.permutations(sorted(tests)))
    workers = draw(st.integers(1, 3))
    hands: list[list[str]] = [[] for _ in range(workers)]
    for test in order:
        if whole or draw(st.booleans()):
            hands[draw(st.integers(0, workers - 1))].append(test)
    return hands


def run(tests: dict[str, list[Call]], workers: list[list[str]]) -> list[suite.Tested]:
    """The misses of a JAX with one cache per process."""
    told: list[suite.Tested] = []
    for process, hand in enumerate(workers):
        cache: set[tuple[str, str, int]] = set()
        for test in hand:
            rows: list[Row] = []
            for function, key in tests[test]:
                owner = test if function == LOCAL else ""
                entry = owner, function, key
                if entry in cache:
                    continue
                seen = any(known[:2] == entry[:2] for known in cache)
                cause = "shape-changed" if seen else "first-trace"
                rows.append(Row(function, cause, str(key) if function == SHARED else ""))
                cache.add(entry)
            told.append(suite.Tested(test, process, True, rows, {}))
    return told


@settings(deadline=None)
@given(plans())
def test_no_selection_order_or_worker_is_an_alarm(plan: Plan) -> None:
    known = hold({}, run(plan.tests, plan.workers)).updated
    held = hold(known, run(plan.tests, plan.later))
    assert held.excesses == [] and held.new == []
    assert held.updated == held.lowered == held.raised == known


@settings(deadline=None)
@given(plans())
def test_entries_of_tests_that_did_not_run_are_kept(plan: Plan) -> None:
    known = hold({}, run(plan.tests, plan.workers)).updated
    spoiled = {test: [*calls, (SHARED, 9), (LOCAL, 9)] for test, calls in plan.tests.items()}
    updated = hold(known, run(spoiled, plan.later)).updated
    ran = {test for hand in plan.later for test in hand}
    for test in set(known) - ran:
        assert updated[test] == known[test]


@settings(deadline=None)
@given(plans(whole=True), st.data())
def test_one_more_miss_is_an_alarm_wherever_it_runs(plan: Plan, data: st.DataObject) -> None:
    if not plan.tests:
        return
    known = hold({}, run(plan.tests, plan.workers)).updated
    test = data.draw(st.sampled_from(sorted(plan.tests)))
    spoiled = {**plan.tests, test: [*plan.tests[test], (SHARED, 9), (SHARED, 10)]}
    held = hold(known, run(spoiled, plan.later))
    assert [one.function for one in held.excesses] == [SHARED]
    # Accepted misses are checked from then on.
    accepted = hold(held.updated, run(spoiled, plan.later))
    assert accepted.excesses == [] and accepted.updated == held.updated


@settings(deadline=None)
@given(plans())
def test_a_baseline_made_by_workers_applies_to_one_process(plan: Plan) -> None:
    ran = {test for hand in plan.later for test in hand}
    known = hold({}, run(plan.tests, plan.later)).updated
    alone = run(plan.tests, [[test for test in sorted(plan.tests) if test in ran]])
    assert hold(known, alone).excesses == []
    assert _often(SHARED, known) == _often(SHARED, hold({}, alone).updated)


def _often(function: str, tests: suite.Tests) -> int:
    return sum(sum(functions.get(function, {}).values()) for functions in tests.values())

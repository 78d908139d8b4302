"""Forty programs that are out of date, and forty that only look it, in one process."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import retrace
from retrace.capture.session import session
from retrace.jax_internals.names_audit import INFER
from retrace.jax_internals.names_hooks import (
    DURATION_LISTENERS,
    TEST_SLOT,
    TRACE,
    TRACE_BEFORE,
)
from tests.auditing import harmless, harmless_around, stale, stale_around, stale_elsewhere
from tests.auditing.stale import Program

pytestmark = pytest.mark.drawn

CONFIG: Any = jax.config


class Ran(NamedTuple):
    """The result of one audit after running all programs."""

    verdicts: dict[str, set[str]]
    """By program, then by function."""
    told: str
    disturbed: list[str]
    """What was wrong after the audit."""


def run(programs: list[Program]) -> Ran:
    events: list[str] = []
    listener: Any = lambda event, _, **__: events.append(event)
    misses: dict[str, range] = {}
    kept: list[tuple[Any, Any, Any]] = []
    with retrace.recording():
        for program in programs:
            began = session().recorder.misses.begun
            generator: Iterator[Any] = program()
            call = next(generator)
            result = jax.tree.map(np.asarray, call())
            next(generator, None)
            misses[program.__name__] = range(began, session().recorder.misses.begun)
            kept.append((program, call, result))
        jax.monitoring.register_event_duration_secs_listener(listener)
        try:
            before = _state()
            told = retrace.audit()
            disturbed = [f"{len(events)} events"] if events else []
            disturbed += [name for name, value in _state().items() if before[name] != value]
            seen = session().recorder.misses.begun
            for program, call, result in kept:
                again = jax.tree.map(np.asarray, call())
                if str(again) != str(result):
                    disturbed.append(f"{program.__name__} gives another result")
            if session().recorder.misses.begun != seen or events:
                disturbed.append(f"later calls miss: {sorted(set(events))}")
        finally:
            DURATION_LISTENERS.look().remove(listener)
    verdicts: dict[str, set[str]] = {}
    for one in told:
        for name, numbers in misses.items():
            if int(one.miss) in numbers:
                verdicts.setdefault(name, set()).add(one.verdict)
    return Ran(verdicts, str(told), disturbed)


def _state() -> dict[str, object]:
    return {
        "counts": retrace.counts(),
        "random": random.getstate(),
        "numpy.random": str(np.random.get_state()),
        "filters": list(warnings.filters),
        "x64": CONFIG.jax_enable_x64,
        "traces": harmless.traces,
        "log": list(harmless.log),
        "memo": dict(harmless.memo),
        "slot": TEST_SLOT.value(),
        "caches": [row.look() for row in (TRACE, TRACE_BEFORE, INFER)],
    }


def test_outdated_programs_are_proved() -> None:
    ran = run(stale.PROGRAMS)
    proved = {name for name, verdicts in ran.verdicts.items() if "proved" in verdicts}
    missed = {program.__name__ for program in stale.PROGRAMS} - proved
    assert len(stale.PROGRAMS) >= 40
    assert len(proved) >= 36, {name: ran.verdicts.get(name) for name in missed}
    assert not ran.disturbed


def test_hard_cases_are_proved_too() -> None:
    programs = stale_elsewhere.PROGRAMS + stale_around.PROGRAMS
    ran = run(programs)
    proved = {name for name, verdicts in ran.verdicts.items() if "proved" in verdicts}
    missed = {program.__name__ for program in programs} - proved
    assert not missed, {name: ran.verdicts.get(name) for name in missed}
    assert not ran.disturbed


def test_programs_that_only_look_outdated_are_not_reported() -> None:
    programs = harmless.PROGRAMS + harmless_around.PROGRAMS
    ran = run(programs)
    wrong = {
        name: verdicts
        for name, verdicts in ran.verdicts.items()
        if verdicts & {"proved", "each-trace", "perhaps"}
    }
    assert len(harmless.PROGRAMS) >= 40
    assert "a_function_that_is_returned" not in ran.verdicts  # each trace makes another one
    assert not wrong, ran.told
    assert not ran.disturbed


class Table:
    """Wraps an array and compares no more than its shape, as such classes often do."""

    def __init__(self, *values: float) -> None:
        self.values = np.asarray(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.values.shape == other.values.shape

    def __hash__(self) -> int:
        return hash(self.values.shape)


class Result:
    def __init__(self, values: Any, table: Table) -> None:
        self.values, self.table = values, table


jax.tree_util.register_pytree_node(
    Result, lambda one: ((one.values,), one.table), lambda table, held: Result(*held, table)
)


def test_a_result_that_only_calls_itself_equal_is_perhaps_out_of_date() -> None:
    def carries_a_table() -> Iterator[Any]:
        table = Table(1.0, 2.0)
        f = jax.jit(lambda x: Result(x, table))
        yield lambda: f(np.ones(3))
        table = Table(3.0, 4.0)

    def carries_an_equal_table() -> Iterator[Any]:
        table = Table(1.0, 2.0)
        f = jax.jit(lambda x: Result(x * 2, table))
        yield lambda: f(np.ones(3))
        table = Table(1.0, 2.0)

    assert run([carries_a_table]).verdicts == {"carries_a_table": {"perhaps"}}
    assert not run([carries_an_equal_table]).verdicts


@pytest.fixture(autouse=True)
def _programs_are_cold() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    jax.clear_caches()
    yield
    jax.clear_caches()


RATES: dict[str, float] = {}


def _added(c: Any, x: Any) -> Any:
    return c + x, x


def _is_small(x: Any) -> Any:
    return x.sum() < 10


def _grown(x: Any) -> Any:
    return x * RATES["k"]


def _gone(told: str) -> int:
    found = re.search(r"(\d+) more programs? not checked", told)
    return int(found[1]) if found else 0


@pytest.mark.skipif(jax.__version_info__ < (0, 9), reason="traced elsewhere before 0.9")
def test_bodies_outside_all_functions_are_told_by_their_names() -> None:
    x, RATES["k"] = jax.numpy.ones(3), 2.0
    with retrace.recording():
        retrace.audit()
        jax.jit(lambda x: x + 1)(x)  # gone with its function
        gone = _gone(str(retrace.audit()))
        jax.lax.scan(_added, 0.0, x)
        jax.lax.while_loop(_is_small, _grown, x)
        RATES["k"] = 3.0
        told = retrace.audit()
    (stale,) = [one for one in told if one.verdict == "proved"]
    assert stale.function == "_grown"
    assert [one["name"] for one in stale.reads] == ["RATES['k']"]
    assert gone and _gone(str(told)) >= gone  # a body stands for none of those


def _summed(a: Any, b: Any) -> Any:
    return a + b * RATES["k"]


@pytest.mark.skipif(jax.__version_info__ < (0, 9), reason="traced elsewhere before 0.9")
def test_what_reductions_outside_all_functions_read_is_perhaps_out_of_date() -> None:
    x = jax.numpy.arange(4.0)
    operations: tuple[Any, ...] = (
        lambda: jax.lax.reduce(x, 0.0, _summed, (0,)),
        lambda: jax.lax.reduce_window(x, 0.0, _summed, (2,), (1,), "VALID"),
        lambda: x.at[1].apply(_grown),
    )
    for operation in operations:
        jax.clear_caches()
        RATES["k"] = 2.0
        with retrace.recording():
            operation()
            assert "perhaps" not in {one.verdict for one in retrace.audit()}
            RATES["k"] = 3.0
            (told,) = retrace.audit()
        assert told.verdict == "perhaps", str(told)
        assert [one["name"] for one in told.reads] == ["RATES['k']"]

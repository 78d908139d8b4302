"""What guards cost a call that hits, compared with those of others, and what the plugin costs."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from time import thread_time
from typing import Any

import jax
import jax.numpy as jnp

import retrace
from retrace.guards.watch import watch
from tests.benchmarks.commands import environment
from tests.benchmarks.measure import Ratio, compare, processor_seconds, seconds

_CALLS = 100
"""Few enough for most loops to finish before another process gets the core."""
_LOOPS = 10

_BOUND = 1.02
_MAX_ADDED = 0.005
"""Seconds that the plugin may add to a pytest run that does not use it."""


def _step(x: Any) -> Any:
    return x + 1


def _loop(jitted: Callable[[Any], Any], x: Any) -> float:
    def run() -> None:
        for _ in range(_CALLS):
            jitted(x)

    return min(seconds(run) for _ in range(_LOOPS)) / _CALLS


def _hits(
    what: str,
    other: Callable[[Any], Any],
    guard: Callable[[], AbstractContextManager[object]],
    pairs: int,
    bound: float | None = None,
    jit: Callable[..., Any] = jax.jit,
) -> Ratio:
    plain = jit(lambda x: x + 1)
    x = jnp.ones(2)
    plain(x)
    other(x)

    def guarded() -> float:
        with guard():
            return _loop(other, x)

    return compare(
        f"a call that hits, inside {what}", lambda: _loop(plain, x), guarded, pairs, bound
    )


def asserted(pairs: int) -> Ratio:
    """Inside `assert_max_traces`."""
    step: Any = jax.jit(lambda x: x + 1)
    return _hits(
        "`assert_max_traces`", step, lambda: retrace.assert_max_traces(step, 1), pairs, _BOUND
    )


def frozen(pairs: int) -> Ratio:
    """Inside `freeze`."""
    step: Any = jax.jit(lambda x: x + 1)
    return _hits("`freeze`", step, lambda: retrace.freeze(step), pairs, _BOUND)


def raising(pairs: int) -> Ratio:
    """Under the policy `raise`."""
    step: Any = jax.jit(lambda x: x + 1)
    return _hits('`policy("raise")`', step, lambda: retrace.policy("raise", step), pairs, _BOUND)


def by_chex(pairs: int) -> Ratio | None:
    """Under chex's assertion, which wraps the traced function; None without chex."""
    if find_spec("chex") is None:
        return None
    chex: Any = import_module("chex")
    step: Any = jax.jit(chex.assert_max_traces(_step, n=1))
    return _hits("`chex.assert_max_traces`", step, nullcontext, pairs)


def by_equinox(pairs: int) -> Ratio | None:
    """Under equinox's assertion, inside its own `filter_jit`; None without equinox."""
    if find_spec("equinox") is None:
        return None
    eqx: Any = import_module("equinox")
    step: Any = eqx.filter_jit(eqx.debug.assert_max_traces(_step, max_traces=1))
    what = "`eqx.debug.assert_max_traces`, both under `eqx.filter_jit`"
    return _hits(what, step, nullcontext, pairs, jit=eqx.filter_jit)


def growing(misses: int, named: bool) -> Ratio:
    """What one more miss costs a warning guard, after many compared with after few."""
    few, many = _of_misses(None if named else "another", misses)
    what = "that it names" if named else "that it does not name"
    name = f"a guard that warns: the {misses:,}th miss {what}, compared with an early one"
    ratio = many / few
    return Ratio(name, few, many, ratio, (ratio, ratio), 1.5)


def _of_misses(functions: str | None, misses: int) -> tuple[float, float]:
    """Seconds inside the guard for a miss, in the first fifth and in the last."""
    step: Any = jax.jit(lambda x: x * 2)
    watched: Any = watch()
    refusal = watched._refusal
    spent = [0.0]

    def timed() -> BaseException | None:
        began = thread_time()
        try:
            return refusal()
        finally:
            spent[0] += thread_time() - began

    watched._refusal = timed
    part = misses // 5
    marks: list[float] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with retrace.freeze(functions, warn=True):
                for size in range(misses):
                    if size % part == 0:
                        marks.append(spent[0])
                    step.trace(jax.ShapeDtypeStruct((size + 1,), "float32"))
                marks.append(spent[0])
    finally:
        del watched._refusal
    return (marks[1] - marks[0]) / part, (marks[-1] - marks[-2]) / part


def plugin(pairs: int) -> Ratio | None:
    """A whole pytest run over one empty test, in processor time; None if not installed."""
    if not entry_points(group="pytest11", name="retrace"):
        return None
    folder = Path(tempfile.mkdtemp())
    (folder / "test_empty.py").write_text("def test_nothing():\n    pass\n")
    run = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder), "--rootdir", str(folder)]
    here = environment()
    found = compare(
        "an empty run of pytest, compared with one with `-p no:retrace`",
        lambda: processor_seconds([*run, "-p", "no:retrace"], here),
        lambda: processor_seconds(run, here),
        pairs,
    )
    return found._replace(bound=1 + _MAX_ADDED / found.plain)

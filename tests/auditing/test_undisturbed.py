"""An audit leaves the program unchanged, whatever its functions do when traced."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import gc
import logging
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex  # pyright: ignore[reportMissingTypeStubs]
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrace
from retrace.auditing import comparison, time_limit
from retrace.jax_internals.names_hooks import DURATION_LISTENERS, EVENT_LISTENERS
from tests.auditing import writing

pytestmark = pytest.mark.drawn

x = jnp.arange(3.0)


@pytest.fixture(autouse=True)
def _earlier_programs_are_gone() -> None:  # pyright: ignore[reportUnusedFunction]
    jax.clear_caches()


def audited(make: Callable[[], Any], **options: Any) -> tuple[dict[str, str], Any]:
    """The verdicts on one program by function, and its namespace."""
    with retrace.recording():
        held = make()
        return {one.function: one.verdict for one in retrace.audit(**options)}, held


def test_values_read_at_each_trace_are_reported_as_such() -> None:
    generator = np.random.default_rng(0)
    own = random.Random(0)

    def make() -> Any:
        def by_random(x: Any) -> Any:
            return x * random.random()

        def by_numpy(x: Any) -> Any:
            return x * np.random.rand()

        def by_clock(x: Any) -> Any:
            return x * (time.perf_counter_ns() % 100_000)

        def by_generator(x: Any) -> Any:
            return x * generator.random()

        def by_own(x: Any) -> Any:
            return x * own.random()

        functions = (by_random, by_numpy, by_clock, by_generator, by_own)
        for function in functions:
            jax.jit(function)(x)
        return functions, generator.bit_generator.state, own.getstate()

    with retrace.recording():
        held = make()
        told = retrace.audit()
    assert {one.function: one.verdict for one in told} == dict.fromkeys(
        ("by_random", "by_numpy", "by_clock", "by_generator", "by_own"), "each-trace"
    )
    assert [one.reason for one in told if "test_undisturbed.py:" not in one.reason] == []
    # They continue with the next random numbers.
    assert (generator.bit_generator.state, own.getstate()) == held[1:]


def test_side_effects_are_not_repeated() -> None:
    done: list[str] = []
    numbers = iter((1.0, 2.0, 3.0))
    holder = types.SimpleNamespace(calls=0)

    def make() -> Any:
        def appends(x: Any) -> Any:
            done.append("appended")
            return x

        def consumes(x: Any) -> Any:
            return x * sum(n for _, n in zip((0,), numbers, strict=False))

        def sets(x: Any) -> Any:
            holder.calls += 1
            return x

        for function in (appends, consumes, sets):
            jax.jit(function)(x)
        return appends, consumes, sets

    verdicts, _ = audited(make)
    assert verdicts == dict.fromkeys(("appends", "consumes", "sets"), "not-checked")
    assert (done, list(numbers), holder.calls) == (["appended"], [2.0, 3.0], 1)


def test_a_function_that_is_only_looked_at_writes_nothing() -> None:
    calls: list[int] = []

    def count(x: Any) -> Any:
        return noted(x)

    def noted(x: Any) -> Any:
        calls.append(1)
        return x

    counted: Any = count
    jitted: Any = jax.jit(count)
    table = {"counted": counted}

    def apply(function: Any, x: Any) -> Any:
        return function(x)

    looking = (
        lambda x: x * 2 if callable(counted) else x,
        lambda x: x * 2 if isinstance(jitted, types.FunctionType) else x + 1,
        lambda x: x * 2 if hasattr(jitted, "lower") else x,
        lambda x: x * 2 if counted is not None else x,
        lambda x: x * 2 if jitted is counted else x + 1,
        lambda x: x * 2 if counted == jitted else x + 1,
        lambda x: x * 2 if counted else x,
        lambda x: x * 2 if counted.__name__ == "count" else x,
        lambda x: x * 2 if not jitted else x,
    )
    using = (
        lambda x: apply(counted, x),
        lambda x: (counted or jitted)(x),
        lambda x: (counted if x.ndim else jitted)(x),
        lambda x: counted(x) if counted is not None else x,
        lambda x: table["counted"](x),
        lambda x: x if callable(jitted(x)) else x + 1,
        lambda x: x if isinstance(counted(x), jax.Array) else x + 1,
        lambda x: jitted.__wrapped__(x),
        lambda x: jax.vmap(counted)(x),
    )
    with retrace.recording():
        for function in looking:
            jax.jit(function)(x)
        assert not [str(one.line) for one in retrace.audit()]
        for function in using:
            jax.jit(function)(x)
        told = retrace.audit()
    lines = {function.__code__.co_firstlineno for function in using}
    assert {one.line for one in told if "`calls`" in one.reason} >= lines, str(told)


def test_side_effects_are_recognised_however_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "folder", tmp_path)
    monkeypatch.setattr(sys, "breakpointhook", lambda: None)

    def make() -> Any:
        for function in writing.FUNCTIONS:
            jax.jit(function)(x)
        return writing.state()

    verdicts, before = audited(make)
    assert verdicts == dict.fromkeys((one.__name__ for one in writing.FUNCTIONS), "not-checked")
    assert writing.state() == before


def test_side_effects_that_were_repeated_are_reported() -> None:
    kept = {"n": 0}

    def table() -> dict[str, int]:
        return kept

    def f(x: Any) -> Any:
        table()["n"] += 1
        return x

    with retrace.recording():
        jax.jit(f)(x)
        told = retrace.audit()
    assert kept == {"n": 2}
    assert "`table`, `table.kept` and `kept['n']`" in str(told)


def test_what_caches_keep_of_a_trace_does_not_stay() -> None:
    @functools.lru_cache
    def table(n: int, scale: float) -> Any:
        return jnp.arange(n) * scale

    class Model:
        @functools.cached_property
        def w(self) -> Any:
            return jnp.ones(3)

    model, scales = Model(), [1.0]
    assert model.w is not None
    table(3, 1.0)

    def f(x: Any) -> Any:
        return x + table(3, scales[0]) * model.w

    with retrace.recording():
        jax.jit(f)(x)
        scales[0] = 2.0
        del model.w
        told = retrace.audit()
    # A value of the trace would raise here.
    np.testing.assert_array_equal(table(3, 2.0) + model.w, [1.0, 3.0, 5.0])
    assert [one.verdict for one in told] == ["proved"]
    assert "`table`" in str(told) and "`model.w`" in str(told)


def test_a_cache_that_was_emptied_is_empty_afterwards() -> None:
    rate = [1.0]

    @functools.lru_cache
    def table(n: int) -> float:
        return rate[0] * n

    class Model:
        @functools.cached_property
        def gain(self) -> float:
            return rate[0] * 2

    model = Model()

    def f(x: Any) -> Any:
        return x * table(2) * model.gain

    with retrace.recording():
        jitted = jax.jit(f)
        jitted(x)
        table.cache_clear()
        del model.gain
        told = retrace.audit()
        assert "changed" not in str(told)
        rate[0] = 5.0
        # A value of the audit's trace, made with the rate of then, would give 4.
        np.testing.assert_array_equal(jitted(jnp.ones(2)), [100.0, 100.0])


def test_a_kept_property_that_writes_is_not_computed_by_an_audit() -> None:
    made: list[int] = []

    class Model:
        @functools.cached_property
        def rate(self) -> float:
            made.append(1)
            return 2.0

    model = Model()
    with retrace.recording():
        jitted = jax.jit(lambda x: x * model.rate)
        jitted(x)
        assert not retrace.audit()
        del model.rate
        for _ in range(2):
            assert "it writes `made`" in str(retrace.audit())
        assert made == [1]
        assert "rate" not in vars(model)
    assert model.rate and made == [1, 1]


def test_what_a_trace_changed_is_not_changed_by_a_second_one() -> None:
    kept = {"n": 0}

    def table() -> dict[str, int]:
        return kept

    def f(x: Any) -> Any:
        table()["n"] += 1
        return x * kept["n"]

    with retrace.recording():
        jax.jit(f)(x)
        (told,) = retrace.audit()
    assert kept == {"n": 2}
    assert told.verdict in ("not-checked", "perhaps")


def test_what_another_thread_draws_is_not_drawn_again() -> None:
    ends, drawn = threading.Event(), list[int]()

    def draws() -> None:
        while not ends.is_set():
            drawn.append(int(np.random.randint(2**62)))
            time.sleep(0.001)

    def make(number: int) -> Any:
        def f(x: Any) -> Any:
            for _ in range(60):
                x = jnp.sin(x) * number
            return x

        return jax.jit(f)

    with retrace.recording():
        functions = [make(number) for number in range(20)]
        for function in functions:
            function(x)
        thread = threading.Thread(target=draws)
        thread.start()
        while len(drawn) < 3:
            time.sleep(0.001)
        retrace.audit()
        ends.set()
        thread.join()
    assert len(drawn) == len({*drawn}) > 10, len(drawn)


def test_generators_anywhere_continue_as_before() -> None:
    class Noise:
        def __init__(self) -> None:
            self.own = np.random.default_rng(5)

        def __call__(self) -> Any:
            return self.own.normal()

    class Base:
        rng = np.random.default_rng(1)

    class Derived(Base):
        def noise(self) -> float:
            return self.rng.normal()

    class Slots:
        __slots__ = ("rng",)

        def __init__(self) -> None:
            self.rng = np.random.default_rng(2)

    @functools.lru_cache
    def cached() -> Any:
        return np.random.default_rng(3)

    config, several = {"rng": np.random.default_rng(0)}, [random.Random(i) for i in range(2)]
    noises, slots = {"a": Noise()}, Slots()
    bound = np.random.default_rng(4)
    draw = functools.partial(bound.normal, 0)
    shown = types.MappingProxyType({"rng": np.random.default_rng(6)})
    current: contextvars.ContextVar[Any] = contextvars.ContextVar("rng")
    current.set(np.random.default_rng(7))
    given = Noise()

    def noise(settings: dict[str, Any]) -> Any:
        return settings["rng"].normal()

    def f(x: Any, given: Any) -> Any:
        other = Derived().noise() + slots.rng.normal() + draw() + cached().normal() + given()
        other += shown["rng"].normal() + current.get().normal()
        return x + noise(config) + sum(one.random() for one in several) + noises["a"]() + other

    def states() -> list[Any]:
        own = [config["rng"], noises["a"].own, Base.rng, slots.rng, bound, cached(), given.own]
        own += [shown["rng"], current.get()]
        return [*(one.bit_generator.state for one in own), *(one.getstate() for one in several)]

    with retrace.recording():
        jax.jit(f, static_argnums=1)(x, given)
        before = states()
        told = retrace.audit()
    assert states() == before
    assert [one.verdict for one in told] == ["each-trace"]


@pytest.mark.parametrize("program", writing.UNSEEN, ids=lambda one: one.__name__)
def test_effects_that_no_bytecode_shows_are_reported_and_not_repeated(
    program: writing.Make,
) -> None:
    function, count = program()
    with retrace.recording():
        jax.jit(function)(x)
        assert count() == 1
        told = retrace.audit()
        assert count() == 2 and "again changed" in str(told)
        assert "writes `" in str(retrace.audit())
    assert count() == 2


@pytest.mark.parametrize("program", writing.RUN, ids=lambda one: one.__name__)
def test_effects_of_what_ran_in_a_trace_are_not_repeated(program: writing.Make) -> None:
    function, count = program()
    with retrace.recording():
        jax.jit(function)(x)
        assert "writes `" in str(retrace.audit())
    assert count() == 1


def test_generators_that_methods_of_arguments_use_continue() -> None:
    generator = np.random.default_rng(0)

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Model:
        w: Any

        def __call__(self, x: Any) -> Any:
            return x * self.w * generator.random()

    forward = jax.jit(lambda model, x: model(x))
    with retrace.recording():
        forward(Model(x), x)
        state = generator.bit_generator.state
        told = retrace.audit()
    assert [one.verdict for one in told] == ["each-trace"]
    assert generator.bit_generator.state == state


def test_a_value_that_is_appended_is_not_what_is_written() -> None:
    log: list[float] = []
    it = types.SimpleNamespace(rate=1.0)

    def track(value: float) -> None:
        log.append(value)

    @jax.jit
    def scaled(x: Any) -> Any:
        track(it.rate)
        return x * it.rate

    with retrace.recording():
        scaled(x)
        it.rate = 2.0
        (told,) = retrace.audit()
    assert told.verdict == "perhaps" and "`log`" in told.reason and len(log) == 1


def test_what_takes_from_a_queue_is_not_traced_again() -> None:
    waiting: queue.Queue[float] = queue.Queue()
    for item in range(3):
        waiting.put(float(item))

    jitted = jax.jit(lambda x: x * waiting.get())
    with retrace.recording():
        jitted(x)
        assert [one.verdict for one in retrace.audit()] == ["not-checked"]
    assert waiting.qsize() == 2


def test_an_error_of_retrace_is_told_and_not_the_functions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    jitted = jax.jit(lambda x: x * 2)
    with retrace.recording():
        jitted(x)
        monkeypatch.setattr(comparison, "transcript", fails)
        told = retrace.audit()
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert [one.verdict for one in told] == ["not-checked"]
    assert "of retrace" in str(told) and "ZeroDivision" not in str(told)


def test_log_records_are_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("retrace.audited")
    caplog.set_level(logging.INFO, logger.name)
    holder = types.SimpleNamespace(scale=2.0)
    handle = logging.Logger.callHandlers

    def make() -> Any:
        def logs(x: Any) -> Any:
            logger.info("traced")
            return x * holder.scale

        jax.jit(logs)(x)
        holder.scale = 3.0
        return logs

    verdicts, _ = audited(make)
    assert verdicts == {"logs": "proved"}
    assert [record.message for record in caplog.records if record.name == logger.name] == [
        "traced"
    ]
    assert logging.Logger.callHandlers is handle


def test_errors_and_timeouts_are_reported() -> None:
    holder = types.SimpleNamespace(how="fine")

    def make() -> Any:
        def raises(x: Any) -> Any:
            if holder.how == "bad":
                raise ValueError
            return x

        def leaves(x: Any) -> Any:
            if holder.how == "bad":
                sys.exit(3)
            return x

        def hangs(x: Any) -> Any:
            while holder.how == "bad":
                pass
            return x

        def catches(x: Any) -> Any:
            while holder.how == "bad":
                with contextlib.suppress(BaseException):
                    time.sleep(0.01)
            return x

        def catches_by_line(x: Any) -> Any:
            while holder.how == "bad":
                try:
                    time.sleep(0.005)
                    time.sleep(0.005)
                except BaseException:  # noqa: BLE001
                    pass
            return x

        functions = (raises, leaves, hangs, catches, catches_by_line)
        for function in functions:
            jax.jit(function)(x)
        holder.how = "bad"
        return functions

    verdicts, functions = audited(make, seconds=0.5)
    assert verdicts == {one.__name__: "perhaps" for one in functions}
    assert sys.gettrace() is None


def test_nothing_is_shown_or_kept_alive(capsys: pytest.CaptureFixture[str]) -> None:
    holder = types.SimpleNamespace(weights=jnp.ones(3))
    filters = list(warnings.filters)

    @jax.jit
    def nested(x: Any) -> Any:
        return x * holder.weights

    def make() -> Any:
        def prints(x: Any) -> Any:
            print("traced")
            return nested(x)

        jax.jit(prints)(x)
        holder.weights = jnp.full(3, 2.0)
        return prints

    verdicts, prints = audited(make)
    assert verdicts == {"prints": "proved"}
    assert capsys.readouterr().out == "traced\n"
    assert list(warnings.filters) == filters
    # Neither the audit's traces nor JAX's caches keep current values alive.
    current = weakref.ref(holder.weights)
    holder.weights = None
    assert current() is None
    function = weakref.ref(prints)
    del prints
    assert function() is None


def test_what_kept_a_function_that_was_withheld_has_it_afterwards(tmp_path: Path) -> None:
    kept: list[Any] = []
    keep = kept.append

    def f(x: Any) -> Any:
        random.choice([keep])(os.truncate)  # as an import of a module may
        return x

    with retrace.recording():
        jax.jit(f)(x)
        retrace.audit(effects=False)
    assert len(kept) == 2
    for truncate in kept:
        (tmp_path / "file").write_text("all")
        truncate(tmp_path / "file", 1)
        assert (tmp_path / "file").read_text() == "a"


def test_what_computes_at_its_trace_is_not_compiled_by_an_audit() -> None:
    events: list[str] = []
    it = types.SimpleNamespace(computes=False, context=random.choice)
    listener: Any = lambda event, *_, **__: events.append(event)

    def later(audits: int) -> list[str]:
        """The events of a later call, which computes for the first time."""
        jax.clear_caches()
        it.computes = False

        @jax.jit
        def f(x: Any) -> Any:
            if it.computes:
                # As a library would enter it.
                with it.context([jax.ensure_compile_time_eval])():
                    return x * jnp.arange(7).sum()
            return x * 2

        wider = jnp.ones(4)
        with retrace.recording():
            f(x)
            it.computes = True
            events.clear()
            for _ in range(audits):
                (told,) = retrace.audit()
                assert told.verdict == "perhaps"
                assert "it calls `jax.ensure_compile_time_eval`" in told.reason
            assert events == []
            f(wider)
        return [*events]

    jax.monitoring.register_event_listener(listener)
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        assert later(audits=2) == later(audits=0) != []
    finally:
        EVENT_LISTENERS.look().remove(listener)
        DURATION_LISTENERS.look().remove(listener)


def test_limits_on_traces_count_as_before() -> None:
    limited = jax.jit(chex.assert_max_traces(lambda x: x * 2, n=2))
    with retrace.recording():
        limited(jnp.ones(3))
        retrace.audit()
        limited(jnp.ones(4))
        with pytest.raises(AssertionError):
            limited(jnp.ones(5))
    del limited
    gc.collect()  # the error holds what it was raised in


def test_a_time_limit_where_no_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> int:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    def never_ends() -> None:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(time_limit, "start_new_thread", refuses)
    before = signal.getsignal(signal.SIGALRM)
    assert time_limit.limited(5.0, lambda: 7) == 7
    with pytest.raises(time_limit.TooSlowError):
        time_limit.limited(0.05, never_ends)
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with pytest.raises(ZeroDivisionError):
        time_limit.limited(5.0, lambda: 1 / 0)


def test_several_audits_show_when_it_changed(tmp_path: Path) -> None:
    holder = types.SimpleNamespace(rate=0.5)
    step = jax.jit(lambda x: x * holder.rate)
    with retrace.recording(tmp_path):
        step(x)
        first = retrace.audit()
        retrace.audit()
        holder.rate = 0.25
        third = retrace.audit()
    assert not first, str(first)
    (found,) = third
    assert (found.since - found.before, found.reads[0]["new"]) == (1, 0.25)


def test_a_nested_function_is_traced_anew_below_every_transform() -> None:
    holder = types.SimpleNamespace(scale=2.0)

    @jax.jit
    def nested(x: Any) -> Any:
        return x * holder.scale

    def make() -> Any:
        def loops(x: Any) -> Any:
            return jax.lax.fori_loop(0, 2, lambda _, x: nested(x), x)

        def whiles(x: Any) -> Any:
            return jax.lax.while_loop(lambda x: x[0] < holder.scale, lambda x: x + 1, x)

        def maps(x: Any) -> Any:
            return jax.lax.map(nested, x)

        def switches(x: Any) -> Any:
            return jax.lax.switch(1, [lambda x: x, nested], x)

        def differs(x: Any) -> Any:
            return jax.jvp(nested, (x,), (x,))

        functions = (loops, whiles, maps, switches, differs)
        for function in functions:
            jax.jit(function)(x)
        holder.scale = 3.0
        return functions

    verdicts, functions = audited(make)
    assert verdicts == dict.fromkeys((one.__name__ for one in functions), "proved")


AFTERWARDS = """
import signal
import sys
import threading
import threading
import time
import jax
import retrace
from retrace.auditing.request import history
from retrace.auditing.time_limit import TooSlowError, limited

scale = 1.0
with retrace.recording():
    f = jax.jit(lambda x: x * scale)
    f(1.0)
    scale = 2.0
    assert [one.verdict for one in retrace.audit()] == ["proved"]


def for_ever():
    while True:
        pass


def swallowed():
    try:
        for_ever()
    except TooSlowError:
        return 1


def swallowing():
    try:
        for_ever()
    except BaseException:
        for_ever()


try:
    limited(0.05, for_ever)
except TooSlowError:
    print("given up")
print(limited(0.05, swallowed))
for seconds in (0.0, 0.00001, 0.0001, 0.001):
    for turns in (0, 100, 1000):
        try:
            limited(seconds, lambda: sum(range(turns)))
        except TooSlowError:
            pass
for wait in (lambda: time.sleep(600), threading.Event().wait, swallowing):
    try:
        limited(0.05, wait)
    except TooSlowError:
        print("woken")
sys.setprofile(lambda *arguments: None)
(lambda: None)()
sys.setprofile(None)
print("profiled")
print(signal.getsignal(signal.SIGURG) is signal.SIG_DFL)

jax.clear_caches()
waits = False


def waiting(n):
    def wait(x):
        if waits:
            time.sleep(600)
        return x + n

    return jax.jit(wait)


with retrace.recording():
    functions = [waiting(n) for n in range(5)]
    for function in functions:
        function(1.0)
    waits = True
    print(*(one.verdict for one in retrace.audit(seconds=600, total=0.5)))
    print(*(one.verdict for one in retrace.audit(seconds=0.1)))
    print(*({one.reason for one in audit.checked} for audit in history[-2:]))
"""


def test_the_interpreter_is_left_with_nothing_to_look_for() -> None:
    # Python 3.11 spins forever in a profiled call if it waits for an exception that was
    # withdrawn.
    done = subprocess.run(
        [sys.executable, "-c", AFTERWARDS],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines() == [
        *("given up", "1", "woken", "woken", "woken", "profiled", "True"),
        *("perhaps", "perhaps", "{<Reason.TIME: 'time'>} {<Reason.SLOW: 'slow'>}"),
    ], done.stderr

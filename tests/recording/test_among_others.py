"""Recording beside whatever else stands in JAX, switched on and off in any order."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import pjit, util
from jax._src.interpreters import partial_eval

import retrace
from retrace.capture.session import begin_memory, session
from retrace.model import Miss
from retrace.store.reader import read, read_lines


class Window:
    """A recording in memory that says what lies in it."""

    def __enter__(self) -> Self:
        self._writer, self._lines = begin_memory()
        return self

    def __exit__(self, *_: object) -> None:
        session().detach(self._writer)

    @property
    def misses(self) -> list[Miss]:
        recording = read_lines(self._lines.lines)
        assert recording.runs[0].losses == {}
        return [miss for miss in recording.misses if miss.function.kind != "op"]


def told(misses: list[Miss]) -> list[tuple[Any, ...]]:
    """What must not depend on who else stands in JAX."""
    return [
        (
            m.function.name,
            m.function.line,
            m.call_site and m.call_site.line,
            sorted(m.stages),
            m.inner,
        )
        for m in misses
    ]


def program() -> object:
    @jax.jit
    def inner(x: Any) -> Any:
        return jnp.where(x > 0, x, 0.0)

    @jax.jit
    def outer(x: Any) -> Any:
        return inner(x).sum()

    return float(outer(np.ones(3))), float(outer(np.ones(4)))


@pytest.fixture
def places() -> Iterator[None]:
    """Puts back what a test leaves in JAX."""
    kept = [
        (owner, name, getattr(owner, name))
        for owner, name in (
            (jax, "jit"),
            (pjit, "_cpp_pjit"),
            (pjit, "_create_pjit_jaxpr"),
            (partial_eval, "trace_to_jaxpr"),
            (util, "test_event_listener"),
        )
        if hasattr(owner, name)
    ]
    yield
    for owner, name, value in kept:
        setattr(owner, name, value)


def wrap_jit(asked: list[str]) -> None:
    original: Any = jax.jit

    @functools.wraps(original)
    def jit(fun: Any, **options: Any) -> Any:
        asked.append(fun.__name__)
        return original(fun, **options)

    jax.jit = jit


@pytest.mark.parametrize("first", ["recording", "library"])
def test_a_library_that_puts_its_own_jit_in_place(first: str, places: None) -> None:
    program()  # from here on JAX knows what it traces inside
    with Window() as alone:
        plain = program()
    asked: list[str] = []
    original = jax.jit
    if first == "library":
        wrap_jit(asked)
    with Window() as beside:
        if first == "recording":
            wrap_jit(asked)
        assert program() == plain
        if first == "library":
            jax.jit = original
    program()
    assert asked == ["inner", "outer"] * (2 if first == "recording" else 1)
    assert told(beside.misses) == told(alone.misses) and len(alone.misses) == 4


class Around:
    """What another tool puts around a function inside JAX."""

    def __init__(self, function: Any, calls: list[str]) -> None:
        self._function = function
        self._calls = calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._calls.append("call")
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def test_who_wraps_what_we_wrapped_keeps_it_and_we_are_heard_once(places: None) -> None:
    program()
    with Window() as alone:
        program()
    calls: list[str] = []
    with Window() as first:
        for owner, name in (
            (pjit, "_cpp_pjit"),
            (pjit, "_create_pjit_jaxpr"),
            (partial_eval, "trace_to_jaxpr"),
        ):
            if hasattr(getattr(owner, name, None), "evict_weakref") or name == "_cpp_pjit":
                setattr(owner, name, Around(getattr(owner, name), calls))
        ours = util.test_event_listener

        def theirs(name: str, *args: Any) -> None:
            calls.append("event")
            if ours is not None:
                ours(name, *args)

        util.test_event_listener = theirs
        program()
    between = len(calls)
    program()
    assert between and len(calls) > between
    assert isinstance(pjit._cpp_pjit, Around) and util.test_event_listener is theirs
    assert not session()._hooks.installed
    with Window() as second:
        program()
    assert told(first.misses) == told(second.misses) == told(alone.misses)


def test_other_listeners_stay_and_hear_the_same() -> None:
    heard: list[str] = []

    def on_event(event: str, **_: Any) -> None:
        heard.append(event)

    def on_duration(event: str, duration_secs: float, **_: Any) -> None:
        heard.append(event)

    def leaves(event: str, duration_secs: float, **_: Any) -> None:
        heard.append("last")
        _unregister(leaves)

    def listened(run: Callable[[], object]) -> list[str]:
        heard.clear()
        run()
        return list(heard)

    jax.monitoring.register_event_listener(on_event)
    jax.monitoring.register_event_duration_secs_listener(on_duration)
    try:
        plain = listened(program)
        with Window() as window:
            assert listened(program) == plain
            jax.monitoring.register_event_duration_secs_listener(leaves)
            assert listened(program).count("last") == 1
        assert listened(program) == plain and len(plain) > 6
        assert len(window.misses) == 8
    finally:
        _unregister(on_duration)
        from jax._src import monitoring

        monitoring._event_listeners.remove(on_event)


def _unregister(listener: Any) -> None:
    from jax._src import monitoring

    monitoring._event_duration_secs_listeners.remove(listener)


ORDERS = {
    "first in, first out": ["+a", "call", "+b", "call", "-a", "call", "-b", "call"],
    "installed inside a window": ["+a", "+i", "call", "-a", "call", "-i", "call", "-i"],
    "a window across the end": ["+i", "+i", "call", "+a", "-i", "call", "-a", "call", "-i"],
    "again and again": ["+i", "call", "-i", "call", "+a", "call", "-a", "+b", "-b", "call"],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=list(ORDERS))
def test_switched_on_and_off_in_any_order(order: list[str], tmp_path: Path) -> None:
    traced: list[int] = []

    @jax.jit
    def step(x: Any) -> Any:
        traced.append(x.shape[0])
        return x + 1

    step(np.ones(100))  # jitted and called before anything is recorded
    on: dict[str, list[int]] = {}
    expected: dict[str, list[int]] = {"a": [], "b": [], "i": []}
    windows: dict[str, retrace.recording] = {}
    size = 1
    for what in order:
        if what == "call":
            size += 1
            step(np.ones(size))
            step(np.ones(size))
            step(np.ones(100))
            for name in on:
                expected[name].append(size)
        elif what == "+i":
            retrace.install(tmp_path / "installed")
            on["i"] = []
        elif what == "-i":
            retrace.uninstall()
            on.pop("i", None)
        elif what[0] == "+":
            windows[what[1]] = retrace.recording().__enter__()
            on[what[1]] = []
        else:
            windows[what[1]].__exit__(None, None, None)
            del on[what[1]]
    found = {
        name: [m["key"]["leaves"][0]["shape"][0] for m in w.misses] for name, w in windows.items()
    }
    if expected["i"]:
        recording = read([tmp_path / "installed"])
        assert recording.runs[0].losses == {} and recording.runs[0].complete
        found["i"] = [miss.key.leaves[0].shape[0] for miss in recording.misses]
    assert found == {name: sizes for name, sizes in expected.items() if sizes or name in windows}
    # Neither the begin nor the end of a recording makes JAX trace again.
    assert traced == [100, *range(2, size + 1)]


def test_what_was_recorded_dies_when_the_recording_is_over_and_before() -> None:
    gc.disable()
    try:
        with ExitStack() as stack:
            arrays: list[weakref.ref[Any]] = []
            for recorded in (False, True):
                if recorded:
                    stack.enter_context(retrace.recording())
                array = np.ones(1000)
                arrays.append(weakref.ref(array))
                jitted: Any = jax.jit(functools.partial(lambda array, x: array + x, array))
                del array
                jitted(1.0)
                if recorded:
                    stack.close()
                del jitted
                assert arrays[-1]() is None
    finally:
        gc.enable()

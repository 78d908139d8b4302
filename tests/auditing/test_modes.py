"""Modes that context managers set around calls, told apart from what has really changed."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Generator, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import retrace

pytestmark = pytest.mark.drawn

x = jnp.arange(3.0)
local = threading.local()
table = types.SimpleNamespace(eps=1.0)


@contextlib.contextmanager
def temporarily(it: Any, name: str, value: Any) -> Generator[None]:
    before = getattr(it, name)
    setattr(it, name, value)
    try:
        yield
    finally:
        setattr(it, name, before)


@contextlib.contextmanager
def at_rate(rate: float) -> Generator[None]:
    before, local.rate = local.rate, rate
    try:
        yield
    finally:
        local.rate = before


class Settings:
    def __init__(self) -> None:
        self.eps = 1.0

    @contextlib.contextmanager
    def override(self, name: str, value: float) -> Generator[None]:
        before = getattr(self, name)
        setattr(self, name, value)
        try:
            yield
        finally:
            setattr(self, name, before)


LIMIT = 1.0


@pytest.fixture(autouse=True)
def _programs_are_cold() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    jax.clear_caches()
    yield
    jax.clear_caches()


def test_what_writes_any_attribute_of_anything_makes_it_perhaps() -> None:
    f = jax.jit(lambda x: x * table.eps)
    with retrace.recording():
        f(x)
        table.eps = 2.0
        (told,) = retrace.audit()
    assert told.verdict == "perhaps" and "`table.eps`" in told.reason
    assert [(one["name"], one["old"], one["new"]) for one in told.reads] == [
        ("table.eps", 1.0, 2.0)
    ]


def test_what_no_attribute_holds_is_proved_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    f = jax.jit(lambda x: x * LIMIT)
    with retrace.recording():
        f(x)
        monkeypatch.setitem(globals(), "LIMIT", 2.0)
        assert [one.verdict for one in retrace.audit()] == ["proved"]


def test_what_changed_beside_a_mode_of_a_thread_is_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local.rate = 1.0
    f = jax.jit(lambda x: x * LIMIT * local.rate)
    with retrace.recording():
        f(x)
        monkeypatch.setitem(globals(), "LIMIT", 2.0)
        assert [one.verdict for one in retrace.audit()] == ["proved"]


class Level:
    """Counts how often one is created and entered."""

    current, made = 1.0, 0

    def __init__(self, value: float) -> None:
        Level.made += 1
        self.value = value

    def __enter__(self) -> None:
        self.before, Level.current = Level.current, self.value

    def __exit__(self, *_: object) -> None:
        Level.current = self.before

    def scaled(self, x: Any) -> Any:
        return x * self.value


def make_level() -> Level:
    return Level(2.0)


def in_level(level: Level, x: Any) -> Any:
    with level:
        return x * Level.current


low = Level(2.0)
numbers: Any = iter(range(9))


def reads_the_class(x: Any) -> Any:
    with jax.named_scope("read"):
        return x * Level.current


def looks_at_the_class(x: Any) -> Any:
    return x * 2 if callable(Level) and not isinstance(x, Level) else x


def calls_a_method(x: Any) -> Any:
    return low.scaled(x)


def looks_at_an_iterator(x: Any) -> Any:
    return x * 3 if numbers is not None else x


READING = (reads_the_class, looks_at_the_class, calls_a_method, looks_at_an_iterator)


def enters_a_new_one(x: Any) -> Any:
    with Level(3.0):
        return x * Level.current


def enters_a_known_one(x: Any) -> Any:
    with low:
        return x * Level.current


def enters_one_of_two(x: Any) -> Any:
    with low if x.ndim else contextlib.nullcontext():
        return x * Level.current


def enters_what_a_helper_makes(x: Any) -> Any:
    with make_level():
        return x * Level.current


def enters_by_a_variable(x: Any) -> Any:
    level = Level(3.0)
    with level:
        return x * Level.current


def has_a_helper_enter_it(x: Any) -> Any:
    return in_level(low, x)


def enters_by_a_stack(x: Any) -> Any:
    with contextlib.ExitStack() as stack:
        stack.enter_context(low)
        return x * Level.current


def creates_one(x: Any) -> Any:
    return x * Level(3.0).value


ENTERING = (
    *(enters_a_new_one, enters_a_known_one, enters_one_of_two, enters_what_a_helper_makes),
    *(enters_by_a_variable, has_a_helper_enter_it, enters_by_a_stack, creates_one),
)


def test_what_is_only_read_of_a_class_that_is_entered_is_no_effect() -> None:
    with retrace.recording():
        for function in READING:
            jax.jit(function)(x)
        assert not [one.function for one in retrace.audit()]
        Level.current = 7.0
        try:
            (told,) = retrace.audit()
        finally:
            Level.current = 1.0
    assert (told.function, told.verdict) == ("reads_the_class", "not-checked")
    assert "it reads `Level.current`" in told.reason


def test_what_is_entered_or_created_is_not_traced_again() -> None:
    with retrace.recording():
        for function in ENTERING:
            jax.jit(function)(x)
        made = Level.made
        told = {one.function: one.reason for one in retrace.audit()}
    assert told.keys() == {one.__name__ for one in ENTERING}
    assert {reason.partition(",")[0] for reason in told.values()} <= {
        "it writes `Level.made`",
        "it writes `Level.current`",
        "it writes `self.before`",
    }
    assert Level.made == made

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

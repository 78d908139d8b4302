"""Recording from inside a program."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import numpy as np
import pytest

import retrace
from retrace.errors import UsageError


def test_a_window_sees_what_happens_in_it_alone() -> None:
    before: Any = jax.jit(lambda x: x + 1)
    before(np.ones(2))
    with retrace.recording() as outer:
        before(np.ones(2))
        with retrace.recording() as inner:
            before(np.ones(3))
        before(np.ones(4))
    assert [miss.function.name for miss in inner.misses if miss.parent is None] == ["<lambda>"]
    assert len([miss for miss in outer.misses if miss.parent is None]) == 2
    (miss,) = inner.misses
    assert miss["cause"] == miss.cause == "first-trace"
    assert "first time" in str(miss)


def test_a_window_tells_what_it_holds() -> None:
    with retrace.recording() as window:
        jax.jit(lambda x: x + 1)(1.0)
        assert repr(window).startswith("<retrace.recording: 1 miss, ")
        assert repr(window).endswith(", still on>")
    assert repr(window).endswith("; none clearly avoidable>")
    assert repr(retrace.recording()) == "<retrace.recording, not started>"


def test_a_window_is_not_entered_twice_at_once() -> None:
    window = retrace.recording()
    with window, pytest.raises(UsageError, match="already recording"), window:
        pass
    with window:
        jax.jit(lambda x: x * 3)(np.ones(2))
    assert len(window.misses) == 1


def test_a_decorated_function_is_a_window() -> None:
    @retrace.recording()
    def work() -> float:
        return float(jax.jit(lambda x: x.sum())(np.ones(2)))

    assert work() == 2.0


def test_a_miss_survives_pickling() -> None:
    with retrace.recording() as recorded:
        jax.jit(lambda x: x + 1)(np.ones(2))
    (miss,) = recorded.misses
    copy = pickle.loads(pickle.dumps(miss))
    assert str(copy) == str(miss) and dict(copy) == dict(miss)
    assert copy._repr_html_() == miss._repr_html_()  # pyright: ignore[reportPrivateUsage]

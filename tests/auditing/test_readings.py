"""What an audit says that a stale function had read, and what that is now."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import retrace

pytestmark = pytest.mark.drawn

x = jnp.arange(3.0)
thing: Any = None
name = "rate"


class Model:
    """What its objects do not set themselves is the same for all."""

    rate: Any = 0.1

    def act(self, x: Any) -> Any:
        return x * 2


model: Any = Model()


def get() -> Any:
    return model


@pytest.fixture(autouse=True)
def _all_is_as_before() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    jax.clear_caches()
    yield
    vars(model).clear()
    Model.rate = 0.1
    jax.clear_caches()


def read_by(function: Any, change: Any) -> dict[str, tuple[Any, Any]]:
    """What a function that is out of date after a change had read, and what that is now."""
    with retrace.recording():
        jax.jit(function)(x)
        change()
        (told,) = retrace.audit()
    assert told.verdict == "proved"
    return {one["name"]: (one["old"], one["new"]) for one in told.reads}


def _of_thing(x: Any) -> Any:
    return thing(x) if callable(thing) else x * (thing if type(thing) is float else 7)


def _set_thing(value: Any) -> None:
    globals()["thing"] = value


def _named(name: str, function: Any) -> Any:
    function.__name__ = name
    return function


def test_what_is_a_function_of_that_name_now_is_not_gone() -> None:
    for before in (lambda x: x * 40, 3.0):
        _set_thing(before)
        after = _named("thing", lambda x: x * 4)
        ((was, now),) = read_by(_of_thing, lambda after=after: _set_thing(after)).values()
        assert "thing at test_readings.py" in str(now), (was, now)


def test_what_is_a_module_now_is_not_gone() -> None:
    _set_thing(3.0)
    ((was, now),) = read_by(_of_thing, lambda: _set_thing(math)).values()
    assert (was, now) == (3.0, "<module 'math'>")


def test_what_is_a_method_now_is_not_gone() -> None:
    model.act = lambda x: x * 3
    found = read_by(lambda x: model.act(x), lambda: vars(model).clear())
    assert "act at test_readings.py" in str(found["model.act"][1])


def test_what_is_a_property_now_is_not_gone() -> None:
    model.rate = 3.0
    by_property = property(_named("rate", lambda self: 4.0))
    found = read_by(lambda x: x * model.rate, lambda: setattr(Model, "rate", by_property))
    assert found["model.rate"][0] == 3.0
    assert "rate at test_readings.py" in str(found["model.rate"][1])


def test_what_is_gone_is_gone() -> None:
    model.extra = 3.0
    found = read_by(
        lambda x: x * (model.extra if hasattr(model, "extra") else 1.0),
        lambda: vars(model).clear(),
    )
    assert found == {"model.extra": (3.0, None)}


@pytest.mark.parametrize(
    "function",
    [lambda x: x * get().rate, lambda x: x * getattr(model, name), lambda x: x * model.rate],
    ids=["by_a_helper", "by_a_name", "as_it_is"],
)
def test_what_only_the_class_set_was_set(function: Any) -> None:
    assert read_by(function, lambda: setattr(model, "rate", 0.5)) == {"model.rate": (0.1, 0.5)}
    found = read_by(lambda x: function(x) + 0, lambda: vars(model).clear())
    assert found.pop("model.rate") == (0.5, 0.1)


def test_what_is_set_to_what_the_class_has_has_not_changed() -> None:
    with retrace.recording():
        jax.jit(lambda x: x * get().rate)(x)
        model.rate = 0.1
        told = retrace.audit()
    assert not told and "unchanged" not in str(told)

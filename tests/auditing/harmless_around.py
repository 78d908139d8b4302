"""Programs whose functions are only called inside a context manager: a program as in `harmless`.

An audit that comes later finds set back what it sets.
"""

# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
import types
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from tests.auditing.stale import Program

PROGRAMS: list[Program] = []
x = jnp.arange(3.0)


def harmless(program: Program) -> Program:
    PROGRAMS.append(program)
    return program


class Settings:
    """Each of its context managers sets attributes whose names are no literals."""

    rate = 1.0

    def __init__(self) -> None:
        self.eps = 1.0

    @contextlib.contextmanager
    def override(self, **given: float) -> Iterator[None]:
        before = {name: getattr(self, name) for name in given}
        for name, value in given.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


class Updated:
    def __init__(self) -> None:
        self.eps = 1.0

    @contextlib.contextmanager
    def override(self, **given: float) -> Iterator[None]:
        before = dict(vars(self))
        vars(self).update(given)
        try:
            yield
        finally:
            self.__dict__.update(before)


class Entered:
    def __init__(self) -> None:
        self.eps, self.given, self.before = 1.0, {}, {}

    def __call__(self, **given: float) -> Entered:
        self.given = given
        return self

    def __enter__(self) -> None:
        self.before = dict(self.__dict__)
        for name in self.given:
            setattr(self, name, self.given[name])

    def __exit__(self, *_: object) -> None:
        self.__dict__ = self.before


class OfItsClass:
    eps = 1.0

    @classmethod
    @contextlib.contextmanager
    def override(cls, **given: float) -> Iterator[None]:
        before = {name: getattr(cls, name) for name in given}
        for name, value in given.items():
            setattr(cls, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(cls, name, value)


def _around_calls(settings: Any) -> Iterator[Any]:
    f = jax.jit(lambda x: x * settings.eps)

    def call() -> Any:
        with settings.override(eps=3.0):
            return f(x)

    yield call


@harmless
def an_attribute_by_any_name() -> Iterator[Any]:
    yield from _around_calls(Settings())


@harmless
def attributes_that_are_updated() -> Iterator[Any]:
    yield from _around_calls(Updated())


@harmless
def an_attribute_of_a_class_by_any_name() -> Iterator[Any]:
    yield from _around_calls(OfItsClass)


@harmless
def attributes_of_what_is_entered() -> Iterator[Any]:
    settings = Entered()
    f = jax.jit(lambda x: x * settings.eps)

    def call() -> Any:
        with settings(eps=3.0):
            return f(x)

    yield call


class DefaultDtype:
    current: Any = jnp.float32

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __enter__(self) -> None:
        self.before, DefaultDtype.current = DefaultDtype.current, self.dtype

    def __exit__(self, *_: object) -> None:
        DefaultDtype.current = self.before


def _of_the_default(x: Any) -> Any:
    with jax.named_scope("cast"):
        return x.astype(DefaultDtype.current)


@harmless
def an_attribute_of_a_class_that_is_entered() -> Iterator[Any]:
    f = jax.jit(_of_the_default)

    def call() -> Any:
        with DefaultDtype(jnp.float16):
            return f(x)

    yield call


@harmless
def an_attribute_of_what_an_object_holds() -> Iterator[Any]:
    model = types.SimpleNamespace(settings=Settings())
    f = jax.jit(lambda x: x * model.settings.eps)

    def call() -> Any:
        with model.settings.override(eps=3.0):
            return f(x)

    yield call


@harmless
def an_attribute_of_the_object_of_a_method() -> Iterator[Any]:
    class Model(Settings):
        def step(self, x: Any) -> Any:
            return x * self.eps

    model = Model()
    f = jax.jit(model.step)

    def call() -> Any:
        with model.override(eps=3.0):
            return f(x)

    yield call


@harmless
def an_attribute_of_a_static_argument() -> Iterator[Any]:
    class Model(Settings):
        @functools.partial(jax.jit, static_argnums=0)
        def step(self, x: Any) -> Any:
            return x * self.eps

    model = Model()

    def call() -> Any:
        with model.override(eps=3.0):
            return model.step(x)

    yield call


shared = Settings()


@contextlib.contextmanager
def shared_with(name: str, value: float) -> Iterator[None]:
    before = getattr(shared, name)
    setattr(shared, name, value)
    try:
        yield
    finally:
        setattr(shared, name, before)


@harmless
def an_attribute_of_an_object_with_another_name() -> Iterator[Any]:
    settings = shared
    f = jax.jit(lambda x: x * settings.eps)

    def call() -> Any:
        with shared_with("eps", 3.0):
            return f(x)

    yield call


local, other = threading.local(), threading.local()
other.rates = [1.0]
policy: contextvars.ContextVar[float] = contextvars.ContextVar("policy")
policy.set(1.0)


@contextlib.contextmanager
def set_in_this_thread(value: float) -> Iterator[None]:
    local.rate = value
    token = policy.set(value)
    other.rates.append(value)
    try:
        yield
    finally:
        del local.rate
        other.rates.pop()
        policy.reset(token)


def _of_this_thread(x: Any) -> Any:
    return x * getattr(local, "rate", 1.0)


def _of_a_stack_of_this_thread(x: Any) -> Any:
    return x * other.rates[-1]


def _of_this_context(x: Any) -> Any:
    return x * policy.get()


def _in_this_thread(function: Any) -> Iterator[Any]:
    f = jax.jit(function)

    def call() -> Any:
        with set_in_this_thread(3.0):
            return f(x)

    yield call


@harmless
def an_attribute_of_a_thread() -> Iterator[Any]:
    yield from _in_this_thread(_of_this_thread)


@harmless
def a_stack_of_a_thread() -> Iterator[Any]:
    yield from _in_this_thread(_of_a_stack_of_this_thread)


@harmless
def a_context_variable_that_is_set_outside_too() -> Iterator[Any]:
    yield from _in_this_thread(_of_this_context)


class OfAThread(threading.local):
    rate = 1.0

    @contextlib.contextmanager
    def at(self, rate: float) -> Iterator[None]:
        before, self.rate = self.rate, rate
        try:
            yield
        finally:
            self.rate = before


@harmless
def an_attribute_of_a_class_of_threads() -> Iterator[Any]:
    rates = OfAThread()
    f = jax.jit(lambda x: x * rates.rate)

    def call() -> Any:
        with rates.at(3.0):
            return f(x)

    yield call

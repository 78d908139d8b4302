"""Advice on programs that are out of date is applied automatically, and helps."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import ast
import functools
import inspect
import math
import os
import types
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import retrace
from retrace.auditing.examination import Limits
from retrace.auditing.request import audit
from retrace.capture.session import session
from retrace.inside.stale import concluded_of
from retrace.reason.stale import Change, Stale
from tests.auditing import stale
from tests.auditing.stale import Program

pytestmark = pytest.mark.drawn


class Slot(NamedTuple):
    """The place of a value that a function reads."""

    get: Callable[[], Any]
    put: Callable[[Any], None]


def slot(
    name: str, functions: list[tuple[Any, Any]], subject: Any, static: dict[str, Any]
) -> Slot:
    """The place that a name refers to in a function; raises if there is none."""
    tree = ast.parse(name, mode="eval").body
    if isinstance(tree, ast.Name):
        if tree.id in static:
            return Slot(lambda: static[tree.id], lambda new: pytest.fail("no place"))
        return _variable(tree.id, functions, subject)
    assert isinstance(tree, ast.Attribute | ast.Subscript), name
    holder = slot(ast.unparse(tree.value), functions, subject, static).get()
    if isinstance(tree, ast.Attribute):
        field = tree.attr
        return Slot(lambda: getattr(holder, field), lambda new: setattr(holder, field, new))
    key = ast.literal_eval(tree.slice)
    return Slot(lambda: holder[key], lambda new: holder.__setitem__(key, new))


def _variable(name: str, functions: list[tuple[Any, Any]], subject: Any) -> Slot:
    if isinstance(subject, functools.partial):
        bound = inspect.signature(subject.func).bind_partial(*subject.args, **subject.keywords)
        if name in bound.arguments:
            value = bound.arguments[name]
            return Slot(lambda: value, lambda new: pytest.fail("a partial cannot be changed"))
    for function, receiver in functions:
        code = function.__code__
        if name == "self" and receiver is not None:
            return Slot(lambda: receiver, lambda new: pytest.fail("no place"))
        if name in code.co_freevars:
            cell = function.__closure__[code.co_freevars.index(name)]
            return Slot(
                lambda: cell.cell_contents, lambda new: setattr(cell, "cell_contents", new)
            )
        names = function.__globals__
        if name in code.co_names and name in names:
            return Slot(lambda: names[name], lambda new: names.__setitem__(name, new))
    raise LookupError(f"{name} is nothing that the function could be given")


@contextmanager
def placed(slots: list[Slot], values: tuple[Any, ...]) -> Generator[None]:
    before = [each.get() for each in slots]
    for each, value in zip(slots, values, strict=True):
        each.put(value)
    try:
        yield
    finally:
        for each, value in zip(slots, before, strict=True):
            each.put(value)


def result(call: Callable[[], Any]) -> Any:
    return jax.tree.map(np.asarray, call())


def same(one: Any, other: Any) -> bool:
    """Whether two results are the same up to the order of their operations."""
    ours, theirs = jax.tree.leaves(one), jax.tree.leaves(other)
    return jax.tree.structure(one) == jax.tree.structure(other) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-6)
        for a, b in zip(ours, theirs, strict=True)
    )


class Advised(NamedTuple):
    """A program that is out of date, and the advice on it."""

    call: Callable[[], Any]
    first: Any
    stale: Stale
    subject: Any
    functions: list[Any]
    static: dict[str, Any]


def advised(program: Program) -> Advised:
    jax.clear_caches()
    with retrace.recording():
        generator = program()
        call = next(generator)
        first = result(call)
        next(generator, None)
        found = audit(Limits())
        assert found is not None
        _, concluded = concluded_of(found)
        (one,) = [each for each in concluded.stale if each.verdict == "proved"]
        misses = session().recorder.misses
        kept = dict(misses.kept.programs())[one.miss.number]
        subject = None if kept.subject is None else kept.subject()
        static = {each.name: each.object() for each in kept.static}
        return Advised(call, first, one, subject, misses.functions_of(subject), static)


class Followed(NamedTuple):
    """The result of applying the advice to a program."""

    how: str
    differs: bool
    """Whether the current program gives a different result; some do not for these arguments."""


def follows(program: Program) -> Followed:
    """Apply the advice to a program; raises if it did not help."""
    call, first, one, subject, functions, static_objects = advised(program)
    assert same(result(call), first), "it was out of date"
    fix = one.fix
    assert fix is not None
    if fix.how == "again":
        jax.clear_caches()
        return Followed(fix.how, not same(result(call), first))
    changes = {change.name: change for change in one.reads}
    slots = [slot(name, functions, subject, static_objects) for name in fix.names]
    traces = 0

    def edited(*values: Any) -> Any:
        nonlocal traces
        traces += 1
        # Run as Python, so that the argument replaces the value that was read.
        with placed(slots, values), jax.disable_jit():
            return call()

    static = tuple(range(len(slots))) if fix.how == "static" else ()
    jitted = jax.jit(edited, static_argnums=static)
    now = tuple(each.get() for each in slots)
    after = result(lambda: jitted(*now))
    then = [old(changes[name]) for name in fix.names]
    if None not in then:
        assert same(result(lambda: jitted(*then)), first)
        # A value passed as an array costs no further trace.
        is_scalar = all(type(value) in (int, float) for value in then)
        assert traces == 1 or fix.how == "static" or not is_scalar
    jax.clear_caches()
    today = result(call)
    assert same(after, today)
    return Followed(fix.how, not same(today, first))


def old(change: Change) -> Any:
    """The earlier value, if it was recorded."""
    return change.old if type(change.old) in (bool, int, float, list) else None


def test_advice_helps() -> None:
    # One sets what it reads at each call, and an nnx module cannot be called within a foreign
    # trace: advice on these cannot be applied from outside.
    others = (stale.a_context_manager_of_the_user, stale.what_nnx_jit_reads)
    programs = [one for one in stale.PROGRAMS if one not in others]
    followed = {program.__name__: follows(program) for program in programs}
    hows = {name: one.how for name, one in followed.items()}
    assert set(hows.values()) == {"argument", "static", "again"}
    assert sum(one.differs for one in followed.values()) >= 36
    assert hows["a_device_array"] == hows["a_numpy_buffer_changed_in_place"] == "argument"
    assert hows["a_flag"] == hows["a_number_of_layers"] == "static"
    assert hows["a_list_that_grew"] == "argument"
    assert hows["a_property"] == hows["a_static_object"] == "argument"


def _a_schedule() -> Iterator[Any]:
    held = types.SimpleNamespace(rate=0.1)
    optimizer = optax.adam(lambda count: held.rate)
    state = optimizer.init(stale.x)
    f = jax.jit(optimizer.update)
    yield lambda: f(stale.x, state)
    held.rate = 0.5


def _not_a_number() -> Iterator[Any]:
    held = types.SimpleNamespace(fill=1.0)
    f = jax.jit(lambda x: x + held.fill)
    yield lambda: f(stale.x)
    held.fill = float("nan")


def _changing(expression: str, then: dict[str, Any], now: dict[str, Any]) -> Program:
    """A function of this expression, with other values when it is called again."""

    def program() -> Iterator[Any]:
        names: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np, "math": math, "os": os} | then
        code = f"def scaled(w, by): return w * by\ndef f(w): return {expression}"
        exec(compile(code, __file__, "exec"), names)
        f = jax.jit(names["f"])
        yield lambda: f(stale.x)
        names.update(now)

    return program


def _of(expression: str) -> Program:
    then = {"k": 4.0, "lr": 0.5, "box": {"k": 4.0}, "name": "sgd"}
    now = {"k": 9.0, "lr": 0.25, "box": {"k": 9.0}, "name": "adam"}
    return _changing(expression, then, now)


AS_IT_IS = (
    *("w * k", "w / k", "w ** k", "w * -k", "jnp.maximum(w, k)", "scaled(w, k)"),
    *("scaled(by=k, w=w)", "w * jnp.float32(k)", "w * box['k']"),
)
BY_PYTHON = (
    *("w * math.sqrt(k)", "w * np.sqrt(k)", "w * max(k, 1.0)", "w * min([k, 99.0])"),
    *("w * (k if k > 0 else 1.0)", "w * (k or 2.0)", "w * (not k - 9.0)", "w * (k == 9.0)"),
    *("w * int(k)", "w * float(k)", "w + np.full(3, k)", "w * np.float32(k)"),
    *(
        "w * (1.0 + (k in (9.0, 10.0)))",
        "w * {4.0: 1.0, 9.0: 2.0}[k]",
        "w * len(f'{k:.0f}' * int(k))",
    ),
    *("w * (k if isinstance(k, float) else 0.0)", "scaled(w, math.sqrt(k))", "w[: int(k) - 3]"),
)


def test_only_what_jax_gets_unchanged_is_passed_as_an_argument() -> None:
    for how, expressions in (("argument", AS_IT_IS), ("static", BY_PYTHON)):
        for expression in expressions:
            followed = follows(_of(expression))
            assert (followed.how, followed.differs) == (how, True), expression


def test_all_that_changed_the_program_is_passed() -> None:
    both = _of("w * lr + (1.0 if name == 'sgd' else 2.0)")
    several = advised(both).stale
    assert several.fix is not None
    assert (several.fix.how, set(several.fix.names)) == ("static", {"lr", "name"})
    follows(both)
    # What else changed is not recorded: passing the number alone would leave it as it was.

    def beside() -> Iterator[Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BESIDE", "1.0")
            changing = _of("w * lr * float(os.environ['BESIDE'])")()
            yield next(changing)
            patch.setenv("BESIDE", "4.0")
            next(changing, None)
            yield

    fix = advised(beside).stale.fix
    assert fix is not None
    assert fix.how == "again"


def test_of_a_static_self_only_what_is_read_is_told() -> None:
    class Rated:
        rate = 0.5

    class Trainer(Rated):
        def __init__(self) -> None:
            self._gain = 2.0
            self.steps = 0
            self.losses: list[float] = []

        @functools.partial(jax.jit, static_argnums=0)
        def step(self, x: Any) -> Any:
            return x * self._gain * self.rate + self._shifted(x)

        def _shifted(self, x: Any) -> Any:
            return x + self._gain

    def program() -> Iterator[Any]:
        trainer = Trainer()
        yield lambda: trainer.step(stale.x)
        vars(trainer)["_gain"] = 3.0
        trainer.steps, trainer.losses = 1, [0.5]

    one = advised(program).stale
    assert [(change.name, change.old, change.new) for change in one.reads] == [
        ("self._gain", 2.0, 3.0)
    ]
    assert one.fix is not None
    assert (one.fix.how, one.fix.names) == ("argument", ("self._gain",))


def _another_order() -> Iterator[Any]:
    held = {"a": 1.0, "b": 2.0}

    @jax.jit
    def f(x: Any) -> Any:
        for value in held.values():
            x = x * value + value
        return x

    yield lambda: f(stale.x)
    held["a"] = held.pop("a")


def test_impossible_advice_is_not_given() -> None:
    # optax calls the schedule with a count only. A NaN as a static argument never equals
    # itself: each call would be traced. JAX sorts the keys of a dict that is passed.
    programs = (_a_schedule, _not_a_number, _another_order)
    found = [advised(program).stale for program in programs]
    assert [one.fix and one.fix.how for one in found] == ["again", "argument", "again"]
    named = np.zeros(3, [("a", np.float32)])
    others = {
        # Python looks at the whole list, and NumPy's array holds a size.
        "w * sum(k)": ([1.0, 2.0], [1.0, 7.0], "again"),
        "w + jnp.zeros(k)": (np.array([3]), np.array([1]), "again"),
        # No array of JAX has named items, and an exponent may be a parameter.
        "w * k['a']": (named, np.ones_like(named), "again"),
        "jax.lax.integer_pow(w, k)": (2, 3, "static"),
    }
    for expression, (then, now, how) in others.items():
        one = advised(_changing(expression, {"k": then}, {"k": now})).stale
        assert (expression, one.fix and one.fix.how) == (expression, how)

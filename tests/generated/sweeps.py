"""Sweeps over several settings at once: one decides the program, the others are only numbers."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from retrace.model.advice import (
    Advice,
    JitAndPass,
    JitOnce,
    LeaveOutValue,
    PassDecision,
    ToArgument,
)
from tests.generated.case import Case, Edit, Program, family

x = np.linspace(0.5, 2.0, 4, dtype=np.float32)


class Setting(NamedTuple):
    """One iteration of a sweep."""

    mode: str
    a: float
    b: float


_LARGE = 2.0


def _way(use: str, one: Setting) -> Any:
    """Everything that decides the program of an iteration."""
    by_mode = one.mode if use in ("mode", "both") else None
    return by_mode, one.a >= _LARGE if use in ("a", "both") else None


def _computed(way: Any, x: Any, a: Any, b: Any) -> Any:
    by_mode, is_large = way
    y = jnp.sin(x) if by_mode == "sin" else x
    y = y + 1 if is_large else y
    return y * a - b


def _plain(use: str, x: Any, mode: str, a: Any, b: Any) -> Any:
    """As written by the user: it asks for what it needs."""
    y = jnp.sin(x) if use in ("mode", "both") and mode == "sin" else x
    if use in ("a", "both"):
        y = y + 1 if a >= _LARGE else y
    return y * a - b


def _drawn(rng: Random) -> tuple[str, list[Setting]]:
    modes = rng.sample(("sin", "plain"), rng.randint(1, 2))
    firsts = rng.sample((0.5, 1.5, 2.5, 3.5), rng.randint(1, 3))
    seconds = rng.sample((0.25, 0.75), rng.randint(1, 2))
    found = [Setting(*one) for one in product(modes, firsts, seconds)]
    way = rng.choice(("all", "shuffled", "some"))
    if way != "all":
        rng.shuffle(found)
    if way == "some":
        found = found[: rng.randint(1, len(found))]
    return rng.choice(("mode", "a", "both", "none")), found


def _rounds(jitted: Any, rounds: Sequence[dict[str, Any]]) -> Program:
    return lambda: [jitted(x, **one) for one in rounds]


def _followed(
    use: str, kept: dict[str, Any], static: list[str], rounds: list[dict[str, Any]]
) -> Program:
    """Some settings as arguments; an `if` on a traced one stays outside."""

    def step(x: Any, decided: Any, **settings: Any) -> Any:
        own = {**kept, **settings}
        way = _way(use, Setting(**own)) if decided is None else decided
        return _computed(way, x, own["a"], own["b"])

    def outside(one: dict[str, Any]) -> Any:
        return None if "a" in static else _way(use, Setting(**{**kept, **one}))

    jitted = jax.jit(step, static_argnames=("decided", *static))
    return _rounds(jitted, [{"decided": outside(one), **one} for one in rounds])


@family
def sweeps_that_jit_again(rng: Random) -> Case:
    """A closure or partial over all settings, jitted in each iteration."""
    use, rounds = _drawn(rng)
    is_partial = rng.random() < 0.5

    def created(mode: str, a: float, b: float) -> Any:
        if is_partial:
            return jax.jit(functools.partial(_plain, use, mode=mode, a=a, b=b))
        return jax.jit(lambda x: _plain(use, x, mode, a, b))

    def before() -> Any:
        found: list[Any] = []
        for mode, a, b in rounds:
            if is_partial:
                step = functools.partial(_plain, use, mode=mode, a=a, b=b)
                found.append(jax.jit(step)(x))
            else:
                found.append(jax.jit(lambda x: _plain(use, x, mode, a, b))(x))
        return found

    def edit(advice: JitAndPass) -> Program:
        # What is neither traced nor static keeps its first value.
        first = rounds[0]._asdict()
        passed = [name for name in first if name in (*advice.traced, *advice.static)]
        kept = {name: value for name, value in first.items() if name not in passed}
        static = [name for name in passed if name in advice.static]
        return _followed(use, kept, static, [{n: o._asdict()[n] for n in passed} for o in rounds])

    def once(advice: JitOnce) -> Program:
        # One function for all rounds that differ only in what no program depends on.
        kept: dict[tuple[Any, ...], Setting] = {}
        for one in reversed(rounds):
            kept[_read(advice, one)] = one
        jitted = {read: created(*one) for read, one in kept.items()}
        return lambda: [jitted[_read(advice, one)](x) for one in rounds]

    return Case(f"{use} {rounds}", before, {JitAndPass: edit, JitOnce: once})


def _read(advice: JitOnce, one: Setting) -> tuple[Any, ...]:
    """The setting without what the advice says that no program depends on."""
    return tuple(value for name, value in one._asdict().items() if name not in advice.unread)


@family
def sweeps_of_static_arguments(rng: Random) -> Case:
    """All settings static."""
    use, rounds = _drawn(rng)
    names = ("mode", "a", "b")
    step = functools.partial(_plain, use)
    jitted = jax.jit(step, static_argnames=names)

    def passed(advice: ToArgument) -> Program:
        kept = {n: value for n, value in rounds[0]._asdict().items() if n in advice.unread}
        passed = [name for name in names if name not in advice.unread]
        static = [name for name in passed if name not in advice.paths]
        return _followed(use, kept, static, [{n: o._asdict()[n] for n in passed} for o in rounds])

    def decided(advice: PassDecision) -> Program:
        """Pass the decision that depends on a value as well, and trace the value."""
        static = ["mode", "way", *(["b"] if advice.paths == ("a",) else [])]

        def body(x: Any, mode: str, way: Any, a: Any, b: Any) -> Any:
            decided = (mode if use in ("mode", "both") else None), way
            return _computed(decided, x, a, b)

        decided = jax.jit(body, static_argnames=static)
        return _rounds(decided, [{**o._asdict(), "way": _way(use, o)[1]} for o in rounds])

    def left_out(advice: LeaveOutValue) -> Program:
        first = rounds[0]._asdict()
        own = [{**one._asdict(), **{n: first[n] for n in advice.paths}} for one in rounds]
        return _rounds(jitted, own)

    edits: dict[type[Advice], Edit] = {
        ToArgument: passed,
        PassDecision: decided,
        LeaveOutValue: left_out,
    }
    plain: list[dict[str, Any]] = [one._asdict() for one in rounds]
    return Case(f"{use} {rounds}", _rounds(jitted, plain), edits)

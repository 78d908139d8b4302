"""Programs into which Python puts a value: as a constant, a switch, a shape, an index, or not.

The value arrives as a static argument, in a field of a config, in a closure, in a partial, or in
a function argument. How it is used in the program is independent of how it gets there.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from retrace.model.advice import (
    Advice,
    CompareByValue,
    JitAndPass,
    JitOnce,
    LeaveOutValue,
    LoopInProgram,
    OneType,
    PassDecision,
    ReuseObject,
    ToArgument,
    ToArray,
    TripsInProgram,
)
from tests.generated.case import Case, Edit, Program, family


class Use(NamedTuple):
    """What a program does with a value."""

    name: str
    apart: Callable[[Any], tuple[Any, Any]]
    """What Python computes from it before it reaches an array: a decision, and a number."""
    body: Callable[[Any, Any, Any], Any]
    """The program, given an array, the decision and the number."""


def _steered(x: Any, way: Any, number: Any) -> Any:
    return jnp.sin(x) * number if way else x + number


def _repeated(x: Any, times: Any, number: Any) -> Any:
    for _ in range(times):
        x = x * number + 1
    return x


def _looped(x: Any, times: Any, number: Any) -> Any:
    return jax.lax.fori_loop(0, times, lambda _, x: x * number + 1, x)


USES = (
    Use("unread", lambda k: (None, 2.0), lambda x, _, n: x * n),
    Use("factor", lambda k: (None, k), lambda x, _, n: x * n),
    Use("sum", lambda k: (None, k), lambda x, _, n: (x + n).sum()),
    Use("maximum", lambda k: (None, k), lambda x, _, n: jnp.maximum(x, n)),
    Use("where", lambda k: (None, k), lambda x, _, n: jnp.where(x > n, x, 0)),
    Use("twice", lambda k: (None, k), lambda x, _, n: x * n + n),
    Use("square", lambda k: (None, k**2), lambda x, _, n: x * n),
    Use("root", lambda k: (None, math.sqrt(k)), lambda x, _, n: x * n),
    Use("inverse", lambda k: (None, 1 / k), lambda x, _, n: x * n),
    Use("table", lambda k: (None, 0.5 if k < 3 else 0.25), lambda x, _, n: x * n),
    Use("switch", lambda k: (k < 3, 2.0), _steered),
    Use("odd", lambda k: (k % 2 == 1, 2.0), _steered),
    Use("switch and factor", lambda k: (k < 3, k), _steered),
    Use("switch and square", lambda k: (k < 3, k * k), _steered),
    Use("first and rest", lambda k: (k == 1, 3.0), _steered),
    Use("rounds", lambda k: (int(k), 2.0), _repeated),
    Use("rounds and factor", lambda k: (int(k), k), _repeated),
    Use("trips", lambda k: (int(k), 2.0), lambda x, s, n: _looped(x, s, n)),
    Use("trips and factor", lambda k: (int(k), k), lambda x, s, n: _looped(x, s, n)),
    Use("tile", lambda k: (int(k), 1.0), lambda x, s, n: jnp.tile(x, s) * n),
    Use("ones", lambda k: (int(k), 1.0), lambda x, s, n: x.sum() * jnp.ones(s) * n),
    Use("head", lambda k: (int(k), 1.0), lambda x, s, n: x[:s] * n),
    Use("window", lambda k: (int(k), 1.0), lambda x, s, n: x[s : s + 2] * n),
    Use("item", lambda k: (int(k), 1.0), lambda x, s, n: x[s] * n),
    Use("power", lambda k: (int(k), 1.0), lambda x, s, n: x**s * n),
    Use("roll", lambda k: (int(k), 1.0), lambda x, s, n: jnp.roll(x, s) * n),
    Use("cast", lambda k: (jnp.int32 if k < 3 else jnp.float32, 1), lambda x, s, n: x.astype(s)),
)
LITERAL = ("factor", "sum", "maximum", "where", "twice", "unread")
"""Uses that accept a traced number as written."""
x = np.arange(6, dtype=np.float32) / 3 + 0.5


def _values(rng: Random, *, types: bool = True) -> list[Any]:
    way = rng.choice(
        ("up", "few", "floats", "mixed", "numpy") if types else ("up", "few", "floats")
    )
    if way == "up":
        return list(range(1, rng.randint(3, 6)))
    if way == "few":
        return [rng.choice((1, 2, 4)) for _ in range(4)]
    if way == "floats":
        return [rng.choice((0.5, 1.5, 2.0, 3.25, 4.0)) for _ in range(4)]
    if way == "mixed":
        return [rng.choice((1, 2, 1.0, 2.0, True)) for _ in range(3)]
    return [rng.choice((1, 2, np.int64(1), np.int64(2))) for _ in range(3)]


def _run(jitted: Any, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [jitted(*call) for call in calls]


def _plain(use: Use) -> Callable[..., Any]:
    def step(x: Any, k: Any) -> Any:
        way, number = use.apart(k)
        return use.body(x, way, number)

    return step


def _separated(use: Use, values: list[Any]) -> Program:
    """The decision is static, the number is not."""
    jitted = jax.jit(lambda x, way, number: use.body(x, way, number), static_argnums=1)
    return lambda: _run(jitted, [(x, *use.apart(k)) for k in values])


def _decided(use: Use, values: list[Any]) -> Edit:
    def edit(advice: PassDecision) -> Program:
        # If none of its numbers is in the program, none is passed in more than one type.
        return _separated(use, values if advice.constant else _one_type(values))

    return edit


def _frozen(use: Use, values: list[Any]) -> Program:
    jitted = jax.jit(lambda x: _plain(use)(x, values[0]))
    return lambda: _run(jitted, [(x,) for _ in values])


def _traced(use: Use, values: list[Any]) -> Program:
    jitted = jax.jit(_plain(use))
    return lambda: _run(jitted, [(x, k) for k in values])


def _argument(use: Use, values: list[Any]) -> Edit:
    def edit(advice: ToArgument) -> Program:
        if not advice.computed and _is_traceable(use, values[0]):
            return _traced(use, _one_type(values) if advice.one_type else values)
        # What Python computes from it is computed outside; the decision keeps its first value.
        way = use.apart(values[0])[0]
        jitted = jax.jit(lambda x, number: use.body(x, way, number))
        ones = _one_type(values) if advice.one_type else values
        return lambda: _run(jitted, [(x, use.apart(k)[1]) for k in ones])

    return edit


def _is_traceable(use: Use, value: Any) -> bool:
    """Whether no `if` on the value has to stay outside."""
    try:
        jax.eval_shape(_plain(use), x, value)
    except jax.errors.ConcretizationTypeError:
        return False
    return True


def _one_type(values: list[Any]) -> list[Any]:
    one = float if any(isinstance(value, float) for value in values) else int
    return [one(value) for value in values]


def _in_program(use: Use, values: list[Any]) -> dict[type[Advice], Edit]:
    """A Python loop as a JAX loop, and a JAX loop with a traced number of iterations."""

    def edit(advice: Any) -> Program:
        jitted = jax.jit(_looped)
        ones = _one_type(values) if advice.one_type else values
        calls = [(x, *use.apart(k)) for k in ones]
        return lambda: _run(jitted, calls)

    is_loop = use.name.startswith(("rounds", "trips"))
    return {LoopInProgram: edit, TripsInProgram: edit} if is_loop else {}


def _of_type(use: Use, values: list[Any], call: Callable[[list[Any]], Program]) -> Edit:
    types: dict[str | None, Callable[[Any], Any]] = {"bool": bool, "int": int, "float": float}

    def edit(advice: OneType) -> Program:
        one = types.get(advice.type, type(values[0]))
        return call([one(value) for value in values])

    return edit


@functools.cache
def _are_one_by_name() -> bool:
    """Whether this JAX treats True and 1.0 as one static argument, passed by name."""
    traced: list[Any] = []
    jitted = jax.jit(lambda k: traced.append(k), static_argnames="k")
    jitted(k=1.0)
    jitted(k=True)
    return len(traced) == 1


@family
def static_values(rng: Random) -> Case:
    """A static argument, by position or by name."""
    use, values = rng.choice(USES), _values(rng)
    named = rng.random() < 0.5
    if named and _are_one_by_name():
        # The second of the two is served, so nobody learns that it came in another type.
        values = [values[values.index(value)] for value in values]

    def call(values: list[Any]) -> Program:
        jitted = jax.jit(_plain(use), static_argnames="k")
        return lambda: [jitted(x, k=k) if named else jitted(x, k) for k in values]

    return Case(
        f"{use.name} {values}",
        call(values),
        {
            ToArgument: _argument(use, values),
            PassDecision: _decided(use, values),
            LeaveOutValue: lambda advice: _frozen(use, values),
            OneType: _of_type(use, values, call),
            **_in_program(use, values),
        },
        close=use.name.startswith(("rounds", "trips")),
    )


@dataclasses.dataclass(frozen=True)
class Config:
    """A config that compares by value."""

    k: Any = 1
    other: str = "adam"


class Opaque:
    """A config that only equals itself."""

    def __init__(self, k: Any) -> None:
        self.k = k
        self.other = "adam"


@family
def fields_of_configs(rng: Random) -> Case:
    """A field of a static config, which compares by value or by identity."""
    use, values = rng.choice(USES), _values(rng, types=False)
    kind = rng.choice((Config, Config, Opaque))
    same = kind is Opaque and rng.random() < 0.5
    if same:
        values = [values[0]] * 3

    def before() -> Any:
        jitted = jax.jit(lambda x, c: _plain(use)(x, c.k), static_argnums=1)
        return [jitted(x, kind(k)) for k in values]

    def by_value(advice: CompareByValue) -> Program:
        if advice.varies:
            equal = jax.jit(lambda x, c: _plain(use)(x, c.k), static_argnums=1)
            return lambda: [equal(x, Config(k)) for k in values]
        jitted = jax.jit(lambda x, c: _plain(use)(x, c.k), static_argnums=1)
        one = kind(values[0])
        return lambda: [jitted(x, one) for _ in values]

    return Case(
        f"{kind.__name__} {use.name} {values}",
        before,
        {
            ToArgument: _argument(use, values),
            PassDecision: lambda advice: _separated(use, values),
            LeaveOutValue: lambda advice: _frozen(use, values),
            CompareByValue: by_value,
            **_in_program(use, values),
        },
        close=use.name.startswith(("rounds", "trips")),
    )


_OF_ANY_TYPE = ("factor", "sum", "twice")


def _and_pass(use: Use, held: list[Any]) -> Edit:
    def edit(advice: JitAndPass) -> Program:
        values = _one_type(held) if advice.one_type else held
        if "k" in advice.traced and (advice.computed or not _is_traceable(use, values[0])):
            way = use.apart(values[0])[0]
            jitted = jax.jit(lambda x, number: use.body(x, way, number))
            return lambda: _run(jitted, [(x, use.apart(k)[1]) for k in values])
        if "k" in advice.traced:
            return _traced(use, values)
        if "k" in advice.static:
            static = jax.jit(_plain(use), static_argnums=1)
            return lambda: _run(static, [(x, k) for k in values])
        return _frozen(use, values)

    return edit


@family
def closures_in_a_loop(rng: Random) -> Case:
    """A lambda or `def` jitted in a loop, over another value each time, or the same."""
    use = rng.choice(USES)
    values = _values(rng, types=use.name in _OF_ANY_TYPE and rng.random() < 0.3)
    if rng.random() < 0.3:
        values = [values[0]] * 3
    is_def = rng.random() < 0.5

    def before() -> Any:
        found: list[Any] = []
        for k in values:
            if is_def:
                held = k

                def inner(x: Any) -> Any:
                    return _plain(use)(x, held)

                found.append(jax.jit(inner)(x))
            else:
                found.append(_lambda(use, k)(x))
        return found

    def edit(advice: JitAndPass) -> Program:
        names = {"k", "held"}
        renamed = advice.changed(
            traced=tuple("k" if name in names else name for name in advice.traced),
            static=tuple("k" if name in names else name for name in advice.static),
        )
        return _and_pass(use, values)(renamed)

    return Case(
        f"{use.name} {values}",
        before,
        {
            JitAndPass: edit,
            JitOnce: lambda advice: _frozen(use, values),
            **_in_program(use, values),
        },
        close=use.name.startswith(("rounds", "trips")),
    )


def _lambda(use: Use, k: Any) -> Any:
    return jax.jit(lambda x: _plain(use)(x, k))


@family
def partials_in_a_loop(rng: Random) -> Case:
    """A partial jitted in a loop."""
    use, values = rng.choice(USES), _values(rng, types=False)
    if rng.random() < 0.4:
        values = [rng.choice((True, False, values[0])) for _ in range(3)]

    def step(x: Any, k: Any) -> Any:
        return _plain(use)(x, k)

    def before() -> Any:
        return [jax.jit(functools.partial(step, k=k))(x) for k in values]

    if any(isinstance(value, bool) for value in values) and use.name in ("inverse", "item"):
        values = [1, 2, 3]
    return Case(f"{use.name} {values}", before, {JitAndPass: _and_pass(use, values)})


@family
def functions_that_are_passed(rng: Random) -> Case:
    """A static argument that is a recreated function, over other values or the same."""
    use, values = rng.choice(USES), _values(rng, types=False)
    if rng.random() < 0.4:
        values = [values[0]] * 3
    partial = rng.random() < 0.3

    def make(k: Any) -> Any:
        def loss(x: Any) -> Any:
            return _plain(use)(x, k)

        return functools.partial(_plain(use), k=k) if partial else loss

    def before() -> Any:
        apply = jax.jit(lambda x, loss: loss(x), static_argnums=1)
        return [apply(x, make(k)) for k in values]

    def reuse(advice: ReuseObject) -> Program:
        apply = jax.jit(lambda x, loss: loss(x), static_argnums=1)
        kept = {k: make(k) for k in (values if advice.each else values[:1])}
        return lambda: [apply(x, kept.get(k, kept[values[0]])) for k in values]

    edits: dict[Any, Edit] = {
        ToArgument: _argument(use, values),
        ReuseObject: reuse,
        CompareByValue: lambda advice: reuse(ReuseObject(paths=advice.paths)),
    }
    return Case(f"{use.name} {values}", before, edits)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["k"])
@dataclasses.dataclass
class State:
    """A tree with a static field."""

    w: Any
    k: Any


@family
def static_fields(rng: Random) -> Case:
    """A static field of a tree."""
    use, values = rng.choice(USES), _values(rng, types=False)

    def before() -> Any:
        jitted = jax.jit(lambda state: _plain(use)(state.w, state.k))
        return [jitted(State(x, k)) for k in values]

    def leaf(advice: ToArray) -> Program:
        return _traced(use, values)

    edits: dict[Any, Edit] = {
        LeaveOutValue: lambda advice: _frozen(use, values),
        PassDecision: lambda advice: _separated(use, values),
    }
    if use.name in LITERAL:
        edits[ToArray] = leaf
    return Case(f"{use.name} {values}", before, edits)

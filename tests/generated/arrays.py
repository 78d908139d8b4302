"""Programs called with arrays of other types, sizes and placements, or in other ways."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from retrace.model.advice import (
    CastCarry,
    CastNumber,
    CastResult,
    LeaveOutArray,
    LowerWithSharding,
    OneCallStyle,
    OneDtype,
    OneMesh,
    PadBatch,
    PadShape,
    PlaceFirst,
)
from tests.generated.case import Case, Program, family

DTYPES = (np.uint8, np.int8, np.int32, np.float16, np.float32)


def _array(dtype: Any, shape: tuple[int, ...] = (4,)) -> Any:
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype)


MEETINGS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("times", lambda a, t: a * t),
    ("plus as float", lambda a, t: (a + t).astype(jnp.float32)),
    ("power sum", lambda a, t: (a * t).sum() * t),
    ("greater", lambda a, t: a > t),
    ("where", lambda a, t: jnp.where(a > 2, a, t)),
    ("apart", lambda a, t: (a.astype(jnp.float32).sum(), t + np.int32(1))),
    ("cast first", lambda a, t: a.astype(jnp.float32) * t),
    ("maximum", lambda a, t: jnp.maximum(a, t).sum()),
    ("only returned", lambda a, t: (a + 1, t)),
    ("clip", lambda a, t: jnp.clip(a, 0, t)),
)


@family
def python_numbers(rng: Random) -> Case:
    """A Python number in one call, an array or a NumPy scalar in another."""
    name, meet = rng.choice(MEETINGS)
    array = _array(rng.choice(DTYPES))
    weak = rng.choice((2, 2.0, 3))
    strong = rng.choice((np.int32, np.float32))(weak)
    if rng.random() < 0.3:
        strong = np.asarray(strong)
    order = [weak, strong] if rng.random() < 0.6 else [strong, weak]

    def call(numbers: list[Any]) -> Program:
        jitted = jax.jit(lambda a, t: meet(a, t))
        return lambda: [jitted(array, t) for t in numbers]

    def cast(advice: CastNumber) -> Program:
        dtype = np.dtype(advice.types[0][0])
        return call([dtype.type(t) for t in order])

    return Case(f"{name} {array.dtype} {order}", call(order), {CastNumber: cast, CastCarry: cast})


CARRIES: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("count", lambda c, a: c + np.int32(1)),
    ("sum", lambda c, a: c + a.astype(jnp.float32).sum()),
    ("mixed", lambda c, a: (a * c).sum()),
    ("where", lambda c, a: jnp.where(a.sum() > c, 1.0, 0.0)),
    ("weak where", lambda c, a: jnp.where(a.sum() > 3, c, 0.0)),
    ("mean", lambda c, a: 0.9 * c + 0.1 * a.mean()),
    ("byte", lambda c, a: (a[0] + c).astype(jnp.int32)),
)


@family
def carries(rng: Random) -> Case:
    """Starts from a Python number, and passes the result from then on."""
    name, update = rng.choice(CARRIES)
    array = _array(rng.choice(DTYPES))
    start = rng.choice((0, 0.0, 1.0, np.float32(0)))

    def call(start: Any, result: Callable[[Any], Any] = lambda c: c) -> Program:
        jitted = jax.jit(lambda c, a: (result(update(c, a)), a.astype(jnp.float32).sum()))

        def run() -> Any:
            carry, found = start, []
            for _ in range(4):
                carry, other = jitted(carry, array)
                found.append((np.asarray(carry), other))
            return found

        return run

    def cast(advice: CastNumber) -> Program:
        return call(np.dtype(advice.types[0][0]).type(start))

    return Case(
        f"{name} {array.dtype} from {start!r}",
        call(start),
        {
            CastNumber: cast,
            CastCarry: cast,
            CastResult: lambda advice: call(start, lambda c: c.astype(advice.dtype)),
        },
    )


@family
def dtypes(rng: Random) -> Case:
    """Arrays of two dtypes, which promotion may make equal."""
    name, meet = rng.choice(MEETINGS)
    one, other = rng.sample(DTYPES, 2)

    def call(kinds: list[Any]) -> Program:
        jitted = jax.jit(lambda a, t: meet(a, t))
        return lambda: [jitted(_array(kind), np.float32(2)) for kind in kinds]

    def cast(advice: OneDtype) -> Program:
        wide = np.promote_types(*advice.dtypes) if advice.dtypes else np.promote_types(one, other)
        return call([wide, wide])

    return Case(f"{name} {np.dtype(one)} {np.dtype(other)}", call([one, other]), {OneDtype: cast})


ROWS: tuple[tuple[str, Callable[..., Any], bool], ...] = (
    ("by row", lambda x, m: x * 2 + 1, False),
    ("by row of two", lambda x, m: jnp.tanh(x @ np.ones((2, 3), np.float32)), False),
    ("masked sum", lambda x, m: jnp.where(m[:, None], x, 0).sum(), True),
    ("masked mean", lambda x, m: (x * m[:, None]).sum() / m.sum(), True),
)


@family
def rows(rng: Random) -> Case:
    """Batches of several sizes, for functions that treat each row separately or have a mask."""
    name, body, is_whole = rng.choice(ROWS)
    way = rng.choice(("last", "ragged", "buckets", "empty", "halving"))
    sizes = {
        "last": [8, 8, 8, rng.randint(1, 7)] * 2,
        "ragged": [rng.randint(1, 12) for _ in range(5)],
        "buckets": [64, 32, 16, 8],
        "empty": [8, 0],
        "halving": [27, 9, 3, 1],
    }[way]

    def call(padded: Callable[[int], int]) -> Program:
        jitted = jax.jit(lambda x, m: body(x, m))

        def one(size: int) -> Any:
            to = padded(size)
            x = np.zeros((to, 2), np.float32)
            x[:size] = _array(np.float32, (size, 2)) if size else 0
            mask = np.arange(to) < size
            found = np.asarray(jitted(x, mask))
            return found if is_whole else found[:size]

        return lambda: [one(size) for size in sizes]

    def pad(advice: Any) -> Program:
        largest = max(sizes)
        return call(lambda size: largest)

    return Case(
        f"{name} {sizes}", call(lambda size: size), {PadBatch: pad, PadShape: pad}, close=True
    )


UNUSED: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("not read", lambda x, m: x * 2),
    ("by size", lambda x, m: x * m.shape[0]),
    ("by one less", lambda x, m: x * (m.shape[0] - 1)),
    ("steers", lambda x, m: x * 2 if m.shape[0] > 3 else x),
    ("handed on", lambda x, m: _inner(x, m) + 1),
    ("handed on by size", lambda x, m: _inner_sized(x, m) + 1),
    ("returned", lambda x, m: (x * 2, m)),
    ("dead", lambda x, m: (m.sum(), x * 2)[1]),
    ("used", lambda x, m: x * m.sum()),
)


@jax.jit
def _inner(x: Any, m: Any) -> Any:
    return x - 1


@jax.jit
def _inner_sized(x: Any, m: Any) -> Any:
    return x - m.shape[0]


@family
def arrays_that_may_be_unused(rng: Random) -> Case:
    """An array of several sizes that the program uses or ignores."""
    name, body = rng.choice(UNUSED)
    sizes = [rng.randint(1, 6) for _ in range(3)]
    in_tree = rng.random() < 0.5

    def call(sizes: list[int]) -> Program:
        whole = jax.jit(lambda b: body(b["x"], b["m"]))
        apart = jax.jit(lambda x, m: body(x, m))
        x = _array(np.float32)
        made = [np.ones(size, np.float32) for size in sizes]
        return lambda: [whole({"x": x, "m": m}) if in_tree else apart(x, m) for m in made]

    return Case(
        f"{name} {sizes}",
        call(sizes),
        {LeaveOutArray: lambda advice: call([sizes[0]] * len(sizes))},
    )


@family
def models(rng: Random) -> Case:
    """Parameters of several widths, together or one by one: never padded."""
    widths = rng.sample((4, 8, 16, 32), 3)
    whole = rng.random() < 0.5
    bias = rng.random() < 0.5

    def before() -> Any:
        def loss(p: Any, x: Any) -> Any:
            hidden = x @ p["a"] + (p["c"] if bias else 0)
            return (jnp.tanh(hidden) @ p["b"]).sum()

        jitted = jax.jit(loss if whole else lambda a, b, c, x: loss({"a": a, "b": b, "c": c}, x))
        found: list[Any] = []
        for width in widths:
            p = {
                "a": _array(np.float32, (3, width)),
                "b": _array(np.float32, (width, 2)),
                "c": _array(np.float32, (width,)),
            }
            x = _array(np.float32, (5, 3))
            found.append(jitted(p, x) if whole else jitted(p["a"], p["b"], p["c"], x))
        return found

    return Case(f"{widths}", before, never=(PadShape, PadBatch))


@family
def ways_of_passing(rng: Random) -> Case:
    """By position, by name, or omitted."""
    default = rng.choice((None, 2.0))

    def step(x: Any, scale: Any = default) -> Any:
        return x if scale is None else x * scale

    ways = [rng.choice(("position", "name", "omitted")) for _ in range(3)]

    def call(ways: list[str]) -> Program:
        jitted, x = jax.jit(step), _array(np.float32)

        def one(way: str) -> Any:
            if way == "omitted":
                return jitted(x)
            return jitted(x, 2.0) if way == "position" else jitted(x, scale=2.0)

        return lambda: [one(way) for way in ways]

    def same(advice: OneCallStyle) -> Program:
        return call(["omitted" if advice.optional and w == "omitted" else "name" for w in ways])

    return Case(f"{ways} {default}", call(ways), {OneCallStyle: same})


@family
def places(rng: Random) -> Case:
    """Uncommitted first and committed later, on two meshes, or lowered ahead of time."""
    way = rng.choice(("committed", "meshes", "ahead", "committed first"))
    device = jax.devices()[0]
    x = _array(np.float32)

    def on(name: str) -> Any:
        return jax.device_put(
            x, NamedSharding(Mesh(np.array([device]), (name,)), PartitionSpec(name))
        )

    def call(placed: bool) -> Program:
        jitted = jax.jit(lambda x: x * 2)
        committed = jax.device_put(x, device)
        if way == "meshes":
            return lambda: [jitted(on("a")), jitted(on("a" if placed else "b"))]
        if way == "ahead":
            sharding = {"sharding": committed.sharding} if placed else {}

            def run() -> Any:
                jitted.lower(jax.ShapeDtypeStruct((4,), np.float32, **sharding)).compile()
                return jitted(committed)

            return run
        both = [x, committed] if way == "committed" else [committed, x]
        return lambda: [jitted(committed if placed else one) for one in both]

    def follow(advice: Any) -> Program:
        return call(True)

    return Case(
        way,
        call(False),
        {PlaceFirst: follow, OneMesh: follow, LowerWithSharding: follow},
    )

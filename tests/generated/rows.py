"""Random programs on rows: claims about padding are tested by appending other rows."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from retrace.capture.programs import transcript
from retrace.compare.along import Along, along

SMALL, LARGE, WIDE = 5, 8, 4
_TABLE = np.sin(np.arange(11 * WIDE, dtype=np.float32)).reshape(11, WIDE)
_SQUARE = _TABLE[:WIDE]

Draw: TypeAlias = Random
Statement: TypeAlias = Callable[[Draw, Any, Any, int], Any]
"""Computes a value from a draw, two values and the number of rows."""

STATEMENTS: dict[str, Statement] = {}


def statement(make: Statement) -> Statement:
    """Register a statement that a program may contain."""
    STATEMENTS[make.__name__] = make
    return make


class Rows(NamedTuple):
    """A program on an array of rows, and what it does."""

    name: str
    function: Callable[[Any], Any]


def drawn(seed: int) -> Rows:
    """The program of a seed."""
    rng = Random(seed)
    names = [rng.choice(sorted(STATEMENTS)) for _ in range(rng.randint(1, 5))]

    def function(x: Any) -> Any:
        # Draws are the same for each size: choices depend on ranks, never on sizes.
        mine = Random(seed)
        values = [x]
        for name in names:
            one = values[-1] if mine.random() < 0.7 else mine.choice(values)
            other = mine.choice(values)
            values.append(STATEMENTS[name](mine, one, other, x.shape[0]))
        last = values[-1]
        return (last, mine.choice(values)) if mine.random() < 0.2 else last

    return Rows(f"{seed}: {', '.join(names)}", function)


def prove(seed: int) -> list[str]:
    """What is wrong with the claims about a seed's program: rows whose results change."""
    program = drawn(seed)
    found = claimed(program.function)
    if found is None or not found.separate or keeps(program.function):
        return []
    return [f"{program.name}\n    is told to keep its rows"]


def rows(size: int) -> Any:
    """The first rows that programs are given, float32[size, 4]."""
    return np.sin(np.arange(LARGE * WIDE, dtype=np.float32) * 1.7).reshape(LARGE, WIDE)[:size]


def claimed(function: Callable[[Any], Any]) -> Along | None:
    """What is claimed about a program; None if it fails for one of the sizes on its own."""
    try:
        # Each size has its own function: otherwise JAX may reuse one's trace for the other.
        traced = [jax.make_jaxpr(lambda x: function(x))(rows(size)) for size in (SMALL, LARGE)]
    except (
        TypeError,
        ValueError,
        IndexError,
        NotImplementedError,
        AssertionError,
        OverflowError,
    ):
        return None
    seen = [transcript(one) for one in traced]
    listings = {one.id: one for each in seen for one in each.listings}
    old, new = [listings[each.program.listing or ""] for each in seen]
    config: Any = jax.config
    return along(old, new, listings, stable=config.jax_threefry_partitionable)


def keeps(function: Callable[[Any], Any]) -> bool:
    """Whether results for the first rows do not depend on the other rows, whatever they hold."""
    alone = jax.tree.leaves(function(jnp.asarray(rows(SMALL))))
    high = np.full((LARGE - SMALL, WIDE), 7, np.float32)
    for rest in (rows(LARGE)[SMALL:], high, -high, np.full_like(high, np.nan)):
        whole = jax.tree.leaves(function(jnp.concatenate([rows(SMALL), rest])))
        if len(alone) != len(whole) or not all(map(_within, alone, whole)):
            return False
    return True


def _within(a: Any, b: Any) -> bool:
    if jnp.issubdtype(jax.numpy.result_type(a), jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    if a.ndim != b.ndim or any(x > y for x, y in zip(a.shape, b.shape, strict=True)):
        return False
    part = b[tuple(slice(0, size) for size in a.shape)]
    return bool(np.allclose(a, part, rtol=1e-4, atol=1e-5, equal_nan=True))


def _axis(rng: Draw, x: Any) -> int:
    return rng.randrange(x.ndim) if x.ndim else 0


def _whole(x: Any) -> Any:
    return jnp.floor(jnp.abs(jnp.nan_to_num(x)) * 5).astype(jnp.int32)


@statement
def each(rng: Draw, x: Any, _y: Any, _n: int) -> Any:
    return rng.choice(
        [jnp.sin, jnp.tanh, jnp.abs, jnp.square, jax.nn.silu, jax.nn.relu, jnp.exp]
    )(x)


@statement
def both(rng: Draw, x: Any, y: Any, _n: int) -> Any:
    return rng.choice([jnp.add, jnp.multiply, jnp.maximum, jnp.subtract, jnp.arctan2])(x, y)


@statement
def reduced(rng: Draw, x: Any, _y: Any, _n: int) -> Any:
    reduce = rng.choice([jnp.sum, jnp.max, jnp.mean, jnp.std, jnp.prod, jnp.argmax, jnp.any])
    return reduce(x, axis=_axis(rng, x), keepdims=rng.random() < 0.5) * jnp.float32(1)


@statement
def normed(rng: Draw, x: Any, _y: Any, _n: int) -> Any:
    axis = _axis(rng, x)
    return rng.choice(
        [
            lambda: jax.nn.softmax(x, axis),
            lambda: jax.nn.standardize(x, axis),
            lambda: jax.nn.logsumexp(x, axis),
            lambda: jnp.linalg.norm(x, axis=axis),
        ]
    )()


@statement
def turned(rng: Draw, x: Any, _y: Any, _n: int) -> Any:
    axes = list(range(x.ndim))
    rng.shuffle(axes)
    return jnp.transpose(x, axes)


@statement
def flat(_rng: Draw, x: Any, _y: Any, _n: int) -> Any:
    return x.reshape(-1)


@statement
def split(rng: Draw, x: Any, _y: Any, n: int) -> Any:
    return rng.choice(
        [
            lambda: x.reshape(n, -1),
            lambda: x.reshape(-1, n),
            lambda: x.reshape(2, 2, -1),
            lambda: x.reshape(-1, 2, 2),
            lambda: x.reshape(n, 2, -1),
            lambda: x.reshape(1, n, -1),
        ]
    )()


@statement
def grown(rng: Draw, x: Any, _y: Any, n: int) -> Any:
    return rng.choice(
        [
            lambda: x[None],
            lambda: x[..., None],
            lambda: jnp.broadcast_to(x, (3, *x.shape)),
            lambda: jnp.broadcast_to(x, (n, *x.shape)),
            lambda: jnp.broadcast_to(x[..., None], (*x.shape, n)),
            lambda: jnp.tile(x, 2),
            lambda: jnp.repeat(x, 2, axis=_axis(rng, x)),
        ]
    )()


@statement
def cut(rng: Draw, x: Any, _y: Any, n: int) -> Any:
    part = rng.choice(
        [
            *(slice(0, 2), slice(1, 4), slice(1, None), slice(None, -1), slice(-3, None)),
            *(slice(None, None, 2), slice(None, None, -1), slice(0, n), slice(0, n // 2)),
            *(-1, 0, 2, n - 2, None, slice(n - 4, n - 2)),
        ]
    )
    axis = _axis(rng, x)
    return x[(slice(None),) * axis + (part,)]


@statement
def joined(rng: Draw, x: Any, y: Any, n: int) -> Any:
    axis = _axis(rng, x)
    ones = jnp.ones_like(x)
    return rng.choice(
        [
            lambda: jnp.concatenate([x, ones], axis),
            lambda: jnp.concatenate([ones, x], axis),
            lambda: jnp.stack([x, ones], axis),
            lambda: jnp.concatenate([x, y], axis),
            lambda: jnp.pad(x, [(0, 2)] * x.ndim),
            lambda: jnp.pad(x, [(2, 0)] * x.ndim),
            lambda: jnp.pad(x, [(0, 9 - n)] + [(0, 0)] * (x.ndim - 1)),
            lambda: jnp.pad(x, [(1, 1)] * x.ndim, mode="edge"),
            lambda: jnp.roll(x, 1, axis),
            lambda: jnp.roll(x, n, axis),
        ]
    )()


@statement
def so_far(rng: Draw, x: Any, _y: Any, _n: int) -> Any:
    axis = _axis(rng, x)
    return rng.choice(
        [
            lambda: jnp.cumsum(x, axis),
            lambda: jax.lax.cummax(x, axis, reverse=rng.random() < 0.5),
            lambda: jnp.diff(x, axis=axis),
            lambda: jax.lax.associative_scan(jnp.add, x, axis=axis),
        ]
    )()


@statement
def ranked(rng: Draw, x: Any, _y: Any, _n: int) -> Any:
    axis = _axis(rng, x)
    return rng.choice(
        [
            lambda: jnp.sort(x, axis),
            lambda: jnp.argsort(x, axis),
            lambda: jax.lax.top_k(x, 2)[0],
            lambda: jnp.median(x, axis),
            lambda: jnp.quantile(x, 0.3, axis),
            lambda: jnp.argmax(x, axis) + 1.0,
            lambda: jnp.unique(x, size=3),
            lambda: jnp.nonzero(x > 0, size=4)[0],
            lambda: jnp.searchsorted(jnp.linspace(-1, 1, 5), x),
            lambda: jnp.histogram(x, 3)[0],
        ]
    )()


@statement
def numbered(rng: Draw, x: Any, _y: Any, n: int) -> Any:
    position = jnp.arange(n).astype(rng.choice([jnp.int32, jnp.uint32, jnp.float32]))
    return rng.choice(
        [
            lambda: position,
            lambda: n - position,
            lambda: position + 1,
            lambda: position < 3,
            lambda: position < n - 1,
            lambda: position == n - 1,
            lambda: position / n,
            lambda: jnp.linspace(0, 1, n),
            lambda: jnp.eye(n),
            lambda: jnp.tri(n),
            lambda: jnp.tri(n).T,
            lambda: jnp.full((n,), n),
            lambda: jnp.ones((n, WIDE)),
            lambda: x * position[:, None],
            lambda: jnp.where(position[:, None] < 2, x, 0),
            lambda: jnp.where(position[:, None] == jnp.uint32(n - 1), x, 0),
            lambda: position % 3,
            lambda: jax.nn.one_hot(position, n),
            lambda: jax.nn.one_hot(position, 3),
            lambda: jax.nn.one_hot(position % 3, n),
        ]
    )()


@statement
def by_size(rng: Draw, x: Any, _y: Any, n: int) -> Any:
    return rng.choice(
        [
            lambda: x * n,
            lambda: x / n,
            lambda: x**n,
            lambda: x + jnp.asarray(_TABLE)[n],
            lambda: jnp.asarray(_TABLE)[:n],
            lambda: jnp.asarray(_TABLE)[n - 1],
            lambda: x * (n > 6),
            lambda: jnp.where(n > 6, x, 0),
            lambda: jax.lax.cond(jnp.asarray(n) > 6, jnp.sin, jnp.cos, x),
            lambda: jnp.float32(n),
            lambda: x * x.size,
            lambda: jnp.sum(jnp.ones(n)) * x,
            lambda: x * jnp.arange(n)[-1],
            lambda: x + jnp.max(jnp.arange(n)),
            lambda: x + jnp.arange(3)[jnp.minimum(n - 5, 2)],
            lambda: x + np.linspace(0, 1, n, dtype=np.float32)[:, None],
        ]
    )()


@statement
def looked_up(rng: Draw, x: Any, y: Any, n: int) -> Any:
    axis = _axis(rng, x)
    mode = rng.choice(["fill", "clip", "wrap", "promise_in_bounds"])
    position = jnp.arange(n)
    return rng.choice(
        [
            lambda: jnp.take(x, jnp.asarray([0, 2, 1]), axis, mode=mode),
            lambda: jnp.take(x, jnp.asarray([0, -1]), axis, mode=mode),
            lambda: jnp.take(x, jnp.asarray([0, 6]), axis, mode=mode),
            lambda: jnp.take(x, position, axis, mode="clip"),
            lambda: jnp.take(x, position + 1, axis, mode="clip"),
            lambda: jnp.take(x, _whole(y), axis, mode="clip"),
            lambda: jnp.take(x, _whole(y), axis),
            lambda: jnp.take(x, n - 1 - position, axis),
            lambda: jnp.take_along_axis(x, jnp.argsort(x, axis), axis),
            lambda: jnp.take_along_axis(x, jnp.zeros_like(x, jnp.int32), axis),
            lambda: jnp.asarray(_TABLE)[_whole(y)],
            lambda: jnp.asarray(_TABLE)[position],
            lambda: jnp.asarray(_TABLE)[n - position],
            lambda: x[jnp.asarray(1)],
            lambda: x[jnp.asarray(-1)],
            lambda: x[_whole(y).max()],
        ]
    )()


@statement
def windowed(rng: Draw, x: Any, y: Any, n: int) -> Any:
    zeros = [0] * (x.ndim - 1)
    begin = rng.choice([0, 1, 2, 6, n, n - 1, n - 2])
    begin = rng.choice([lambda: jnp.uint32(begin), lambda: jnp.int32(begin), lambda: begin])()
    starts = (begin, *[jnp.asarray(begin).dtype.type(0)] * len(zeros))
    return rng.choice(
        [
            lambda: jax.lax.dynamic_slice(x, starts, (2, *x.shape[1:])),
            lambda: jax.lax.dynamic_slice(x, starts, (n, *x.shape[1:])),
            lambda: jax.lax.dynamic_slice(x, starts, x.shape),
            lambda: jax.lax.dynamic_update_slice(x, x[:2] * 3, starts),
            lambda: jax.lax.dynamic_update_slice(jnp.zeros((9, *x.shape[1:])), x, starts),
            lambda: jax.lax.dynamic_index_in_dim(x, begin, 0),
            lambda: jax.lax.dynamic_slice_in_dim(x, _whole(y).max(), 2, 0),
        ]
    )()


@statement
def written(rng: Draw, x: Any, y: Any, n: int) -> Any:
    mode = rng.choice(["drop", "clip", "promise_in_bounds"])
    begin = rng.choice([0, 1, -1, 6, 9, n - 1])
    place = rng.choice(
        [
            lambda: begin,
            lambda: jnp.asarray(begin),
            lambda: jnp.arange(n),
            lambda: jnp.arange(n) + 1,
            lambda: jnp.asarray([0, 2]),
            lambda: _whole(y),
            lambda: jnp.arange(n) % 3,
        ]
    )()
    into = rng.choice([lambda: x, lambda: jnp.zeros((12, WIDE)), lambda: jnp.zeros(n)])()
    value = rng.choice([lambda: 2.0, lambda: y, lambda: 1.0 * n])()
    at = into.at[place]
    return rng.choice([at.set, at.add, at.max, at.multiply])(value, mode=mode)


@statement
def product(rng: Draw, x: Any, y: Any, n: int) -> Any:
    return rng.choice(
        [
            lambda: x @ _SQUARE,
            lambda: _SQUARE @ x,
            lambda: x @ x.T,
            lambda: x.T @ x,
            lambda: jnp.outer(x, x),
            lambda: jnp.einsum("i...,j...->ij...", x, y),
            lambda: jnp.einsum("i...,i...->i...", x, y),
            lambda: jnp.tensordot(x, x, 1),
            lambda: jnp.tri(n) @ x,
            lambda: jnp.dot(x, jnp.ones(WIDE)),
        ]
    )()


@statement
def looped(rng: Draw, x: Any, y: Any, n: int) -> Any:
    count = rng.choice([3, n, n - 5])
    return rng.choice(
        [
            lambda: jax.lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(x.shape[1:]), x)[0],
            lambda: jax.lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(x.shape[1:]), x)[1],
            lambda: jax.lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=2)[0],
            lambda: jax.lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=n)[0],
            lambda: jax.lax.scan(lambda c, _: (c * n, None), x, None, length=2)[0],
            lambda: jax.lax.map(jnp.sin, x),
            lambda: jax.lax.map(lambda row: row * y, x),
            lambda: jax.lax.fori_loop(0, count, lambda i, c: c * 0.5 + i, x),
            lambda: jax.lax.fori_loop(0, count, lambda i, c: c + x[i], x[0]),
            lambda: jax.lax.fori_loop(0, 3, lambda i, c: c.at[i].set(i), x),
            lambda: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, jnp.nan_to_num(x)),
            lambda: jax.lax.while_loop(
                lambda c: c[0] < jnp.uint32(count), lambda c: (c[0] + 1, c[1] * 0.5), (0, x)
            )[1],
        ]
    )()


@statement
def chosen(rng: Draw, x: Any, y: Any, n: int) -> Any:
    return rng.choice(
        [
            lambda: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
            lambda: jax.lax.cond(x.reshape(-1)[0] > 0, jnp.sin, jnp.cos, x),
            lambda: jax.lax.cond(x.reshape(-1)[-1] > 0, jnp.sin, jnp.cos, x),
            lambda: jax.lax.switch(jnp.asarray(n % 3), [jnp.sin, jnp.cos, jnp.tanh], x),
            lambda: jnp.where(x > 0, x, y),
            lambda: jnp.where(x > 0, x, x.mean()),
            lambda: jnp.clip(x, -0.5, 0.5),
            lambda: jnp.clip(x, -1, n / 8),
        ]
    )()


@statement
def noise(rng: Draw, x: Any, _y: Any, n: int) -> Any:
    key = rng.choice(
        [
            lambda: jax.random.key(0),
            lambda: jax.random.PRNGKey(1),
            lambda: jax.random.fold_in(jax.random.key(0), n),
            lambda: jax.random.split(jax.random.key(0), n)[1],
            lambda: jax.random.split(jax.random.key(0))[1],
        ]
    )()
    return rng.choice(
        [
            lambda: x + jax.random.normal(key, x.shape),
            lambda: x + jax.random.uniform(key, x.shape[-1:]),
            lambda: jax.random.permutation(key, x),
            lambda: jax.random.permutation(key, n),
            lambda: jax.random.choice(key, x, (3,)),
            lambda: jax.random.randint(key, (n,), 0, 9),
            lambda: jax.random.randint(key, (3,), 0, n),
            lambda: jax.random.bernoulli(key, 0.5, x.shape) * x,
            lambda: jax.random.categorical(key, x),
            lambda: jax.vmap(jax.random.normal)(jax.random.split(key, n)),
            lambda: jax.random.gumbel(key, (n, WIDE)),
            lambda: jax.random.normal(key, (WIDE, n)),
        ]
    )()


@statement
def nested(rng: Draw, x: Any, y: Any, n: int) -> Any:
    name = rng.choice(sorted(STATEMENTS))
    return rng.choice(
        [
            lambda: jax.jit(lambda z: STATEMENTS[name](rng, z, y, n))(x),
            lambda: jax.vmap(lambda z: STATEMENTS[name](rng, z, z, n))(x),
            lambda: jax.vmap(lambda z: STATEMENTS[name](rng, z, z, WIDE), in_axes=-1)(x),
            lambda: jax.checkpoint(lambda z: STATEMENTS[name](rng, z, y, n))(x),
            lambda: jax.grad(lambda z: jnp.sum(STATEMENTS[name](rng, z, z, n)))(x),
            lambda: jax.grad(lambda w: jnp.sum(STATEMENTS[name](rng, w * x, x, n)))(1.0),
            lambda: jax.jvp(lambda z: STATEMENTS[name](rng, z, y, n), (x,), (x,))[1],
            lambda: jax.jacfwd(lambda z: STATEMENTS[name](rng, z, z, n))(x),
        ]
    )()


@statement
def signal(rng: Draw, x: Any, _y: Any, _n: int) -> Any:
    axis = _axis(rng, x)
    return rng.choice(
        [
            lambda: jnp.fft.fft(x, axis=axis).real,
            lambda: jnp.fft.rfft(x, axis=axis).imag,
            lambda: jnp.convolve(x.reshape(-1), jnp.ones(3), "same"),
            lambda: jax.lax.conv_general_dilated(
                x[None], jnp.ones((WIDE, WIDE, 1)), (1,), "SAME"
            ),
            lambda: jax.lax.conv_general_dilated(x[:, None], jnp.ones((1, 1, 3)), (1,), "VALID"),
            lambda: jax.lax.reduce_window(
                x, 0.0, jax.lax.add, (2,) * x.ndim, (1,) * x.ndim, "SAME"
            ),
            lambda: jnp.linalg.qr(x)[0],
            lambda: jnp.linalg.inv(x @ x.T + 3 * jnp.eye(x.shape[0])),
            lambda: jnp.linalg.solve(x.T @ x + 3 * jnp.eye(x.shape[1]), x.T),
            lambda: jnp.linalg.svd(x)[1],
            lambda: jnp.interp(x, jnp.arange(3.0), jnp.ones(3)),
            lambda: jnp.trace(x),
            lambda: jnp.diagonal(x),
            lambda: jnp.triu(x),
            lambda: jnp.corrcoef(x),
            lambda: jnp.cross(x[..., :3], x[..., :3]),
            lambda: jax.ops.segment_sum(x, _whole(x.reshape(x.shape[0], -1)[:, 0]), 3),
            lambda: jax.image.resize(x, (3, 3), "linear"),
            lambda: jnp.bincount(_whole(x.reshape(-1)), length=4),
        ]
    )()

"""Programs with many lengths: padded as the plan chooses, they compile as often as it says.

They are functions that are not affected by zeros at the end, called with arrays of one or two
lengths; loops outside `jit` over data of many lengths; and growing lists that are joined in each
round. The edit is applied automatically, remaining misses are counted, and results must match.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from retrace.model.advice import FewSizes
from retrace.plan.corners import corner_of
from retrace.plan.step import Pairs, Sizes, Step
from tests.generated.proof import ran

Lengths: TypeAlias = tuple[int, ...]
Chosen: TypeAlias = Sequence[Sequence[int]]


class Many(NamedTuple):
    """A program, and how to call it with other lengths than its own."""

    name: str
    run: Callable[[Any], Any]
    """A function that pads an array; without it, arrays stay as they are."""
    family: str
    """The family that the plan should name: "shape" or "eager-sizes"."""


_WIDE = 3
OF_ROWS: dict[str, Callable[[Any], Any]] = {
    "sum of squares": lambda x: (x * x).sum(),
    "a layer": lambda x: jnp.tanh(x @ jnp.full((_WIDE, 2), 0.5)).sum(0),
    "largest": lambda x: jnp.abs(x).max(),
    "a loop": lambda x: jax.lax.scan(lambda c, row: (c + row.sum(), None), 0.0, x)[0],
}
OF_TABLES: dict[str, Callable[[Any], Any]] = {
    "sum of squares": lambda x: (x * x).sum(),
    "rows, then columns": lambda x: jnp.abs(x.sum(1)).sum(),
    "largest": lambda x: jnp.abs(x).max(),
    "products": lambda x: (x.T @ x).sum() if x.ndim == 2 else x,
}


def _numbers(shape: Sequence[int]) -> Any:
    return np.sin(np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32)).reshape(shape)


def _as_it_is(x: Any) -> Any:
    return x


def _of_rows(rng: Random) -> Many:
    name = rng.choice(sorted(OF_ROWS))
    sizes = rng.sample(range(2, 60), rng.randint(2, 9))
    static = rng.random() < 0.3

    def run(pad: Callable[[Any], Any]) -> Any:
        step = jax.jit(lambda x, k: OF_ROWS[name](x) * k, static_argnames="k")
        ks = (1, 2) if static else (1,)
        return [step(pad(_numbers((size, _WIDE))), k=k) for size in sizes for k in ks]

    return Many(f"{name} of {sizes}, {1 + static} values", run, "shape")


def table(name: str, sizes: Sequence[tuple[int, int]]) -> Many:
    """A function of matrices with these heights and widths."""

    def run(pad: Callable[[Any], Any]) -> Any:
        step = jax.jit(OF_TABLES[name])
        return [step(pad(_numbers(size))) for size in sizes]

    return Many(f"{name} of {sizes}", run, "shape")


def _of_tables(rng: Random) -> Many:
    name = rng.choice(sorted(OF_TABLES))
    way = rng.choice(("bound", "some", "all"))
    rows = rng.sample(range(2, 40), rng.randint(3, 6))
    columns = rng.sample(range(2, 40), len(rows) if way == "bound" else rng.randint(2, 4))
    if way == "bound":
        falls = rng.random() < 0.5
        sizes = list(zip(sorted(rows), sorted(columns, reverse=falls), strict=True))
    else:
        sizes = [(a, b) for a in rows for b in columns]
        sizes = rng.sample(sizes, len(sizes) // 2) if way == "some" else sizes
    rng.shuffle(sizes)
    return table(name, sizes)


def _of_loops(rng: Random) -> Many:
    sizes = rng.sample(range(2, 60), rng.randint(4, 8))
    again = rng.random() < 0.5

    def add(carry: Any, one: Any) -> Any:
        number, there = one
        return jnp.where(there, carry * 0.5 + number, carry), None

    def run(pad: Callable[[Any], Any]) -> Any:
        found: list[Any] = []
        once = pad is not _as_it_is  # the advice also says to define it once, outside
        for size in sizes:
            body = (lambda c, one: add(c, one)) if again and not once else add
            data = pad(_numbers((size,))), pad(np.ones(size, bool))
            found.append(jax.lax.scan(body, np.float32(0), data)[0])
        return found

    return Many(f"a loop over {sizes}{', made again' if again else ''}", run, "eager-sizes")


def _of_lists(rng: Random) -> Many:
    number, each = rng.randint(4, 14), rng.randint(1, 5)

    def run(pad: Callable[[Any], Any]) -> Any:
        join: Any = jnp.concatenate if pad is _as_it_is else np.concatenate
        seen = [np.full(each, 1, np.float32)]
        joined = seen[0]
        for one in range(number):
            joined = np.asarray(join(seen))
            seen.append(np.full(each, one + joined.mean(), np.float32))
        return [joined]

    return Many(f"a list of {number}", run, "eager-sizes")


KINDS = (_of_rows, _of_tables, _of_tables, _of_loops, _of_lists)


def drawn(seed: int) -> Many:
    """The program of a seed."""
    return KINDS[seed % len(KINDS)](Random(seed))


def prove(seed: int) -> list[str]:
    """What the plan gets wrong about the program of a seed."""
    return [f"{seed} {said}" for said in proved(drawn(seed))]


def proved(program: Many) -> list[str]:
    """What the plan gets wrong about a program."""
    named = f"lengths: {program.name}"
    before = ran(lambda: program.run(_as_it_is))
    own = [
        step
        for step in before.plan.steps
        if any(change.family == program.family for change in step.proposal.changes)
    ]
    if not own:  # padding may cost more than it saves
        return []
    pad = _padding(own)
    after = ran(lambda: program.run(pad))
    problems: list[str] = []
    for a, b in zip(before.results, after.results, strict=True):
        # Terms of both signs: what remains is only as exact as they are.
        if not np.allclose(a, b, rtol=1e-4, atol=1e-4):
            problems.append(f"{named}: padded, it gives {b}, and {a} before")
            break
    spared = before.plan.now, after.plan.now
    if program.family == "shape":
        # Other steps may come first; two steps on sizes follow each other.
        alone = before.plan.now.calls.minus(own[0].alone.calls)
        said, true = alone if len(own) == 1 else own[-1].left.calls, after.calls
        if not said.low <= true <= said.high:
            problems.append(f"{named}: {said.low:g} to {said.high:g} calls were said, {true} are")
    else:
        # A body that is no longer recreated saves a call, not an eager operation.
        gone = [_all(one) for one in spared]
        said = own[0].gone.eager
        if own[0].gone.calls.high == 0 and not said.low <= gone[0] - gone[1] <= said.high:
            problems.append(
                f"{named}: {said.low:g} to {said.high:g} operations were to go, of "
                f"{gone[0]} {gone[1]} are left"
            )
    return problems


def _all(amount: Any) -> int:
    return int(amount.eager.high + amount.calls.high)


def _padding(steps: Sequence[Step]) -> Callable[[Any], Any]:
    """A function that pads an array as all of these steps ask together."""
    rules = [(step.proposal.sizes, step.proposal.pairs, step.proposal.advice) for step in steps]

    def pad(x: Any) -> Any:
        shape = list(x.shape)
        for sizes, pairs, advice in rules:
            if pairs is not None:
                shape = _together(pairs, shape)
            elif sizes is not None:
                shape = _each(sizes, shape)
            elif isinstance(advice, FewSizes) and advice.loop:
                shape[0] = 64
        return np.pad(x, [(0, b - a) for a, b in zip(x.shape, shape, strict=True)])

    return pad


def _each(sizes: Sizes, shape: list[int]) -> list[int]:
    found = list(shape)
    for name in sizes.names:
        axis = int(name.rpartition(" axis ")[2])
        if axis < len(found):
            found[axis] = min(one for one in sizes.chosen.sizes if one >= found[axis])
    return found


def _together(pairs: Pairs, shape: list[int]) -> list[int]:
    axes = [int(name.rpartition(" axis ")[2]) for name in pairs.axes]
    corner = corner_of(tuple(shape[axis] for axis in axes), pairs.chosen.sizes)
    found = list(shape)
    for axis, size in zip(axes, corner, strict=True):
        found[axis] = size
    return found

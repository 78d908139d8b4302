"""What padding costs: by elements, by what the programs compute, by how often each was called."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.capture.session import begin_file, session
from retrace.compare.work import Work
from retrace.model import Recording
from retrace.plan.order import plan
from retrace.plan.step import Sizes
from retrace.reason.verdict import judge
from retrace.store.reader import read

Recorded = Callable[[Callable[[], object]], Recording]


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """A program, run under recording."""

    def run(program: Callable[[], object]) -> Recording:
        writer = begin_file(tmp_path)
        try:
            program()
        finally:
            session().detach(writer)
        return read([tmp_path])

    return run


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def sizes_of(recording: Recording) -> Sizes:
    (sizes,) = [
        step.proposal.sizes
        for step in plan(recording, judge(recording)).steps
        if step.proposal.sizes is not None
    ]
    return sizes


def test_operations_are_counted_from_the_programs_own_equations(recorded: Recorded) -> None:
    def loop(x: Any) -> Any:
        return jax.lax.scan(lambda carry, row: (carry + row * row, None), jnp.zeros(3), x)[0]

    def choose(x: Any) -> Any:
        return jax.lax.cond(x[0] > 0, lambda x: x * x * x, lambda x: x + 1, x)

    programs: dict[str, tuple[Callable[..., Any], Sequence[Any], float]] = {
        "product": (lambda x, w: x @ w, (ones(5, 3), ones(3, 7)), 2 * 5 * 3 * 7),
        "batched": (
            lambda x, y: jnp.einsum("bij,bjk->bik", x, y),
            (ones(4, 5, 3), ones(4, 3, 7)),
            2 * 4 * 5 * 3 * 7,
        ),
        "sum": (lambda x: jnp.sum(x), (ones(6, 2),), 12),
        "moved": (lambda x: x.T.reshape(-1)[:3], (ones(6, 2),), 0),
        "loop": (loop, (ones(9, 3),), 9 * (3 + 3)),
        "branches": (choose, (ones(8),), 8 + 8 + 1),
        "convolution": (
            lambda x, k: jax.lax.conv(x, k, (1, 1), "VALID"),
            (ones(2, 3, 8, 8), ones(5, 3, 3, 3)),
            2 * (2 * 5 * 6 * 6) * 3 * 3 * 3,
        ),
    }
    recording = recorded(
        lambda: [jax.jit(program)(*given) for program, given, _ in programs.values()]
    )
    work = Work(recording.listings)
    outermost = [m for m in recording.misses if not m.nested and m.function.kind != "op"]
    assert len(outermost) == len(programs)
    for miss, (name, (_, _, expected)) in zip(outermost, programs.items(), strict=True):
        assert miss.program is not None
        counted = work.of(recording.listings[miss.program.listing or ""])
        assert counted is not None
        # Conversions of an index and the like are a few operations more.
        assert expected <= counted <= expected + 4, name


def test_padding_of_what_grows_with_the_square_costs_more_than_its_elements(
    recorded: Recorded,
) -> None:
    @jax.jit
    def attend(x: Any) -> Any:
        return (x @ x.T) @ x

    found = sizes_of(recorded(lambda: [attend(ones(n, 8)) for n in (31, 57, 64, 92, 128)]))
    one, *_, every = found.curve
    assert one.flops is not None and one.flops > one.padding > 0
    # 1 - sum(n^2) / (5 * 128^2): of products of matrices that is all there is.
    assert abs(one.flops - (1 - sum(n * n for n in (31, 57, 64, 92, 128)) / (5 * 128**2))) < 0.01
    assert every.flops == 0
    assert found.powers.flops is not None and found.powers.flops > found.powers.padding


def test_what_was_counted_weighs_the_padding(recorded: Recorded) -> None:
    step = jax.jit(lambda x: jnp.tanh(x) * 2)
    recording = recorded(lambda: [step(ones(n, 3)) for n in (10, 11, 12, 100)])
    unweighted = sizes_of(recording)
    assert unweighted.counted is None
    for miss in recording.misses:
        miss.calls = 1 if miss.key.leaves[0].shape[0] == 100 else 500
    weighted = sizes_of(recording)
    assert weighted.counted == 1501
    assert weighted.curve[0].padding > unweighted.curve[0].padding


def test_seconds_are_those_of_all_functions_that_have_the_length(recorded: Recorded) -> None:
    made = [jax.jit(lambda x: jnp.sin(x) + 1), jax.jit(lambda x: jnp.cos(x) + 2)]
    recording = recorded(lambda: [f(ones(n, 3)) for n in (10, 11, 12, 13) for f in made])
    for miss in recording.misses:
        miss.stages = dict.fromkeys(miss.stages, 1.0)
    (seconds,) = {miss.seconds for miss in recording.misses}
    assert sizes_of(recording).program == 2 * seconds

"""Constants that become arguments round as before, or the advice says that they may not."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.model.advice import OneCallStyle, ToArgument
from retrace.present.advice import advised as sentence_of
from tests.recording.conftest import JudgeAll

x = np.random.default_rng(0).normal(size=4096).astype(np.float32)

_KEPT: dict[str, Callable[..., Any]] = {
    "product": lambda x, c: x * c,
    "product and sum": lambda x, c: x * c + 0.2,
    "sum and product": lambda x, c: (x + c) * 1.7,
    "sine": lambda x, c: jnp.sin(x * c),
    "choice": lambda x, c: jnp.where(x > 0, x, c),
    "limits": lambda x, c: jnp.clip(x, -1, c),
    "matrix": lambda x, c: ((x * c) @ x) * 1.7,
}
_FOLDED: dict[str, Callable[..., Any]] = {
    "two products": lambda x, c: x * c * 1.7,
    "quotient and product": lambda x, c: x / 0.9 * c,
    "sum and difference": lambda x, c: (x + 0.2) - c,
    "quotient": lambda x, c: x / c,
    "power": lambda x, c: jnp.abs(x) ** c,
    "root": lambda x, c: x / jnp.sqrt(c),
    "sum of products": lambda x, c: (x * c).sum(),
    "numbered": lambda x, c: x + jnp.arange(4096) * c,
    "quantile": lambda x, c: jnp.quantile(x, c),
    "inside": lambda x, c: jnp.where(x > 0, x, jax.jit(lambda y: y * c * 1.7)(x)),
}


@pytest.mark.parametrize("kind", [*_KEPT, *_FOLDED])
def test_constants_that_a_compiler_may_fold_are_told_so(judge_all: JudgeAll, kind: str) -> None:
    computed = (_KEPT | _FOLDED)[kind]
    static = jax.jit(lambda x, c: computed(x, c), static_argnums=1)
    _, verdicts = judge_all(lambda: [static(x, c) for c in (0.37, 0.9)])
    (fix,) = [one.fix for one in verdicts if isinstance(one.fix, ToArgument)]
    assert fix.folded is (kind in _FOLDED)
    assert fix.sure == "clear"
    assert ("bits" in sentence_of(fix)) is fix.folded
    if not fix.folded:  # whether others differ depends on the release of JAX
        traced = jax.jit(lambda x, c: computed(x, c))
        for c in (0.1, 0.37, 0.5, 0.9, 2.0):
            assert np.asarray(static(x, c)).tobytes() == np.asarray(traced(x, c)).tobytes()


@pytest.mark.parametrize("folded", [False, True])
def test_a_default_that_a_compiler_may_fold_is_told_so(judge_all: JudgeAll, folded: bool) -> None:
    chained = jax.jit(lambda x, by=0.7: (x * by) * 0.3 if folded else jnp.sin(x * by))
    _, verdicts = judge_all(lambda: [chained(x), chained(x, by=0.6)])
    (fix,) = [one.fix for one in verdicts if isinstance(one.fix, OneCallStyle)]
    assert fix.folded is folded

"""What custom rules read, which no program shows until it is differentiated."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrace

now = SimpleNamespace(scale=1.0, rate=1.0, verbose=False)


@jax.custom_vjp
def clipped(x: Any) -> Any:
    if now.verbose:
        assert x.ndim
    return x


def scaled(t: Any) -> Any:
    return t * now.scale


clipped.defvjp(lambda x: (x, None), lambda _, t: (scaled(t),))


@jax.custom_jvp
def doubled(x: Any) -> Any:
    return 2 * x


doubled.defjvps(lambda t, _, x: t * now.rate)


def outer(x: Any) -> Any:
    return clipped(x).sum()


def slope(x: Any) -> Any:
    return doubled(x).sum()


def inner(x: Any) -> Any:
    @jax.custom_jvp
    def tripled(x: Any) -> Any:
        return 3 * x

    tripled.defjvp(lambda p, t: (tripled(p[0]), t[0] * now.rate))
    return tripled(x).sum()


def gradient(x: Any) -> Any:
    return jax.grad(outer)(x)


@pytest.mark.parametrize(
    ("changed", "value", "told"),
    [
        ("scale", 2.0, {"outer": "perhaps", "gradient": "proved"}),
        ("rate", 2.0, {"slope": "perhaps", "inner": "perhaps"}),
        ("verbose", True, {}),
    ],
)
def test_a_rule_that_reads_something_else_now(
    changed: str, value: object, told: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jax.clear_caches()
    x = jnp.ones(3)
    with retrace.recording():
        jitted = [jax.jit(each) for each in (outer, slope, inner, gradient)]
        for each in jitted:
            each(x)
        before = jax.grad(jitted[0])(x)
        monkeypatch.setattr(now, changed, value)
        found = retrace.audit()
        np.testing.assert_array_equal(jax.grad(jitted[0])(x), before)  # as it was
    assert {each.function: each.verdict for each in found} == told
    for each in found:
        assert [read["name"] for read in each.reads] == [f"now.{changed}"]
    assert ("leaves" in str(found)) is (not told)


def test_a_rule_that_reads_what_only_it_holds() -> None:
    """A cell of the rule is no cell of the function, which holds it by the derivative's name."""
    it = SimpleNamespace(scale=1.0)

    @jax.custom_vjp
    def scaled_back(x: Any) -> Any:
        return 2 * x

    scaled_back.defvjp(lambda x: (scaled_back(x), None), lambda _, t: (t * it.scale,))
    with retrace.recording():
        total = jax.jit(lambda x: scaled_back(x).sum())
        jax.grad(total)(jnp.ones(3))
        it.scale = 5.0
        (found,) = [one for one in retrace.audit() if one.reads]
    assert found.verdict == "perhaps"
    assert [one["name"] for one in found.reads] == ["scaled_back.it.scale"]

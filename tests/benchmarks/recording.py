"""What recording costs: a call that hits, and a call that misses."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import retrace
from retrace.capture.session import start, stop
from tests.benchmarks.inside import measured
from tests.benchmarks.measure import Ratio, compare, seconds

_CALLS = 2000


@contextmanager
def recorded() -> Generator[Path]:
    """Record into a temporary directory."""
    directory = Path(tempfile.mkdtemp())
    start(directory)
    try:
        yield directory
    finally:
        stop(directory)


def hits(leaves: int, pairs: int) -> Ratio:
    """A call that hits, with `leaves` arguments, with and without recording."""
    tree = {f"x{index}": jnp.ones(2) for index in range(leaves)}

    def function(tree: dict[str, Any]) -> Any:
        return tree["x0"] + 1

    plain = jax.jit(function)
    other = retrace.jit(function)
    plain(tree)
    calls = max(_CALLS // leaves, 20)

    def loop(jitted: Callable[..., Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(calls):
                jitted(tree)

        return run

    def observed() -> float:
        with recorded():
            other(tree)
            return seconds(loop(other)) / calls

    return compare(
        f"a call that hits, {leaves} argument leaves",
        lambda: seconds(loop(plain)) / calls,
        observed,
        pairs,
        1.02,
    )


def smallest_miss(pairs: int) -> Ratio:
    """The smallest miss there is: a recreated lambda with one equation."""
    value = jnp.ones(3)

    def miss() -> None:
        jax.jit(lambda x: x + 1)(value)

    def observed() -> float:
        with recorded():
            miss()
            return seconds(miss)

    return compare("the smallest miss", lambda: seconds(miss), observed, pairs)


def explained_miss(pairs: int) -> Ratio:
    """The same under JAX's own explanations, for comparison."""
    import logging

    logging.getLogger("jax").addHandler(logging.NullHandler())
    logging.getLogger("jax").propagate = False
    value = jnp.ones(3)

    def miss() -> None:
        jax.jit(lambda x: x + 1)(value)

    def explained() -> float:
        with jax.explain_cache_misses(True):
            return seconds(miss)

    return compare(
        "the smallest miss, JAX's own explanation", lambda: seconds(miss), explained, pairs
    )


def chex_miss(pairs: int) -> Ratio | None:
    """The same under chex's assertion, by processor time; None without chex."""
    if find_spec("chex") is None:
        return None
    chex: Any = import_module("chex")

    def asserted(step: Callable[[Any], Any]) -> Any:
        return jax.jit(chex.assert_max_traces(step, n=1 << 30))

    return _compared("`chex.assert_max_traces`", jax.jit, asserted, pairs)


def equinox_miss(pairs: int) -> Ratio | None:
    """The same under equinox's assertion, by processor time; None without equinox."""
    if find_spec("equinox") is None:
        return None
    eqx: Any = import_module("equinox")

    def asserted(step: Callable[[Any], Any]) -> Any:
        return eqx.filter_jit(eqx.debug.assert_max_traces(step, max_traces=1))

    name = "`eqx.debug.assert_max_traces`, both under `eqx.filter_jit`"
    return _compared(name, eqx.filter_jit, asserted, pairs)


def _compared(
    name: str, jit: Callable[..., Any], asserted: Callable[[Any], Any], pairs: int
) -> Ratio:
    value = jnp.ones(3)

    def spent(make: Callable[[Any], Any]) -> float:
        began = process_time()  # of all threads: XLA has its own
        make(lambda x: x + 1)(value)
        return process_time() - began

    return compare(
        f"the smallest miss, inside {name}", lambda: spent(jit), lambda: spent(asserted), pairs
    )


def transformer(layers: int = 64) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A program of more than 10,000 equations over more than 300 leaves."""
    width = 16
    parameters = {
        f"layer{index}": {
            name: np.ones((width, width), np.float32)
            for name in ("q", "k", "v", "o", "up", "down")
        }
        for index in range(layers)
    }

    def layer(x: Any, weights: dict[str, Any]) -> Any:
        mean = jnp.mean(x, -1, keepdims=True)
        x = (x - mean) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-6)
        q, k, v = (x @ weights[name] for name in "qkv")
        attention = jax.nn.softmax(q @ k.T / width**0.5)
        x = x + (attention @ v) @ weights["o"]
        return x + jax.nn.gelu(x @ weights["up"]) @ weights["down"]

    def loss(parameters: dict[str, Any], x: Any) -> Any:
        for weights in parameters.values():
            x = layer(x, weights)
        return jnp.sum(x**2)

    def step(parameters: dict[str, Any], x: Any) -> Any:
        gradient = jax.grad(loss)(parameters, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)

    return step, parameters


def smallest_inside(pairs: int) -> Ratio:
    """The smallest miss, by the share of its time spent inside retrace."""
    value = jnp.ones(3)
    return _inside("the smallest miss", lambda: jax.jit(lambda x: x + 1)(value), pairs, 1.02)


class _Settings:
    def __init__(self) -> None:
        self.table = {"rate": 0.5}
        self.shift = 1.0


_SCALE, _DEEP, _SETTINGS, _TABLE = 2.0, False, _Settings(), np.ones(8, np.float32)


def _reader(x: Any) -> Any:
    y = x * _SCALE if _DEEP else x + _TABLE[0]
    return y * _SETTINGS.table["rate"] + _SETTINGS.shift


def reading_inside(pairs: int) -> Ratio:
    """A small miss of a function that reads globals, whose values are recorded at each trace."""
    value = jnp.ones(3)
    name = "a small miss that reads five globals"
    return _inside(name, lambda: jax.jit(lambda x: _reader(x))(value), pairs)


def large_inside(pairs: int) -> Ratio:
    """A transformer's training step, by the share of its time spent inside retrace."""
    name, miss = _large()
    return _inside(name, miss, pairs, 1.01)


def _inside(
    name: str, miss: Callable[[], object], pairs: int, bound: float | None = None
) -> Ratio:
    """Processor time of the thread that misses.

    Misses vary by more than the bound from one to the next; this share does not. What the other
    thread does while XLA compiles delays nobody.
    """
    plain = [seconds(miss) for _ in range(pairs)]
    shares: list[float] = []
    typical = statistics.median(plain)
    with measured() as inside, recorded():
        miss()
        for _ in range(pairs):
            before = inside.missing
            miss()
            shares.append(1 + (inside.missing - before) / typical)
    share = statistics.median(shares)
    quarter = statistics.quantiles(shares, n=4)
    spread = quarter[0], quarter[2]
    return Ratio(f"{name}, time inside retrace", typical, typical * share, share, spread, bound)


def large_miss(pairs: int) -> Ratio:
    """Trace, lower and compile a transformer's training step."""
    name, miss = _large()

    def observed() -> float:
        with recorded():
            return seconds(miss)

    return compare(name, lambda: seconds(miss), observed, pairs)


def _large() -> tuple[str, Callable[[], object]]:
    step, parameters = transformer()
    x = np.ones((8, 16), np.float32)

    def miss() -> None:
        jax.jit(lambda parameters, x: step(parameters, x)).lower(parameters, x).compile()

    equations = _equations(jax.make_jaxpr(step)(parameters, x).jaxpr)
    leaves = len(jax.tree.leaves(parameters)) + 1
    return f"a miss of {equations:,} equations and {leaves} leaves", miss


def _equations(jaxpr: Any) -> int:
    total = len(jaxpr.eqns)
    for equation in jaxpr.eqns:
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                total += _equations(inner)
    return total

"""Tests that fail when a training step is traced again: `pytest examples/test_guarded.py`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrace


def make_step():
    """A training step, jitted once."""

    def loss(weights, batch):
        return jnp.mean((batch @ weights) ** 2)

    @jax.jit
    def step(weights, batch):
        return weights - 0.1 * jax.grad(loss)(weights, batch)

    return step


def batches(rows, size):
    """The data in batches of one size; what remains is dropped."""
    data = np.ones((rows, 3), np.float32)
    return [data[i : i + size] for i in range(0, rows - size + 1, size)]


@pytest.mark.retrace(max_traces=1, functions="step")
def test_every_batch_has_one_shape():
    step, weights = make_step(), np.ones(3, np.float32)
    for batch in batches(rows=50, size=16):
        weights = step(weights, batch)


def test_nothing_is_compiled_after_the_first_step():
    step, weights = make_step(), jnp.ones(3)
    first, *rest = batches(rows=50, size=16)
    weights = step(weights, first)
    with retrace.freeze("step"):
        for batch in rest:
            weights = step(weights, batch)


def test_another_shape_is_explained():
    step, weights = make_step(), np.ones(3, np.float32)

    @retrace.assert_no_retrace(step, allow={"first-trace"})
    def train():
        for rows in (16, 2):
            step(weights, np.ones((rows, 3), np.float32))

    with pytest.raises(AssertionError, match="axis 0: 16 -> 2") as caught:
        train()
    assert [miss.cause for miss in caught.value.misses] == ["shape-changed"]

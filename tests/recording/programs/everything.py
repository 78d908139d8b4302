"""A little of everything, for recordings that are tampered with."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


class Settings:
    def __init__(self, rate):
        self.rate = rate

    def __eq__(self, other):
        return isinstance(other, Settings) and other.rate == self.rate

    def __hash__(self):
        return hash(self.rate)


@functools.partial(jax.jit, static_argnames=("depth", "settings", "mode"))
def step(state, batch, depth=2, settings=None, mode="train"):
    x = batch["x"]
    for _ in range(depth):
        x = jnp.tanh(x * 2.0) @ state["w"]
    if mode == "train":
        x = x / x.sum()
    return x * (0.1 if settings is None else settings.rate)


@jax.jit
def scanned(x):
    return jax.lax.scan(lambda carry, y: (carry + jnp.sin(y), carry), 0.0, x)


state = {"w": np.ones((3, 3), np.float32)}
for size in (2, 4, 5):
    step(state, {"x": np.ones((size, 3), np.float32)})
batch = {"x": np.ones((2, 3), np.float32)}
for depth in (3, 9, 30):
    step(state, batch, depth=depth)
step(state, batch, settings=Settings(0.2))
step(state, batch, settings=Settings(0.3), mode="test")
step({**state, "b": None}, batch)
step(state, {"x": np.ones((2, 3), np.float16)})
with jax.default_matmul_precision("highest"):
    step(state, batch)
jax.clear_caches()
step(state, batch)
for scale in (1.0, 2.0):
    jax.jit(lambda x, scale=scale: scanned(x)[0] * scale)(np.ones(7, np.float32))
    jax.jit(functools.partial(jnp.multiply, scale))(state["w"])
jax.grad(lambda x: scanned(x)[0])(np.ones(3, np.float32))
print("sum", jnp.ones(3) + 1)

"""Calls of many kinds, for counting: each line is one that users write."""

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np

values = np.arange(6, dtype=np.float32)


@jax.jit
def inner(x):
    return jnp.tanh(x) * 2


@jax.jit
def outer(x):
    return inner(x) + inner(x[:3]).sum()


outer(values)
outer(values)
outer(jnp.asarray(values))
outer(values[:4])
jax.grad(lambda x: outer(x).sum())(values)
jax.vmap(inner)(np.ones((2, 3), np.float32))
jax.hessian(lambda x: inner(x).sum())(values[:2])
inner.lower(np.ones(9, np.float32)).compile()
jax.eval_shape(outer, jax.ShapeDtypeStruct((5,), np.float32))
for scale in (1.0, 2.0):
    jax.jit(functools.partial(jnp.multiply, scale))(values)
    jax.jit(lambda x, scale=scale: x * scale)(values)


def body(carry, x):
    return carry + inner(x), carry


jax.lax.scan(body, np.float32(0), values)
jax.lax.scan(body, np.float32(0), values)
jax.lax.cond(True, lambda x: x + 1, lambda x: x - 1, values)


def product(x):
    """Twice its argument; `cg` runs the `cond`, and then a `while_loop` with another."""
    return jax.lax.cond(x[0] > 9, lambda x: x, lambda x: 2 * x, x)


jax.scipy.sparse.linalg.cg(product, values)


@functools.partial(jax.jit, static_argnames="power")
def raised(x, power):
    if power > 2:
        raise ValueError("too much")
    return x**power


for power in (1, 2, 3, 3):
    try:
        raised(values, power=power)
    except ValueError:
        pass

inner(jax.device_put(values, jax.devices()[0]))
with jax.default_matmul_precision("highest"):
    inner(values)
jax.clear_caches()
inner(values)
threads = [threading.Thread(target=inner, args=(np.ones(n, np.float32),)) for n in (11, 12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("sum", float(outer(values).sum()))

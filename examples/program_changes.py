"""One function, compiled again and again: what became of its program each time.

retrace run examples/program_changes.py
retrace report
retrace programs
"""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames=("depth", "rate", "normalize"))
def step(x, depth=3, rate=0.1, normalize=True):
    for _ in range(depth):
        x = jnp.tanh(x * 2.0)
    if normalize:
        total = jnp.sum(x)
        x = x / total
    else:
        x = jnp.abs(x)
    return x - rate * x


def main():
    batch = jnp.ones((32, 8))
    for rows in (32, 17):
        # shapes-only, the second time: padding the last batch would share the program.
        step(batch[:rows], depth=3, rate=0.1, normalize=True)
    # constants-only: the rate could be an argument that is not static.
    step(batch, depth=3, rate=0.2, normalize=True)
    # repeated: the loop is unrolled; `jax.lax.fori_loop` would keep it one block.
    step(batch, depth=7, rate=0.1, normalize=True)
    # different: the `if` took the other way, which is rightly another program.
    step(batch, depth=3, rate=0.1, normalize=False)
    # identical: the same work once more, wasted.
    jax.clear_caches()
    step(batch, depth=3, rate=0.1, normalize=True)


if __name__ == "__main__":
    main()

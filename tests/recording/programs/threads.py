"""Many threads miss at once: the same call, and each its own functions."""

import asyncio
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np

sys.setswitchinterval(1e-5)
THREADS, ROUNDS = 8, 5
barrier = threading.Barrier(THREADS)
results = []


@jax.jit
def inner(x):
    return jnp.where(x > 1, x, 0.5)


@jax.jit
def shared(x):
    return inner(x).sum()


def work(thread):
    def own(x):
        return inner(x) * thread

    for size in range(1, ROUNDS):
        barrier.wait()
        results.append(float(shared(np.full(size, 2, np.float32))))
        barrier.wait()
        results.append(float(jax.jit(own)(np.full((size, thread + 1), 2, np.float32)).sum()))
        jax.grad(lambda x: own(x).sum())(np.full(100 + thread, 2, np.float32))


threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
for one in threads:
    one.start()
for one in threads:
    one.join()


async def task(number):
    for size in range(1, ROUNDS):
        results.append(float(shared(np.full((size, 1, number), 2, np.float32))))
        await asyncio.sleep(0)
        await asyncio.to_thread(shared, np.full((1, size, number), 2, np.float32))


async def tasks():
    await asyncio.gather(*map(task, range(1, THREADS)))


asyncio.run(tasks())
print(sorted(results))

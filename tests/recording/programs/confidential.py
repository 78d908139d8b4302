"""Has something to hide wherever a program can have something.

SECRET-docstring-of-the-module
"""

import dataclasses
import functools
import os
import sys
import threading
import typing

import jax
import jax.numpy as jnp
import numpy as np
import outside  # type: ignore[import-not-found]  # in a folder outside of the project

KEYS = [f"SECRET-{name}" for name in ("first", "second")]
PINS = [48151623, 42108090]
RATES = [0.271828182, 0.314159265]
VAULT: dict[str, typing.Any] = {"SECRET-subscript": {3: 0.0}, "SECRET-']": 0.0}
x = np.ones((4, 2), np.float32)


@dataclasses.dataclass(frozen=True)
class Settings:
    key: str
    pin: int
    folder: str = "/home/SECRET-user/.credentials"


class Model:
    def __init__(self, key):
        self.key = key

    def __call__(self, x):
        """SECRET-docstring"""
        return x + 1  # SECRET-comment


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=("w",), meta_fields=("key", "pin")
)
@dataclasses.dataclass
class State:
    w: object
    key: str
    pin: int


@functools.partial(jax.jit, static_argnames=("key", "pin", "rate", "settings", "extra"))
def step(x, key="SECRET-default", pin=48151623, rate=0.271828182, settings=None, extra=None):
    """SECRET-docstring-of-step"""
    token = "SECRET-constant"
    del token
    return jnp.mean(x) * rate + pin  # SECRET-comment-of-step


def closing(key, pin):
    return lambda x: x + pin if key else x


kept = []


def jit(function, **options):
    # A program that nobody keeps may be gone before it was written down.
    kept.append(jax.jit(function, **options))
    return kept[-1]


for key, pin, rate in zip(KEYS, PINS, RATES, strict=True):
    step(x, key=key)
    step(x, pin=pin)
    step(x, rate=rate)
    step(x, settings=Settings(key, pin))
    step(x, extra=(key, (pin, rate), key.encode()))
    step(x, key=key, extra=key)
    step(x, extra=(os.environ["MY_SECRET"], *sys.argv[1:]))
    state = State(x, key, pin)
    jit(lambda state: state.w * 2)(state)
    jit(lambda x, key=key: x * rate if key else pin)(x)
    jit(closing(key, pin))(x)
    jit(functools.partial(step, key=key, pin=pin))(x)
    jit(Model(key))(x)
    table = np.array([pin, rate, 3.25, 7.5], np.float32)
    jit(lambda x: x.sum() + table[0] + table)(x)
    jit(lambda x: x + 1, compiler_options={"xla_dump_to": f"/tmp/{key}"}).lower(x)
    lowered = jit(lambda x: x - 1).lower(x)
    for number in range(2):
        lowered.compile(compiler_options={"xla_dump_to": f"/tmp/{key}-{number}"})
    with jax.default_matmul_precision("highest"):  # SECRET-comment-of-the-context
        jit(lambda x: x @ x.T)(x)
    spoken = key
    jit(lambda x: x * len(spoken) + (pin if spoken == KEYS[0] else rate))(x)
    jit(lambda x: jax.lax.slice(x, (0, 0), (3, 1)).sum() ** (pin % 97))(x)
    outside.compute(x, key)
    VAULT["SECRET-subscript"][3] = rate
    VAULT["SECRET-']"] = rate
    jit(lambda x: x * VAULT["SECRET-subscript"][3] + VAULT["SECRET-']"])(x)
    jit(lambda x, n: jax.lax.fori_loop(0, n, lambda _, c: c + x, x), static_argnums=1)(x, pin)
    jax.lax.scan(lambda carry, y: (carry + y.sum() * rate, pin), 0.0, x)

    @jax.jit
    def fails(x):
        raise ValueError(f"{key} in the text of an error")

    try:
        fails(x)
    except ValueError:
        pass
    for rows, name in ((3, key), (1, f"Thread-1-{key}")):
        thread = threading.Thread(target=step, args=(x[:rows],), kwargs={"key": key}, name=name)
        thread.start()
        thread.join()
    code = f"lambda x: x - {pin}  # {key}"
    jit(eval(compile(code, f"<{key}>", "eval")))(x)
step(x[:2], rate=float("nan"), settings=None)
step(x[:2])
step(x.astype(np.float16))
summed = jit(lambda tree: tree[min(tree)].sum())
for size, name in ((2, "left"), (3, "left"), (3, "right")):
    summed({name: x[:size]})

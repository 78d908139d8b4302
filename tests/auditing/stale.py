"""Forty programs whose compiled functions go on with an old value.

Each is a generator: it yields a call, which traces, and changes afterwards what the function has
read. Modelled on what users of JAX have reported: globals, configs, attributes, environment
variables, buffers, schedules, modules that are reloaded.
"""

# JAX's own annotations, and those of flax, are partial; the programs are written as users write.
# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import os
import tempfile
import types
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

Program = Callable[[], Iterator[Callable[[], Any]]]
PROGRAMS: list[Program] = []
x = jnp.arange(3.0)


def stale(program: Program) -> Program:
    PROGRAMS.append(program)
    return program


scale = 2.0
training = True
depth = 2
config = {"rate": 0.1, "loss": "l2"}
options = types.SimpleNamespace(eps=1e-3, nested=types.SimpleNamespace(beta=0.9))
weights = jnp.ones(3)
mask = np.array([1, 0, 1], np.float32)
table = np.zeros(3, np.float32)
activation = jnp.tanh
layers = [1.0, 2.0]
context: contextvars.ContextVar[float] = contextvars.ContextVar("context", default=2.0)


@stale
def a_global() -> Iterator[Any]:
    global scale
    scale = 2.0
    f = jax.jit(lambda x: x * scale)
    yield lambda: f(x)
    scale = 3.0


@stale
def a_flag() -> Iterator[Any]:
    global training
    training = True
    f = jax.jit(lambda x: jnp.maximum(x, 0.5) if training else x)
    yield lambda: f(x)
    training = False


@stale
def a_number_of_layers() -> Iterator[Any]:
    global depth
    depth = 2

    @jax.jit
    def f(x: Any) -> Any:
        for _ in range(depth):
            x = jnp.sin(x)
        return x

    yield lambda: f(x)
    depth = 4


@stale
def an_item_of_a_dict() -> Iterator[Any]:
    config["rate"] = 0.1
    f = jax.jit(lambda x: x * config["rate"])
    yield lambda: f(x)
    config["rate"] = 0.01


@stale
def a_text_that_chooses() -> Iterator[Any]:
    config["loss"] = "l2"
    f = jax.jit(lambda x: (x**2).sum() if config["loss"] == "l2" else jnp.abs(x).sum())
    yield lambda: f(x)
    config["loss"] = "l1"


@stale
def a_namespace() -> Iterator[Any]:
    options.eps = 1e-3
    f = jax.jit(lambda x: x / (x.sum() + options.eps))
    yield lambda: f(x)
    options.eps = 1e-1


@stale
def a_nested_namespace() -> Iterator[Any]:
    options.nested.beta = 0.9
    f = jax.jit(lambda x: x * options.nested.beta)
    yield lambda: f(x)
    options.nested.beta = 0.5


@stale
def a_closure() -> Iterator[Any]:
    rate = 0.5
    f = jax.jit(lambda x: x * rate)
    yield lambda: f(x)
    rate = 0.25


@stale
def a_list_in_a_closure() -> Iterator[Any]:
    held = [1.0, 2.0]
    f = jax.jit(lambda x: x * held[0])
    yield lambda: f(x)
    held[0] = 5.0


@stale
def a_list_that_grew() -> Iterator[Any]:
    held = [1.0, 2.0]

    @jax.jit
    def f(x: Any) -> Any:
        for one in held:
            x = x * one
        return x

    yield lambda: f(x)
    held.append(3.0)


@stale
def an_environment_variable() -> Iterator[Any]:
    os.environ["RETRACE_TEST_SCALE"] = "2"
    f = jax.jit(lambda x: x * float(os.environ["RETRACE_TEST_SCALE"]))
    yield lambda: f(x)
    os.environ["RETRACE_TEST_SCALE"] = "3"


@stale
def a_device_array() -> Iterator[Any]:
    global weights
    weights = jnp.ones(3)
    f = jax.jit(lambda x: x @ weights)
    yield lambda: f(x)
    weights = jnp.full(3, 2.0)


@stale
def a_numpy_array_replaced() -> Iterator[Any]:
    global mask
    mask = np.array([1, 0, 1], np.float32)
    f = jax.jit(lambda x: x * mask)
    yield lambda: f(x)
    mask = np.array([0, 1, 0], np.float32)


@stale
def a_numpy_buffer_changed_in_place() -> Iterator[Any]:
    table[:] = 0
    f = jax.jit(lambda x: x + table)
    yield lambda: f(x)
    table[1] = 7


@stale
def a_memory_map_changed_in_place() -> Iterator[Any]:
    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, np.float32, "w+", shape=3)
    f = jax.jit(lambda x: x + mapped)
    yield lambda: f(x)
    mapped[1] = 7


@stale
def a_large_constant() -> Iterator[Any]:
    held = types.SimpleNamespace(big=np.zeros((200, 200), np.float32))
    f = jax.jit(lambda x: x.sum() + held.big.sum() + jnp.asarray(held.big)[0, 0])
    yield lambda: f(x)
    held.big = np.ones((200, 200), np.float32)


class Model:
    gain = 2.0

    def __init__(self) -> None:
        self.training = True
        self.rate = 0.5

    def __call__(self, x: Any) -> Any:
        return x * self.rate

    def step(self, x: Any) -> Any:
        return x + 1 if self.training else x - 1

    @functools.partial(jax.jit, static_argnums=0)
    def scaled(self, x: Any) -> Any:
        return x * self.rate


@stale
def an_attribute_of_self() -> Iterator[Any]:
    model = Model()
    f = jax.jit(model.step)
    yield lambda: f(x)
    model.training = False


@stale
def a_callable_instance() -> Iterator[Any]:
    model = Model()
    f = jax.jit(model)
    yield lambda: f(x)
    model.rate = 0.25


@stale
def a_static_self() -> Iterator[Any]:
    model = Model()
    yield lambda: model.scaled(x)
    model.rate = 0.25


@stale
def a_property() -> Iterator[Any]:
    class Model:
        _rate = 1.0

        @property
        def rate(self) -> float:
            return self._rate * 2

    model = Model()
    f = jax.jit(lambda x: x * model.rate)
    yield lambda: f(x)
    model._rate = 3.0


@stale
def a_static_object() -> Iterator[Any]:
    class Settings:
        def __init__(self) -> None:
            self.gain = 2.0

    settings = Settings()

    @functools.partial(jax.jit, static_argnums=0)
    def f(settings: Settings, x: Any) -> Any:
        return x * settings.gain

    yield lambda: f(settings, x)
    settings.gain = 3.0


@stale
def a_setting_that_was_not_set() -> Iterator[Any]:
    settings: dict[str, float] = {}
    f = jax.jit(lambda x: x * settings.get("gain", 1.0))
    yield lambda: f(x)
    settings["gain"] = 3.0


@stale
def a_class_attribute() -> Iterator[Any]:
    Model.gain = 2.0
    f = jax.jit(lambda x: x * Model.gain)
    yield lambda: f(x)
    Model.gain = 4.0


@stale
def a_monkey_patched_function() -> Iterator[Any]:
    module = types.ModuleType("patched")
    module.loss = lambda x: x.sum()  # type: ignore[attr-defined]
    f = jax.jit(lambda x: module.loss(x))  # type: ignore[attr-defined]
    yield lambda: f(x)
    module.loss = lambda x: x.max()  # type: ignore[attr-defined]


@stale
def a_monkey_patched_method() -> Iterator[Any]:
    class Patched:
        def loss(self, x: Any) -> Any:
            return x.sum()

    held = Patched()
    f = jax.jit(lambda x: held.loss(x))
    yield lambda: f(x)
    Patched.loss = lambda self, x: x.mean()  # type: ignore[method-assign]


@stale
def a_function_chosen_by_a_global() -> Iterator[Any]:
    global activation
    activation = jnp.tanh
    f = jax.jit(lambda x: activation(x))
    yield lambda: f(x)
    activation = jnp.sin


@stale
def a_helper_reads_it() -> Iterator[Any]:
    global scale
    scale = 2.0

    def helper(x: Any) -> Any:
        return x * scale

    f = jax.jit(lambda x: helper(x) + 1)
    yield lambda: f(x)
    scale = 3.0


@jax.jit
def jitted_helper(x: Any) -> Any:
    return x * scale


@stale
def a_jitted_helper_reads_it() -> Iterator[Any]:
    global scale
    scale = 2.0
    jitted_helper.clear_cache()
    f = jax.jit(lambda x: jitted_helper(x) + 1)
    yield lambda: f(x)
    scale = 3.0


@stale
def the_body_of_a_scan() -> Iterator[Any]:
    global scale
    scale = 2.0

    def body(carry: Any, x: Any) -> Any:
        return carry * scale, x

    f = jax.jit(lambda x: jax.lax.scan(body, 1.0, x)[0])
    yield lambda: f(x)
    scale = 3.0


@stale
def the_branch_of_a_cond() -> Iterator[Any]:
    global scale
    scale = 2.0

    def branch(x: Any) -> Any:
        return x * scale

    f = jax.jit(lambda x: jax.lax.cond(x[0] > 0, branch, lambda x: x, x))
    yield lambda: f(x)
    scale = 3.0


@stale
def below_a_gradient() -> Iterator[Any]:
    global scale
    scale = 2.0

    def loss(x: Any) -> Any:
        return ((x * scale) ** 2).sum()

    f = jax.jit(jax.grad(loss))
    yield lambda: f(x)
    scale = 3.0


@stale
def below_a_vmap() -> Iterator[Any]:
    global scale
    scale = 2.0
    f = jax.jit(jax.vmap(lambda x: x * scale))
    yield lambda: f(x)
    scale = 3.0


@stale
def a_checkpointed_function() -> Iterator[Any]:
    global scale
    scale = 2.0
    inner = jax.checkpoint(lambda x: jnp.sin(x) * scale)
    f = jax.jit(jax.grad(lambda x: inner(x).sum()))
    yield lambda: f(x)
    scale = 3.0


@stale
def a_custom_rule() -> Iterator[Any]:
    global scale
    scale = 2.0

    @jax.custom_jvp
    def inner(x: Any) -> Any:
        return x * scale

    inner.defjvp(lambda primals, tangents: (inner(*primals), tangents[0] * scale))
    f = jax.jit(lambda x: inner(x))
    yield lambda: f(x)
    scale = 3.0


@stale
def a_partial_with_a_dict() -> Iterator[Any]:
    bound = {"rate": 0.1}

    def step(bound: dict[str, float], x: Any) -> Any:
        return x * bound["rate"]

    f = jax.jit(functools.partial(step, bound))
    yield lambda: f(x)
    bound["rate"] = 0.2


@stale
def a_default_that_is_changed() -> Iterator[Any]:
    def step(x: Any, *, held: dict[str, float] = {"rate": 0.1}) -> Any:  # noqa: B006
        return x * held["rate"]

    f = jax.jit(lambda x: step(x))
    yield lambda: f(x)
    assert step.__kwdefaults__ is not None
    step.__kwdefaults__["held"]["rate"] = 0.2


@stale
def a_decorator_with_a_cell() -> Iterator[Any]:
    factor = 2.0

    def scaled(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(x: Any) -> Any:
            return function(x) * factor

        return wrapper

    f = jax.jit(scaled(lambda x: x + 1))
    yield lambda: f(x)
    factor = 3.0


@dataclasses.dataclass
class Config:
    rate: float = 0.1
    mode: str = "train"


@stale
def a_dataclass() -> Iterator[Any]:
    held = Config()
    f = jax.jit(lambda x: x * held.rate)
    yield lambda: f(x)
    held.rate = 0.5


class Mode(enum.Enum):
    TRAIN = 1
    TEST = 2


@stale
def an_enum() -> Iterator[Any]:
    held = types.SimpleNamespace(mode=Mode.TRAIN)
    f = jax.jit(lambda x: x * 2 if held.mode is Mode.TRAIN else x)
    yield lambda: f(x)
    held.mode = Mode.TEST


@stale
def a_context_variable() -> Iterator[Any]:
    token = context.set(2.0)
    f = jax.jit(lambda x: x * context.get())
    yield lambda: f(x)
    context.reset(token)
    context.set(5.0)


@stale
def a_schedule_over_a_global() -> Iterator[Any]:
    held = types.SimpleNamespace(base=0.1)
    optimizer = optax.inject_hyperparams(optax.sgd)(learning_rate=0.1)
    plain = optax.scale_by_schedule(lambda count: -held.base * count)
    state = plain.init(x)
    del optimizer
    f = jax.jit(lambda grads: plain.update(grads, state)[0])
    yield lambda: f(x)
    held.base = 0.5


@stale
def a_global_optimizer() -> Iterator[Any]:
    held = types.SimpleNamespace(optimizer=optax.sgd(0.1))
    state = held.optimizer.init(x)
    f = jax.jit(lambda grads: held.optimizer.update(grads, state)[0])
    yield lambda: f(x)
    held.optimizer = optax.sgd(0.5)


class Dense(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(2)(x) * options.eps


@stale
def below_a_flax_module() -> Iterator[Any]:
    options.eps = 1e-3
    model = Dense()
    variables = model.init(jax.random.key(0), x)
    f = jax.jit(lambda v, x: model.apply(v, x))
    yield lambda: f(variables, x)
    options.eps = 2e-3


class Linear(eqx.Module):
    weight: Any
    holder: Any = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        return self.weight * x * self.holder.rate


@stale
def below_an_nnx_module() -> Iterator[Any]:
    global scale
    scale = 2.0

    class Scaled(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.linear = nnx.Linear(3, 2, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.linear(x) * scale

    model = Scaled(nnx.Rngs(0))
    f = nnx.jit(lambda model, x: model(x))
    yield lambda: f(model, x)
    scale = 3.0


@stale
def what_nnx_jit_reads() -> Iterator[Any]:
    config["rate"] = 0.1
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    f = nnx.jit(lambda model, x: model(x) * config["rate"])
    yield lambda: f(model, x)
    config["rate"] = 0.3


@stale
def a_static_field_of_equinox() -> Iterator[Any]:
    holder = Model()
    model = Linear(jnp.ones(3), holder)
    f = eqx.filter_jit(lambda model, x: model(x))
    yield lambda: f(model, x)
    holder.rate = 0.75


@stale
def a_deque() -> Iterator[Any]:
    recent = collections.deque([1.0, 2.0], maxlen=2)
    f = jax.jit(lambda x: x * sum(recent))
    yield lambda: f(x)
    recent.append(4.0)


@stale
def a_context_manager_of_the_user() -> Iterator[Any]:
    held = types.SimpleNamespace(on=False)

    @contextlib.contextmanager
    def enabled() -> Iterator[None]:
        held.on = True
        yield
        held.on = False

    f = jax.jit(lambda x: x * 2 if held.on else x)

    def call() -> Any:
        with enabled():
            return f(x)

    yield call

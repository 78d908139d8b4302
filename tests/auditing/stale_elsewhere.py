"""Programs that are out of date, where it is hard to see: a program as in `stale`.

What they read lies in files, other modules, other threads, class bodies; or it is in a part of
the program that JAX keeps apart: rules, operations of its own, what it prints.
"""

# JAX's own annotations, and those of flax, are partial; the programs are written as users write.
# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

import asyncio
import collections
import configparser
import contextlib
import dataclasses
import functools
import importlib
import json
import logging
import sys
import tempfile
import types
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from tests.auditing.stale import Program

PROGRAMS: list[Program] = []
x = jnp.arange(3.0)
folder = Path(tempfile.mkdtemp())
logger = logging.getLogger("retrace.stale")


def stale(program: Program) -> Program:
    PROGRAMS.append(program)
    return program


def held(**values: Any) -> Any:
    return types.SimpleNamespace(**values)


@stale
def what_is_printed() -> Iterator[Any]:
    it = held(text="x is {}")

    def f(x: Any) -> Any:
        jax.debug.print(it.text, x)
        return x * 2

    jitted = jax.jit(f)
    yield lambda: jitted(x)
    it.text = "now it is {}"


@stale
def an_operation_written_as_a_class() -> Iterator[Any]:
    it = held(k=1.0)

    def solve(f: Any, y: Any) -> Any:
        return y - f(y)

    def root(x: Any) -> Any:
        return jax.lax.custom_root(
            lambda y: y - it.k * x, x, solve, lambda g, y: y / g(jnp.ones_like(y))
        )

    f = jax.jit(root)
    yield lambda: f(x)
    it.k = 2.0


@stale
def beside_what_differs_at_each_trace() -> Iterator[Any]:
    it = held(k=1.0)
    f = eqx.filter_jit(lambda x: eqx.error_if(x, (x < -9).any(), "negative") * it.k)
    yield lambda: f(x)
    it.k = 2.0


@stale
def a_rule_of_a_gradient() -> Iterator[Any]:
    it = held(clip=1.0)

    @jax.custom_vjp
    def inner(x: Any) -> Any:
        return x * 2

    inner.defvjp(lambda x: (inner(x), None), lambda _, g: (jnp.clip(g, -it.clip, it.clip),))
    f = jax.jit(jax.grad(lambda x: inner(x).sum()))
    yield lambda: f(x)
    it.clip = 0.5


@stale
def traced_in_a_pool() -> Iterator[Any]:
    it = held(k=1.0)
    f = jax.jit(lambda x: x * it.k)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(f, x).result()
    yield lambda: f(x)
    it.k = 2.0


@stale
def traced_in_a_task() -> Iterator[Any]:
    it = held(k=1.0)
    f = jax.jit(lambda x: x * it.k)

    async def main() -> Any:
        return f(x)

    asyncio.run(main())
    yield lambda: f(x)
    it.k = 2.0


@stale
def a_module_that_is_reloaded() -> Iterator[Any]:
    file = folder / "retrace_reloaded.py"
    file.write_text("def loss(x): return (x**2).sum()\n")
    sys.path.insert(0, str(folder))
    module = importlib.import_module("retrace_reloaded")
    f = jax.jit(lambda x: module.loss(x))
    yield lambda: f(x)
    file.write_text("def loss(x):\n    return abs(x).sum()  # the second\n")
    importlib.invalidate_caches()
    importlib.reload(module)
    sys.path.remove(str(folder))


@stale
def a_file_that_is_read() -> Iterator[Any]:
    file = folder / "config.json"
    file.write_text('{"rate": 1.0}')

    def rate() -> float:
        with open(file, encoding="utf-8") as opened:
            return json.load(opened)["rate"]

    f = jax.jit(lambda x: x * rate())
    yield lambda: f(x)
    file.write_text('{"rate": 2.0}')


@stale
def a_parameter_that_was_captured() -> Iterator[Any]:
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    f = jax.jit(lambda x: model(x))
    yield lambda: f(x)
    model.kernel[...] = model.kernel[...] * 2


@stale
def a_config_of_a_flax_module() -> Iterator[Any]:
    class Config:
        rate = 0.5

    class Net(nn.Module):
        config: Config

        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(2)(x) * self.config.rate

    config = Config()
    net = Net(config)
    variables = net.init(jax.random.key(0), x)
    f = jax.jit(net.apply)
    yield lambda: f(variables, x)
    config.rate = 0.75


@stale
def an_attribute_of_a_base_class() -> Iterator[Any]:
    class Base:
        gain = 1.0

    class Derived(Base):
        def step(self, x: Any) -> Any:
            return x * self.gain

    f = jax.jit(Derived().step)
    yield lambda: f(x)
    Base.gain = 2.0


@stale
def another_class() -> Iterator[Any]:
    class One:
        def step(self, x: Any) -> Any:
            return x

    class Two(One):
        def step(self, x: Any) -> Any:
            return x * 2

    one = One()
    f = jax.jit(lambda x: one.step(x))
    yield lambda: f(x)
    one.__class__ = Two


@stale
def a_function_for_a_type() -> Iterator[Any]:
    @functools.singledispatch
    def apply(kind: Any, x: Any) -> Any:
        return x

    f = jax.jit(lambda x: apply(1, x))
    yield lambda: f(x)
    apply.register(int, lambda kind, x: x * 3)


@stale
def a_memo_that_was_cleared() -> Iterator[Any]:
    it = held(k=1.0)

    @functools.lru_cache
    def helper(n: int) -> float:
        return n * it.k

    f = jax.jit(lambda x: x * helper(2))
    yield lambda: f(x)
    it.k = 4.0
    helper.cache_clear()


@stale
def minus_zero() -> Iterator[Any]:
    it = held(k=0.0)
    f = jax.jit(lambda x: x * it.k)
    yield lambda: f(x)
    it.k = -0.0


@stale
def one_of_two_programs() -> Iterator[Any]:
    it = held(k=1.0)

    def step(x: Any) -> Any:
        return x * it.k

    f, g = jax.jit(step), jax.jit(step)
    yield lambda: f(x)
    it.k = 2.0
    g(jnp.ones(5))


@stale
def a_level_of_logging_that_matters() -> Iterator[Any]:
    logger.setLevel(logging.INFO)

    def f(x: Any) -> Any:
        logger.info("traced")
        return x + 1 if logger.isEnabledFor(logging.DEBUG) else x

    jitted = jax.jit(f)
    yield lambda: jitted(x)
    logger.setLevel(logging.DEBUG)


@stale
def beside_containers_of_its_own() -> Iterator[Any]:
    it = held(rates=[1.0, 2.0], base={"k": 1.0})

    def fill(into: dict[str, Any], x: Any) -> None:
        into["y"] = x * it.base["k"]

    def f(x: Any) -> Any:
        found, table = [], dict(it.base)
        for i, rate in enumerate(it.rates):
            found.append(x * rate)
            table.setdefault(str(i), 0.0)
            table[str(i)] += rate
        fill(table, x)
        copied = it.base.copy()
        copied["k"] = 3.0
        return sum(found) * table["0"] + table["y"]

    jitted = jax.jit(f)
    yield lambda: jitted(x)
    it.rates[0] = 9.0


@stale
def below_a_method_named_update() -> Iterator[Any]:
    class Optimizer:
        def __init__(self) -> None:
            self.rate = 0.1

        def update(self, gradients: Any) -> Any:
            return -self.rate * gradients

    it = held(optimizer=Optimizer(), others={"sgd": optax.sgd(0.1)})

    def f(x: Any) -> Any:
        other = it.others["sgd"]
        return it.optimizer.update(x) + other.update(x, other.init(x))[0]

    jitted = jax.jit(f)
    yield lambda: jitted(x)
    it.optimizer.rate = 0.2


@stale
def a_view_of_a_buffer() -> Iterator[Any]:
    buffer = np.ones((2, 3), np.float32)
    row = buffer[0]
    f = jax.jit(lambda x: x * row)
    yield lambda: f(x)
    buffer[0, 1] = 9


@stale
def an_index_that_jax_converts() -> Iterator[Any]:
    index = np.array([0, 1])
    f = jax.jit(lambda x: x[index])
    yield lambda: f(x)
    index[0] = 2


@stale
def a_table_of_64_bits() -> Iterator[Any]:
    table = {"rates": np.array([0.5, 1.0, 2.0])}
    nested = jax.jit(lambda x, rates: x * rates)
    f = jax.jit(lambda x: nested(x, table["rates"]))
    yield lambda: f(x)
    table["rates"][1] = 9


@stale
def the_body_of_a_shard_map() -> Iterator[Any]:
    settings = held(k=2.0)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    if hasattr(jax, "shard_map"):
        shard_map = jax.shard_map
    else:
        from jax.experimental.shard_map import shard_map
    body = shard_map(lambda x: x * settings.k, mesh=mesh, in_specs=spec, out_specs=spec)
    f = jax.jit(body)
    yield lambda: f(x)
    settings.k = 3.0


@stale
def a_rate_beside_what_is_donated() -> Iterator[Any]:
    settings = held(rate=0.5)
    f = jax.jit(lambda p, g: p - settings.rate * g, donate_argnums=0)
    yield lambda: f(jnp.ones(3), x)
    settings.rate = 0.1


@stale
def a_file_of_settings() -> Iterator[Any]:
    settings = configparser.ConfigParser()
    settings["model"] = {"rate": "0.5"}
    f = jax.jit(lambda x: x * settings.getfloat("model", "rate"))
    yield lambda: f(x)
    settings["model"]["rate"] = "0.25"


@stale
def the_code_of_a_function() -> Iterator[Any]:
    def g(x: Any) -> Any:
        return x * 2

    def other(x: Any) -> Any:
        return x * 5

    f = jax.jit(g)
    yield lambda: f(x)
    g.__code__ = other.__code__


@stale
def the_defaults_of_a_dataclass() -> Iterator[Any]:
    @dataclasses.dataclass
    class Config:
        rate: float = 0.1

    f = jax.jit(lambda x: x * Config().rate)
    yield lambda: f(x)
    Config.__init__.__defaults__ = (0.3,)


@stale
def what_a_descriptor_gives() -> Iterator[Any]:
    class Rate:
        value = 2.0

        def __get__(self, owner: Any, kind: Any) -> float:
            return self.value

    class Model:
        rate = Rate()

    model = Model()
    f = jax.jit(lambda x: x * model.rate)
    yield lambda: f(x)
    vars(Model)["rate"].value = 3.0


@stale
def an_attribute_of_a_metaclass() -> Iterator[Any]:
    class Meta(type):
        rate = 2.0

    class Model(metaclass=Meta):
        pass

    f = jax.jit(lambda x: x * Model.rate)
    yield lambda: f(x)
    Meta.rate = 3.0


@stale
def a_layer_of_a_chain_of_maps() -> Iterator[Any]:
    defaults = {"k": 2.0}
    settings = collections.ChainMap({}, defaults)
    f = jax.jit(lambda x: x * settings["k"])
    yield lambda: f(x)
    defaults["k"] = 4.0


@stale
def a_length_of_a_scan_below_a_gradient() -> Iterator[Any]:
    settings = held(n=3)

    @jax.jit
    def roll(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (c * 1.5, None), x, None, length=settings.n)[0].sum()

    f = jax.jit(jax.value_and_grad(roll))
    yield lambda: f(x)
    settings.n = 5


S = jax.ShapeDtypeStruct((3,), np.float32)


def scaled(k: float, y: Any) -> Any:
    return np.asarray(y * k, np.float32)


@stale
def a_callback_that_holds_a_number() -> Iterator[Any]:
    it = held(k=1.0)

    def f(x: Any) -> Any:
        k = it.k
        return jax.pure_callback(lambda y: scaled(k, y), S, x)

    jitted = jax.jit(f)
    yield lambda: jitted(x)
    it.k = 2.0


@stale
def a_callback_that_binds_a_number() -> Iterator[Any]:
    it = held(k=1.0)
    f = jax.jit(lambda x: jax.pure_callback(functools.partial(scaled, it.k), S, x))
    yield lambda: f(x)
    it.k = 2.0


@stale
def a_callback_of_another_object() -> Iterator[Any]:
    class Scale:
        def __init__(self, k: float) -> None:
            self.k = k

        def __call__(self, y: Any) -> Any:
            return scaled(self.k, y)

        def of(self, y: Any) -> Any:
            return scaled(self.k, y)

    it = held(scale=Scale(1.0))
    f = jax.jit(lambda x: jax.pure_callback(it.scale.of, S, x))
    yield lambda: f(x)
    it.scale = Scale(2.0)


@stale
def what_a_cached_function_computes() -> Iterator[Any]:
    it = held(scale=1.0)

    @functools.lru_cache
    def table(n: int, scale: float) -> Any:
        return jnp.arange(n) * scale

    table(3, 1.0)
    f = jax.jit(lambda x: x + table(3, it.scale))
    yield lambda: f(x)
    it.scale = 2.0


@stale
def a_setting_around_operations() -> Iterator[Any]:
    it = held(whole=True)

    def draw(key: Any) -> Any:
        with jax.threefry_partitionable(it.whole):
            return jax.random.uniform(key, (3,))

    f, key = jax.jit(draw), jax.random.key(0)
    yield lambda: f(key)
    it.whole = False


@stale
def a_cached_property() -> Iterator[Any]:
    class Model:
        k = 1.0

        @functools.cached_property
        def w(self) -> Any:
            return jnp.ones(3) * self.k

    model = Model()
    assert model.w is not None
    f = jax.jit(lambda x: x * model.w)
    yield lambda: f(x)
    model.k = 2.0
    del model.w


@stale
def a_function_first_traced_inside_another() -> Iterator[Any]:
    it = held(k=1.0)

    @jax.jit
    def inner(x: Any) -> Any:
        return x * it.k

    jax.jit(lambda x: inner(x) + 1)(x)  # gone with its program
    yield lambda: inner(x)
    it.k = 2.0


@stale
def the_first_of_a_container() -> Iterator[Any]:
    rates = {"a": 1.0}
    f = jax.jit(lambda x: x * next(iter(rates.values())))
    yield lambda: f(x)
    rates["a"] = 2.0


@stale
def behind_a_weak_proxy() -> Iterator[Any]:
    class Config:
        rate = 1.0

    config = Config()
    proxy = weakref.proxy(config)
    f = jax.jit(lambda x: x * proxy.rate)
    yield lambda: (config, f(x))[1]
    config.rate = 2.0


@stale
def a_number_in_an_array_changed_in_place() -> Iterator[Any]:
    rate = np.array(0.5, np.float32)
    f = jax.jit(lambda x: jnp.clip(x, 0, rate))
    yield lambda: f(x)
    rate *= 0.1  # the literal in the jaxpr is the array itself


@stale
def a_double_in_an_array_changed_in_place() -> Iterator[Any]:
    it = held(rate=np.array(0.5))
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c * it.rate, x))
    yield lambda: f(x)
    it.rate += 1


@stale
def an_array_returned_as_it_is_and_changed_in_place() -> Iterator[Any]:
    table = np.arange(4.0)
    f = jax.jit(lambda x: (x, table))
    yield lambda: f(x)
    table += 1  # converted where no operation is traced any more


@stale
def what_a_helper_appends() -> Iterator[Any]:
    it = held(rate=1.0)

    def tracked(value: Any) -> Any:
        log: list[Any] = []
        log.append(value)
        return log[0]

    f = jax.jit(lambda x: x * tracked(it.rate))
    yield lambda: f(x)
    it.rate = 2.0


class Overridden:
    """Its own attributes may be set around calls; those of other objects are not."""

    def __init__(self) -> None:
        self.rate = 1.0

    @contextlib.contextmanager
    def override(self, name: str, value: float) -> Iterator[None]:
        before = getattr(self, name)
        setattr(self, name, value)
        try:
            yield
        finally:
            setattr(self, name, before)


@stale
def an_attribute_beside_an_object_that_is_overridden() -> Iterator[Any]:
    it, settings = held(rate=1.0), Overridden()
    f = jax.jit(lambda x: x * it.rate * settings.rate)
    yield lambda: f(x)
    it.rate = 2.0

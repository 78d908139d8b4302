"""Forty programs that change something, and whose compiled functions are as they should be.

Each is a generator as in `stale`: what it changes is read by nothing, or leaves the program.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportSelfClsParameterName=false

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import decimal
import functools
import inspect
import io
import itertools
import logging
import random
import sys
import threading
import time
import types
import warnings
from collections.abc import Iterator
from typing import Any

import chex
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


def harmless(program: Program) -> Program:
    PROGRAMS.append(program)
    return program


traces = 0
log: list[Any] = []
memo: dict[Any, Any] = {}
debug = False
verbose = 1
threshold = 0.5
seen: set[str] = set()
counter = itertools.count()
config = {"rate": 0.1, "name": "first"}
logger = logging.getLogger("retrace.harmless")
weights = jnp.ones(3)
mask = np.ones(3, np.float32)


@harmless
def a_counter_of_traces() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        global traces
        traces += 1
        return x + 1

    yield lambda: f(x)


@harmless
def the_state_of_an_nnx_module() -> Iterator[Any]:
    class Counted(nnx.Module):
        def __init__(self) -> None:
            self.calls = nnx.Variable(jnp.array(0))
            self.linear = nnx.Linear(3, 2, rngs=nnx.Rngs(0))

        def __call__(self, x: Any) -> Any:
            self.calls[...] += 1
            return self.linear(x)

    model = Counted()
    f = nnx.jit(lambda model, x: model(x).shape[0] + x)
    yield lambda: f(model, x)
    model.linear.kernel[...] = model.linear.kernel[...] * 2


@harmless
def a_log_of_shapes() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        log.append(x.shape)
        return x + 2

    yield lambda: f(x)


@harmless
def a_memo_table() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        if x.shape not in memo:
            memo[x.shape] = 3.0
        return x * memo[x.shape]

    yield lambda: f(x)
    memo[(99,)] = 4.0


@harmless
def a_memoized_helper() -> Iterator[Any]:
    @functools.lru_cache
    def helper(n: int) -> float:
        return n * 2.0

    f = jax.jit(lambda x: x * helper(3))
    yield lambda: f(x)
    helper(4)


@harmless
def a_debug_flag() -> Iterator[Any]:
    global debug
    debug = False

    @jax.jit
    def f(x: Any) -> Any:
        if debug:
            print("tracing", x)
        return x + 3

    yield lambda: f(x)
    debug = True


@harmless
def a_level_of_logging() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        logger.debug("tracing %s", x)
        return x + 4

    yield lambda: f(x)
    logger.setLevel(logging.ERROR)


@harmless
def a_threshold_on_the_same_side() -> Iterator[Any]:
    global threshold
    threshold = 0.5
    f = jax.jit(lambda x: x * 2 if threshold > 0 else x)
    yield lambda: f(x)
    threshold = 0.75


@harmless
def another_item_of_the_dict() -> Iterator[Any]:
    f = jax.jit(lambda x: x * config["rate"])
    yield lambda: f(x)
    config["name"] = "second"


@harmless
def changed_and_changed_back() -> Iterator[Any]:
    config["rate"] = 0.1
    f = jax.jit(lambda x: x + config["rate"])
    yield lambda: f(x)
    config["rate"] = 0.7
    config["rate"] = 0.1


@harmless
def an_equal_array() -> Iterator[Any]:
    global weights
    weights = jnp.ones(3)
    f = jax.jit(lambda x: x @ weights)
    yield lambda: f(x)
    weights = jnp.ones(3)


@harmless
def an_equal_numpy_array() -> Iterator[Any]:
    global mask
    mask = np.ones(3, np.float32)
    f = jax.jit(lambda x: x * mask)
    yield lambda: f(x)
    mask = np.ones(3, np.float32)


@harmless
def only_the_shape_is_read() -> Iterator[Any]:
    held = types.SimpleNamespace(array=np.zeros(3, np.float32))
    f = jax.jit(lambda x: x * held.array.shape[0])
    yield lambda: f(x)
    held.array = np.ones(3, np.float32)


@harmless
def only_the_type_is_read() -> Iterator[Any]:
    held = types.SimpleNamespace(value=1)
    f = jax.jit(lambda x: x * 2 if isinstance(held.value, int) else x)
    yield lambda: f(x)
    held.value = 2


@harmless
def only_the_length_is_read() -> Iterator[Any]:
    held = [1.0, 2.0]
    f = jax.jit(lambda x: x * len(held))
    yield lambda: f(x)
    held[0] = 9.0


@harmless
def an_argument_that_changes() -> Iterator[Any]:
    f = jax.jit(lambda x, rate: x * rate)
    yield lambda: f(x, 0.5)


@harmless
def a_static_argument() -> Iterator[Any]:
    f = jax.jit(lambda x, n: x * n, static_argnums=1)
    yield lambda: f(x, 2)


@harmless
def nothing_is_read() -> Iterator[Any]:
    f = jax.jit(lambda x: jnp.sin(x) ** 2)
    yield lambda: f(x)


@harmless
def an_attribute_that_no_program_reads() -> Iterator[Any]:
    class Model:
        def __init__(self) -> None:
            self.rate, self.epoch = 0.5, 0

        def step(self, x: Any) -> Any:
            return x * self.rate

    model = Model()
    f = jax.jit(model.step)
    yield lambda: f(x)
    model.epoch = 5


@harmless
def an_attribute_written_at_the_trace() -> Iterator[Any]:
    class Model:
        def __init__(self) -> None:
            self.calls = 0

        def step(self, x: Any) -> Any:
            self.calls += 1
            return x * 2

    model = Model()
    f = jax.jit(model.step)
    yield lambda: f(x)


@harmless
def a_nonlocal_counter() -> Iterator[Any]:
    calls = 0

    @jax.jit
    def f(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x * 3

    yield lambda: f(x)


@harmless
def a_counter_of_itertools() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        number = next(counter)
        return x * (number >= 0)

    yield lambda: f(x)


@harmless
def a_warning_once() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        if "warned" not in seen:
            seen.add("warned")
        return x * 4

    yield lambda: f(x)


@harmless
def a_deprecation_warning() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("old", DeprecationWarning, stacklevel=2)
        return x * 5

    yield lambda: f(x)


@harmless
def a_key_of_random() -> Iterator[Any]:
    f = jax.jit(lambda key: jax.random.normal(key, (3,)))
    yield lambda: f(jax.random.key(0))


@harmless
def a_captured_key() -> Iterator[Any]:
    key = jax.random.key(3)
    f = jax.jit(lambda x: x + jax.random.normal(key, (3,)))
    yield lambda: f(x)


@harmless
def the_state_of_random() -> Iterator[Any]:
    f = jax.jit(lambda x: x + 6)
    yield lambda: f(x)
    random.seed(1)
    np.random.seed(1)


@harmless
def a_function_replaced_by_an_equal_one() -> Iterator[Any]:
    def make() -> Any:
        return lambda x: x * 7

    held = types.SimpleNamespace(f=make())
    f = jax.jit(lambda x: held.f(x))
    yield lambda: f(x)
    held.f = make()


@harmless
def a_sampler_with_a_new_shape() -> Iterator[Any]:
    f = jax.jit(lambda x: x.sum())
    yield lambda: (f(x), f(jnp.ones(5)))


@harmless
def scan_and_cond() -> Iterator[Any]:
    def body(carry: Any, x: Any) -> Any:
        return jax.lax.cond(x > 1, lambda c: c + x, lambda c: c, carry), x

    f = jax.jit(lambda x: jax.lax.scan(body, 0.0, x)[0])
    yield lambda: f(x)


@harmless
def custom_rules() -> Iterator[Any]:
    @jax.custom_vjp
    def inner(x: Any) -> Any:
        return x * 2

    inner.defvjp(lambda x: (inner(x), x), lambda held, g: (g * held,))
    f = jax.jit(jax.grad(lambda x: inner(x).sum()))
    yield lambda: f(x)


@harmless
def a_checkpoint() -> Iterator[Any]:
    inner = jax.checkpoint(lambda x: jnp.sin(x).sum())
    f = jax.jit(jax.grad(inner))
    yield lambda: f(x)


@harmless
def under_x64() -> Iterator[Any]:
    f = jax.jit(lambda x: x * 2.5 + jnp.zeros(()))

    def call() -> Any:
        if hasattr(jax, "enable_x64"):
            enabled = jax.enable_x64(True)
        else:
            enabled = jax.experimental.enable_x64()
        with enabled:
            return f(np.arange(3.0))

    yield call


@harmless
def under_another_precision() -> Iterator[Any]:
    f = jax.jit(lambda x: x @ x)

    def call() -> Any:
        with jax.default_matmul_precision("highest"):
            return f(x)

    yield call


class Dense(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(2)(nn.relu(x))


@harmless
def a_flax_module() -> Iterator[Any]:
    model = Dense()
    variables = model.init(jax.random.key(0), x)
    f = jax.jit(model.apply)
    yield lambda: f(variables, x)


@harmless
def an_optimizer() -> Iterator[Any]:
    optimizer = optax.adam(1e-3)
    state = optimizer.init(x)
    f = jax.jit(optimizer.update)
    yield lambda: f(x, state)


class Linear(eqx.Module):
    weight: Any
    name: str = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        return self.weight * x


@harmless
def an_equinox_module() -> Iterator[Any]:
    model = Linear(jnp.ones(3), "linear")
    f = eqx.filter_jit(lambda model, x: model(x))
    yield lambda: f(model, x)


@dataclasses.dataclass
class Metrics:
    steps: int = 0
    losses: list[float] = dataclasses.field(default_factory=list)


@harmless
def metrics_beside_the_step() -> Iterator[Any]:
    metrics = Metrics()
    f = jax.jit(lambda x: (x**2).mean())

    def call() -> Any:
        metrics.steps += 1
        metrics.losses.append(float(f(x)))
        return metrics.losses[-1]

    yield call
    metrics.steps = 100


@harmless
def a_counter_of_a_callback() -> Iterator[Any]:
    calls = [0]

    def host(x: Any) -> Any:
        calls[0] += 1
        return np.asarray(x) * 2

    f = jax.jit(lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct((3,), jnp.float32), x))
    yield lambda: f(x)
    calls[0] += 10


@harmless
def a_name_of_a_scope() -> Iterator[Any]:
    names = ["one"]

    def f(x: Any) -> Any:
        with jax.named_scope(names[0]):
            return x * 2

    jitted = jax.jit(f)
    yield lambda: jitted(x)
    names[0] = "another"


@harmless
def a_registry_that_grows() -> Iterator[Any]:
    registry: dict[str, Any] = {"tanh": jnp.tanh}
    f = jax.jit(lambda x: registry["tanh"](x))
    yield lambda: f(x)
    registry["sin"] = jnp.sin


@harmless
def a_numpy_scratch_buffer() -> Iterator[Any]:
    scratch = np.zeros(3, np.float32)

    @jax.jit
    def f(x: Any) -> Any:
        return x * float(scratch.sum() * 0)

    yield lambda: f(x)
    scratch[:] = 5


@harmless
def an_order_of_keys() -> Iterator[Any]:
    order = collections.OrderedDict(a=1.0, b=1.0)
    f = jax.jit(lambda x: x * sum(order.values()))
    yield lambda: f(x)
    order.move_to_end("a")


@harmless
def an_error_that_is_raised_inside() -> Iterator[Any]:
    # equinox keeps a traceback and a number in the rule, others at each trace.
    f = eqx.filter_jit(lambda x: eqx.error_if(x, (x < -9).any(), "negative"))
    yield lambda: f(x)


@harmless
def what_each_thread_has_of_its_own() -> Iterator[Any]:
    local = threading.local()
    local.rate = 1.0
    f = jax.jit(lambda x: x * local.rate)

    def trace() -> None:
        local.rate = 2.0
        f(x)

    _in_a_thread(trace)
    yield lambda: f(x)


@harmless
def what_each_context_has_of_its_own() -> Iterator[Any]:
    rate: contextvars.ContextVar[float] = contextvars.ContextVar("rate", default=1.0)
    f = jax.jit(lambda x: x * rate.get())

    def trace() -> None:
        rate.set(2.0)
        f(x)

    _in_a_thread(trace)
    yield lambda: f(x)


def _in_a_thread(work: Any) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@harmless
def a_number_of_another_type() -> Iterator[Any]:
    held = types.SimpleNamespace(k=1)
    f = jax.jit(lambda x: x * held.k)
    yield lambda: f(x)
    held.k = 1.0


@harmless
def not_a_number() -> Iterator[Any]:
    held = types.SimpleNamespace(k=float("nan"))
    f = jax.jit(lambda x: x * held.k)
    yield lambda: f(x)
    held.k = float("nan")


@harmless
def an_equal_array_in_another_order() -> Iterator[Any]:
    held = types.SimpleNamespace(a=np.arange(6, dtype=np.float32).reshape(2, 3))
    f = jax.jit(lambda x: held.a @ x)
    yield lambda: f(x)
    held.a = np.asfortranarray(held.a)


@harmless
def a_memo_over_what_changed() -> Iterator[Any]:
    held = types.SimpleNamespace(k=1.0)

    @functools.lru_cache
    def helper(n: int) -> float:
        return n * held.k

    f = jax.jit(lambda x: x * helper(2))
    yield lambda: f(x)
    held.k = 4.0


@harmless
def what_a_callback_reads() -> Iterator[Any]:
    held = types.SimpleNamespace(k=1.0)

    def host(x: Any) -> Any:
        return np.asarray(x) * np.float32(held.k > 0)

    f = jax.jit(lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct((3,), jnp.float32), x))
    yield lambda: f(x)
    held.k = 2.0


@harmless
def the_clock_beside_it() -> Iterator[Any]:
    def f(x: Any) -> Any:
        began = time.perf_counter()
        y = x * 2
        random.random()
        logger.debug("took %s", time.perf_counter() - began)
        return y

    jitted = jax.jit(f)
    yield lambda: jitted(x)


@harmless
def an_optimizer_made_anew() -> Iterator[Any]:
    held = types.SimpleNamespace(optimizer=optax.adam(1e-3))
    state = held.optimizer.init(x)
    f = jax.jit(lambda g, state: held.optimizer.update(g, state))
    yield lambda: f(x, state)
    held.optimizer = optax.adam(1e-3)


@harmless
def a_memo_behind_a_lock() -> Iterator[Any]:
    lock, memo = threading.RLock(), {}

    def get(n: int) -> Any:
        with lock:
            if n not in memo:
                memo[n] = np.float32(n)
            return memo[n]

    f = jax.jit(lambda x: x * get(3))
    yield lambda: f(x)
    get(5)


@harmless
def a_timer_around_it() -> Iterator[Any]:
    total: dict[str, float] = collections.defaultdict(float)

    @contextlib.contextmanager
    def timer(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        total[name] += time.perf_counter() - began

    @jax.jit
    def f(x: Any) -> Any:
        with timer("f"):
            return x * 2

    yield lambda: f(x)


@harmless
def another_part_of_a_buffer() -> Iterator[Any]:
    held = np.zeros(10)
    f = jax.jit(lambda x: x + held[:3])
    yield lambda: f(x)
    held[5:] = 1


@harmless
def another_name_of_what_is_called() -> Iterator[Any]:
    held = types.SimpleNamespace(name="first")

    @jax.jit
    def f(x: Any) -> Any:
        def inner(x: Any) -> Any:
            return x * 2

        inner.__name__ = inner.__qualname__ = held.name
        return jax.jit(inner)(x)

    yield lambda: f(x)
    held.name = "second"


@harmless
def a_table_of_jitted_functions() -> Iterator[Any]:
    class Made:
        def __init__(self) -> None:
            self._made: dict[int, Any] = {}

        # By another name than `self`, as of what is written.
        def times(table, n: int) -> Any:
            if n not in table._made:
                table._made[n] = jax.jit(lambda x: x * n)
            return table._made[n]

    made = Made()
    f = jax.jit(lambda x: made.times(2)(x))
    made.times(2)
    yield lambda: f(x)
    made.times(3)


@harmless
def what_rebuilding_a_pytree_creates_and_replaces() -> Iterator[Any]:
    @jax.tree_util.register_pytree_node_class
    class Edges:
        def __init__(self, pairs: Any) -> None:
            self.pairs = jnp.asarray(pairs, dtype=jnp.int32)

        def tree_flatten(self) -> Any:
            return (self.pairs,), None

        @classmethod
        def tree_unflatten(cls, _: Any, children: Any) -> Any:
            made = cls([(0, 0)])
            (made.pairs,) = children
            return made

    @jax.jit
    def f(edges: Any, x: Any) -> Any:
        return x[edges.pairs].sum()

    yield lambda: f(Edges([(0, 1), (1, 2)]), x)


@harmless
def a_callback_made_again_over_the_same() -> Iterator[Any]:
    seen: list[float] = []

    def f(x: Any) -> Any:
        jax.debug.callback(lambda y: seen.append(float(y.sum())), x)
        return x * 2

    jitted = jax.jit(f)
    yield lambda: jitted(x)
    seen.append(0.0)


@harmless
def a_number_that_no_result_needs() -> Iterator[Any]:
    it = types.SimpleNamespace(unused=1.0)

    @jax.jit
    def f(x: Any) -> Any:
        debugged = jax.jit(lambda y: y * it.unused)(x)
        del debugged
        return x * 2

    yield lambda: f(x)
    it.unused = 2.0


@harmless
def bars_of_a_loop() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        bars: dict[int, int] = {}

        def begin(_: Any) -> None:
            bars[0] = 0

        def step(_: Any) -> None:
            bars[0] = bars.get(0, 0) + 1

        def body(total: Any, each: Any) -> Any:
            jax.debug.callback(begin, each)
            jax.debug.callback(step, each)
            return total + each, None

        return jax.lax.scan(body, 0.0, x)[0]

    yield lambda: f(x)
    jax.effects_barrier()


@harmless
def a_counter_inside_a_callback() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        calls = 0

        def host(y: Any) -> Any:
            nonlocal calls
            calls += 1
            return np.asarray(y)

        return jax.pure_callback(host, jax.ShapeDtypeStruct((3,), jnp.float32), x)

    yield lambda: f(x)


@harmless
def a_function_that_is_returned() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        return jax.tree_util.Partial(lambda y, k: y * k, k=x)

    yield lambda: f(x)(x)


@harmless
def a_context_variable_set_around_calls() -> Iterator[Any]:
    policy = contextvars.ContextVar("policy", default=1.0)
    f = jax.jit(lambda x: x * policy.get())

    def call() -> Any:
        token = policy.set(3.0)
        try:
            return f(x)
        finally:
            policy.reset(token)

    yield call


training = False
policies: list[float] = []


@contextlib.contextmanager
def trained() -> Iterator[None]:
    global training
    before, training = training, True
    try:
        yield
    finally:
        training = before


class Policy:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __enter__(self) -> None:
        policies.append(self.scale)

    def __exit__(self, *_: object) -> None:
        policies.pop()


def _in_training(x: Any) -> Any:
    return x * 2 if training else x


def _by_policy(x: Any) -> Any:
    return x * policies[-1] if policies else x


@harmless
def a_global_set_around_calls() -> Iterator[Any]:
    f = jax.jit(_in_training)

    def call() -> Any:
        with trained():
            return f(x)

    yield call


@harmless
def a_stack_of_modes() -> Iterator[Any]:
    f = jax.jit(_by_policy)

    def call() -> Any:
        with Policy(3.0):
            return f(x)

    yield call


@harmless
def a_precision_of_the_thread() -> Iterator[Any]:
    f = jax.jit(lambda x: x * float(decimal.Decimal(1) / 3))

    def in_thread() -> None:
        decimal.getcontext().prec = 3
        f(x)

    def call() -> None:
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()

    yield call


@harmless
def what_is_written_to() -> Iterator[Any]:
    yield lambda: _of_stdout(x)


@jax.jit
def _of_stdout(x: Any) -> Any:
    return x * (2.0 if isinstance(sys.stdout, io.TextIOBase) else 3.0)


@harmless
def digits_that_a_dtype_does_not_hold() -> Iterator[Any]:
    global threshold
    threshold = 0.3
    f = jax.jit(lambda x: jnp.where(x > 1, threshold, 0.0) + x**threshold)
    yield lambda: f(x)
    threshold = 0.1 + 0.2


@harmless
def an_interceptor_around_calls() -> Iterator[Any]:
    dense = nn.Dense(3)
    params = jax.jit(dense.init)(jax.random.key(0), x)
    f = jax.jit(dense.apply)

    def doubled(following: Any, args: Any, kwargs: Any, _: Any) -> Any:
        return following(*args, **kwargs) * 2

    def call() -> Any:
        with nn.intercept_methods(doubled):
            return f(params, x)

    yield call


@harmless
def keys_of_another_kind_around_calls() -> Iterator[Any]:
    f = jax.jit(lambda seed: jax.random.normal(jax.random.key(seed), (2,)))

    def call() -> Any:
        with jax.default_prng_impl("rbg"):
            return f(1)

    yield call


@harmless
def a_limit_on_traces() -> Iterator[Any]:
    limited = chex.assert_max_traces(lambda x: x * 2, n=1)
    f = jax.jit(limited)
    g = eqx.filter_jit(eqx.debug.assert_max_traces(lambda x: x * 2, max_traces=1))
    yield lambda: f(x) + g(x)


@harmless
def a_filter_for_warnings() -> Iterator[Any]:
    def f(x: Any) -> Any:
        warnings.filterwarnings("ignore", message="of a trace")
        return x * 2

    with warnings.catch_warnings():
        f = jax.jit(f)
        yield lambda: f(x)
        warnings.filterwarnings("error", message="of a trace")


@harmless
def who_called() -> Iterator[Any]:
    @jax.jit
    def f(x: Any) -> Any:
        return x * (2.0 if any(one.function == "its_caller" for one in inspect.stack()) else 3.0)

    def its_caller() -> Any:
        return f(x)

    yield its_caller


@harmless
def an_equal_array_on_a_device() -> Iterator[Any]:
    it = types.SimpleNamespace(mask=np.ones(3, np.float32), back=jnp.ones(3, jnp.float32))
    f = jax.jit(lambda x: x * it.mask + it.back)
    yield lambda: f(x)
    it.mask, it.back = jnp.asarray(it.mask), np.asarray(it.back)


@harmless
def buffers_that_no_result_needs() -> Iterator[Any]:
    buffer, other = np.ones(3, np.float32), np.ones(3, np.float32)
    number = np.array(1, np.float32)

    @jax.jit
    def f(x: Any) -> Any:
        _ = x * buffer * number
        return x * 2

    g = jax.jit(jax.grad(lambda x: (x * x).sum() + jnp.sum(other)))
    yield lambda: f(x) + g(x)
    buffer[0] = other[0] = 7
    number += 1

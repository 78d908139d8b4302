"""Every way in which a function of the user's comes to be traced, lowered or compiled."""

from __future__ import annotations

import functools
import gc
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import util
from jax.extend.core import Primitive
from jax.interpreters import mlir

from retrace.capture import background
from retrace.capture.session import session
from retrace.causes import Cause
from retrace.model import Miss, Recording, Stage
from retrace.model.advice import JitOnce, Proof, What
from retrace.model.verdict import Detail, How
from retrace.reason.verdict import judge
from tests.recording.conftest import Record

ALL = {Stage.TRACE, Stage.LOWER, Stage.COMPILE}
BODIES_SEEN = pytest.mark.skipif(
    jax.__version_info__ < (0, 9), reason="this JAX traces bodies outside of its trace function"
)


def names(misses: list[Miss]) -> list[str]:
    return [miss.function.name for miss in misses]


def test_a_call_is_one_miss_with_all_its_stages(record: Record) -> None:
    @jax.jit
    def double(x: Any) -> Any:
        return x * 2

    (miss,) = record(lambda: (double(np.ones(3)), double(np.ones(3))))
    assert miss.function.name == "double"
    assert set(miss.stages) == ALL
    assert miss.in_flight is None and miss.raised is None
    assert miss.program is not None and miss.program.equations >= 1


def test_a_hit_leaves_no_record(record: Record) -> None:
    double = jax.jit(lambda x: x * 2)
    double(1.0)
    assert record(lambda: double(1.0)) == []


def test_functions_jitted_before_the_recording_are_seen(record: Record) -> None:
    early = jax.jit(lambda x: x + 1)
    (miss,) = record(lambda: early(np.ones(4)))
    assert set(miss.stages) == ALL


def test_a_nested_jit_is_a_trace_with_its_parent(record: Record) -> None:
    @jax.jit
    def inner(x: Any) -> Any:
        return jnp.tanh(x)

    @jax.jit
    def outer(x: Any) -> Any:
        return inner(x) + inner(x)

    first, second = record(lambda: outer(np.ones(3)))
    assert (first.function.name, second.function.name) == ("outer", "inner")
    assert set(second.stages) == {Stage.TRACE}
    assert second.parent == first.id and second.nested
    assert first.parent is None and not first.nested
    assert first.call_site is not None and second.call_site is not None
    assert second.call_site.function.endswith("outer")


def test_an_eager_gradient_has_a_forward_and_a_backward_program(record: Record) -> None:
    @jax.jit
    def energy(x: Any) -> Any:
        return jnp.sum(x**2)

    forward, backward = record(lambda: jax.grad(energy)(np.ones(3, np.float32)))
    assert set(forward.stages) == ALL and forward.parent is None
    assert [leaf.path for leaf in forward.key.leaves] == ["x"]
    assert backward.derived == "backward"
    assert backward.parent == forward.id
    assert Stage.TRACE not in backward.stages and Stage.COMPILE in backward.stages
    assert backward.function.name == "energy"


def test_the_trace_of_a_rule_under_an_eager_gradient_is_not_the_functions(record: Record) -> None:
    def halve(apply: Any, x: Any) -> Any:
        return x / 2

    def solved(x: Any) -> Any:
        return jax.lax.custom_linear_solve(lambda x: 2.0 * x, x, halve, symmetric=True)

    @jax.custom_vjp
    def rule(x: Any) -> Any:
        return solved(x)

    rule.defvjp(lambda x: (solved(x), None), lambda _, pulled: (solved(pulled),))

    @jax.jit
    def solve(x: Any) -> Any:
        return rule(x * 3)

    x = np.ones(3, np.float32)

    def program() -> None:
        solve(x)
        _, pull = jax.vjp(solve, x)
        pull(x)

    called, forward, backward = (m for m in record(program) if m.function.name == "solve")
    assert set(called.stages) == ALL
    assert set(forward.stages) == set(backward.stages) == {Stage.LOWER, Stage.COMPILE}
    assert (forward.derived, backward.derived) == ("forward", "backward")
    assert backward.parent == forward.id


def test_a_backward_program_of_what_ran_before_the_recording_has_no_parent(
    record: Record,
) -> None:
    pulled: list[Any] = []

    @jax.jit
    def energy(x: Any) -> Any:
        return jnp.sum(x**2)

    (forward,) = record(lambda: pulled.append(jax.vjp(energy, np.ones(3, np.float32))[1]))
    (backward,) = record(lambda: pulled[0](np.float32(1)))
    assert (forward.derived, backward.derived) == ("forward", "backward")
    assert backward.parent is None


@pytest.mark.skipif(
    jax.__version_info__ < (0, 11), reason="this JAX transposes outside of its trace function"
)
def test_what_a_rule_traces_backwards_is_in_the_backward_program(record_all: Record) -> None:
    @jax.custom_vjp
    def rule(x: Any) -> Any:
        return x

    rule.defvjp(lambda x: (x, None), lambda _, pulled: (jnp.cos(pulled) * jnp.sin(pulled),))

    @jax.jit
    def scale(x: Any) -> Any:
        return rule(x) * 2

    # A shape of its own: what an earlier test has traced is not traced again.
    x = np.ones((3, 11, 1, 7), np.float32)
    misses = record_all(lambda: jax.vjp(scale, x)[1](x))
    (backward,) = [miss for miss in misses if miss.derived == "backward"]
    assert backward.inner == 3


@pytest.mark.parametrize("called", [False, True], ids=["at once", "after a call"])
def test_what_a_rule_traces_forwards_is_in_the_call(
    called: bool, record_all: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    @jax.custom_jvp
    def rule(x: Any) -> Any:
        return x * 2

    @rule.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        return rule(x), jnp.where(x > 0, dx, 2 * dx) + jnp.squeeze(dx)

    @jax.jit
    def scale(x: Any) -> Any:
        return rule(x) + 1

    jax.clear_caches()
    if called:
        scale(1.0)
    counted: list[str] = []

    def program() -> None:
        ours: Any = util.test_event_listener

        def count(name: str, *given: Any) -> None:
            if name in ("trace_to_jaxpr", "create_pjit_jaxpr"):
                counted.append(name)
            ours(name, *given)

        monkeypatch.setattr(util, "test_event_listener", count)
        jax.linearize(scale, 3.0)
        monkeypatch.undo()

    (miss,) = record_all(program)
    assert (Stage.TRACE in miss.stages) is not called
    assert miss.inner == len(counted) - (not called) > 5


def test_a_batched_backward_program_is_a_backward_one(record: Record) -> None:
    @jax.jit
    def energy(x: Any) -> Any:
        return jnp.tanh(x)

    x = np.ones(3, np.float32)
    misses = record(lambda: jax.hessian(lambda y: energy(y).sum())(x))
    forward, backward = (miss for miss in misses if miss.function.name == "energy")
    assert backward.derived == "backward" and backward.parent == forward.id


def test_a_backward_program_after_a_forward_hit_has_no_parent(record: Record) -> None:
    @jax.jit
    def scale(x: Any) -> Any:
        return jnp.sin(x) * x

    def program() -> None:
        primal, pull = jax.vjp(scale, np.ones(3, np.float32))
        pull(primal)
        jax.vjp(scale, np.ones(3, np.float32))

    misses = record(program)
    assert [miss.derived for miss in misses].count("backward") == 1


@pytest.mark.parametrize("transform", [jax.vmap, jax.value_and_grad, jax.hessian, jax.checkpoint])
def test_eager_transforms_of_a_jitted_function(record: Record, transform: Any) -> None:
    @jax.jit
    def energy(x: Any) -> Any:
        return jnp.sum(jnp.sin(x))

    value = np.ones((2, 3), np.float32) if transform is jax.vmap else np.ones(3, np.float32)
    misses = record(lambda: transform(energy)(value))
    traced = [miss for miss in misses if Stage.TRACE in miss.stages]
    assert set(names(misses)) == {"energy"}
    assert len(traced) == 1


def test_a_vmapped_program_of_another_batch_is_compiled_without_a_trace(record: Record) -> None:
    @jax.jit
    def energy(x: Any) -> Any:
        return jnp.sum(x)

    batched = jax.vmap(energy)
    first, second = record(lambda: [batched(np.ones((n, 3), np.float32)) for n in (2, 4)])
    assert Stage.TRACE in first.stages and Stage.TRACE not in second.stages
    assert [leaf.shape for leaf in first.key.leaves] == [(2, 3)]
    assert [leaf.shape for leaf in second.key.leaves] == [(4, 3)]
    assert [leaf.path for leaf in second.key.leaves] == ["x"]


def test_pmap(record: Record) -> None:
    misses = record(lambda: jax.pmap(lambda x: x * 2)(np.ones((1, 3), np.float32)))
    assert names(misses) == ["<lambda>"]
    assert Stage.COMPILE in misses[0].stages


def test_ahead_of_time_compilation_belongs_to_its_lowering(record: Record) -> None:
    @jax.jit
    def serve(x: Any) -> Any:
        return jnp.tanh(x)

    def program() -> None:
        lowered = serve.lower(np.ones(3, np.float32))
        compiled = lowered.compile()
        compiled(np.ones(3, np.float32))
        serve(np.ones(3, np.float32))

    (miss,) = record(program)
    assert miss.ahead and set(miss.stages) == ALL


def test_tracing_then_lowering_then_compiling_is_one_miss(record: Record) -> None:
    serve = jax.jit(lambda x: jnp.tanh(x))
    (miss,) = record(lambda: serve.trace(np.ones(3, np.float32)).lower().compile())
    assert miss.ahead and set(miss.stages) == ALL


@pytest.mark.parametrize(
    "ask",
    [
        lambda f, x: jax.eval_shape(f, x),
        lambda f, x: jax.make_jaxpr(f)(x),
        lambda f, x: jax.jit(f).trace(x),
        lambda f, x: jax.jit(f).eval_shape(x),
    ],
    ids=["eval_shape", "make_jaxpr", "trace", "jitted.eval_shape"],
)
def test_asking_for_shapes_traces_alone(record: Record, ask: Any) -> None:
    def shape_of(x: Any) -> Any:
        return x[None]

    (miss,) = record(lambda: ask(shape_of, jax.ShapeDtypeStruct((3,), np.float32)))
    assert miss.ahead and set(miss.stages) == {Stage.TRACE}
    assert [leaf.path for leaf in miss.key.leaves] == ["x"]


def test_programs_that_are_never_compiled_do_not_queue_for_ever(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_MAX_WAITING", 5)
    waiting = session().recorder._background._programs
    step = jax.jit(lambda x: functools.reduce(lambda y, _: y + 1, range(1100), x))

    def program() -> None:
        for size in range(1, 13):
            step.trace(jax.ShapeDtypeStruct((size,), np.float32))
        until = time.monotonic() + 30
        while len(waiting) > 5 and time.monotonic() < until:
            time.sleep(0.01)
        assert len(waiting) <= 5

    assert all(miss.program is not None for miss in record(program))


def test_another_placement_is_compiled_without_a_trace(record: Record) -> None:
    double = jax.jit(lambda x: x * 2)
    device = jax.devices()[0]
    value = jnp.ones(3)
    placed = jax.device_put(value, device)
    first, second = record(lambda: (double(value), double(placed)))
    assert set(first.stages) == ALL
    assert set(second.stages) == {Stage.LOWER, Stage.COMPILE}
    assert [leaf.committed for miss in (first, second) for leaf in miss.key.leaves] == [
        False,
        True,
    ]


def test_a_trace_that_raises_is_recorded_each_time(record: Record) -> None:
    @jax.jit
    def broken(x: Any) -> Any:
        raise KeyError("missing")

    def program() -> None:
        for _ in range(2):
            with pytest.raises(KeyError, match="missing"):
                broken(1.0)

    misses = record(program)
    assert [miss.raised for miss in misses] == ["KeyError", "KeyError"]
    assert all(set(miss.stages) == {Stage.TRACE} for miss in misses)


def test_a_miss_inside_an_except_block_did_not_raise(record: Record) -> None:
    double = jax.jit(lambda x: x * 2)

    def program() -> None:
        try:
            raise ValueError("of the user's")
        except ValueError:
            double(np.ones(5))

    (miss,) = record(program)
    assert miss.raised is None


def test_a_miss_after_one_that_raised_is_its_own(record: Record) -> None:
    @jax.jit
    def fussy(x: Any) -> Any:
        if x.shape[0] == 2:
            raise ValueError("not two")
        return x

    def program() -> None:
        with pytest.raises(ValueError, match="not two"):
            fussy(np.ones(2))
        fussy(np.ones(3))

    first, second = record(program)
    assert first.raised == "ValueError" and second.raised is None
    assert set(second.stages) == ALL


def test_an_eager_loop_carries_the_trace_of_its_body(record_all: Record) -> None:
    def body(carry: Any, x: Any) -> Any:
        return carry + jnp.sin(x), carry

    init, xs = jnp.zeros(()), jnp.ones(7)
    misses = record_all(lambda: jax.lax.scan(body, init, xs))
    (scan,) = [miss for miss in misses if miss.function.jax_name == "scan"]
    assert scan.function.name == "body" and scan.function.kind == "op"
    assert set(scan.stages) == ALL
    assert [leaf.shape for leaf in scan.key.leaves] == [(), (7,)]
    assert [body.qualname.rpartition(".")[2] for body in scan.bodies] == ["body"]
    assert not [miss for miss in misses if miss.parent not in (None, scan.id)]


@BODIES_SEEN
@pytest.mark.parametrize(
    "operation",
    [
        lambda body: jax.lax.fori_loop(0, 3, lambda _, x: body(x), np.ones(7)),
        lambda body: jax.lax.map(body, np.ones(7)),
        pytest.param(
            lambda body: jax.lax.reduce_window(
                np.ones(7), 0.0, lambda x, y: body(x + y), (2,), (1,), "VALID"
            ),
            marks=pytest.mark.skipif(
                jax.__version_info__ < (0, 10), reason="this JAX traces its body elsewhere"
            ),
        ),
    ],
    ids=["fori_loop", "map", "reduce_window"],
)
def test_a_body_that_jax_wraps_is_traced_in_its_operation(
    operation: Callable[[Callable[[Any], Any]], Any], record_all: Record
) -> None:
    def body(x: Any) -> Any:
        time.sleep(0.05)
        return jnp.where(x > 2, x, x - 1)

    jax.clear_caches()
    miss = record_all(lambda: operation(body))[-1]
    assert miss.function.jax_name in ("scan", "reduce_window")
    assert miss.stages[Stage.TRACE] > 0.05
    assert miss.inner >= 3


@BODIES_SEEN
def test_what_jax_traces_beside_the_users_body_is_in_the_operation(record_all: Record) -> None:
    def product(x: Any) -> Any:
        return 2.0 * x

    b = np.ones(5, np.float32)

    def solve(b: Any) -> Any:
        return jax.scipy.sparse.linalg.cg(product, b)[0]

    # Here `cg` gives JAX a body of its own, which traces much, besides the user's.
    misses = record_all(lambda: jax.jvp(solve, (b,), (b,)))
    (operation,) = [miss for miss in misses if miss.function.name == "product"]
    assert operation.inner > 10


@BODIES_SEEN
def test_what_jax_traces_to_differentiate_an_operation_is_in_it(record_all: Record) -> None:
    @jax.custom_jvp
    def rule(x: Any) -> Any:
        return x

    def pushed(primals: Any, tangents: Any) -> Any:
        return primals[0], jnp.multiply(tangents[0], jnp.arctan(jnp.cos(primals[0])))

    rule.defjvp(pushed)

    def program(x: Any) -> Any:
        return jax.lax.cond(True, lambda x: rule(x), lambda x: x * 2, x)

    misses = record_all(lambda: jax.grad(program)(1.0))
    operations = [miss for miss in misses if miss.function.jax_name == "cond"]
    assert sum(miss.inner for miss in operations) >= 3


def test_an_eager_operation_is_placed_at_the_users_line(record_all: Record) -> None:
    def program() -> None:
        value = np.ones((3, 11), np.float32)
        jnp.concatenate([value, value])

    (miss,) = [m for m in record_all(program) if m.function.jax_name == "concatenate"]
    assert miss.call_site is not None and not miss.call_site.in_library
    assert miss.call_site.source == "jnp.concatenate([value, value])"
    assert miss.function.kind == "op"


def test_methods_partials_and_callable_instances(record: Record) -> None:
    class Filter:
        def __init__(self, gain: float) -> None:
            self.gain = gain

        def update(self, x: Any) -> Any:
            return x * self.gain

        def __call__(self, x: Any) -> Any:
            return x + self.gain

    def shift(by: float, x: Any) -> Any:
        return x + by

    def program() -> None:
        jax.jit(Filter(2.0).update)(np.ones(2))
        jax.jit(Filter(2.0))(np.ones(2))
        jax.jit(functools.partial(shift, 3.0))(np.ones(2))
        jax.jit(jax.value_and_grad(lambda x: jnp.sum(x)))(np.ones(2, np.float32))

    method, instance, partial, transform = record(program)
    assert (method.function.name, method.function.kind) == ("update", "method")
    assert method.function.receiver is not None
    assert method.function.receiver.type.endswith("Filter")
    assert (instance.function.name, instance.function.kind) == ("Filter", "callable")
    assert (partial.function.name, partial.function.kind) == ("shift", "partial")
    assert [name for name, _ in partial.function.bound] == ["by"]
    assert (transform.function.name, transform.function.kind) == ("<lambda>", "transform")
    assert transform.function.wrappers == ("value_and_grad",)


def test_what_is_new_of_a_wrapped_function_is_told(record: Record) -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    def double(x: Any) -> Any:
        return 2 * x

    def program() -> None:
        for _ in range(2):
            jax.jit(logged(double))(np.ones(2))
            jax.jit(jax.vmap(double))(np.ones(2))
            jax.jit(jax.vmap(lambda x: x + 3))(np.ones(2))

    misses = record(program)
    verdicts = [v for v in judge(Recording([], list(misses))) if v.nearest is not None]
    assert [(v.cause.value, v.detail) for v in verdicts] == [
        ("function-redefined", Detail(How.APPLIED_AGAIN, ("logged",))),
        ("transform-recreated", None),
        ("transform-recreated", Detail(How.LAMBDA_MADE_AGAIN)),
    ]
    assert verdicts[0].fix == JitOnce(name="double", what=What.WRAPPED, proof=Proof.PROGRAM)


class Pair(NamedTuple):
    left: Any
    right: Any


def test_paths_are_the_users(record: Record) -> None:
    @functools.partial(jax.jit, static_argnames=("mode",), static_argnums=(1,))
    def step(batch: Any, count: int, *rest: Any, mode: str = "a", **named: Any) -> Any:
        return batch["x"], rest, named

    batch = {"x": Pair(np.ones(2), [np.ones(3), 1]), "y": None}
    (miss,) = record(lambda: step(batch, 4, 1.0, mode="b", z=np.int32(1)))
    assert [leaf.path for leaf in miss.key.leaves] == [
        "batch['x'].left",
        "batch['x'].right[0]",
        "batch['x'].right[1]",
        "rest[0]",
        "named['z']",
    ]
    assert [(node.path, node.type) for node in miss.key.tree] == [
        ("batch", "dict"),
        ("batch['x']", "Pair"),
        ("batch['x'].right", "list"),
        ("batch['y']", "None"),
    ]
    assert [(name, value.text) for name, value in miss.key.static] == [
        ("count", "4"),
        ("mode", "'b'"),
    ]
    assert dict(miss.key.signature) == {
        "batch": "positional",
        "count": "positional",
        "rest[0]": "positional",
        "mode": "keyword",
        "named['z']": "keyword",
    }
    assert [(leaf.dtype, leaf.weak_type) for leaf in miss.key.leaves][2:4] == [
        ("int32", True),
        ("float32", True),
    ]


def test_donation_and_other_options_are_in_the_key(record: Record) -> None:
    def advance(x: Any) -> Any:
        return x + 1

    def program() -> None:
        jax.jit(advance)(jnp.ones(3))
        jax.jit(advance, donate_argnums=0)(jnp.ones(3))

    first, second = record(program)
    assert first.key.options == ()
    assert dict(second.key.options)["donate_argnums"].text == "(0,)"
    assert Stage.TRACE not in second.stages


def test_threads_are_told_apart(record: Record) -> None:
    double = jax.jit(lambda x: x * 2)

    def program() -> None:
        threads = [
            threading.Thread(target=double, args=(np.ones(n),), name=f"worker-{n}")
            for n in (2, 3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    misses = record(program)
    assert sorted(miss.thread for miss in misses) == ["worker-2", "worker-3"]
    assert all(set(miss.stages) == ALL and miss.parent is None for miss in misses)


def test_clearing_is_counted(record: Record) -> None:
    double: Any = jax.jit(lambda x: x * 2)

    def program() -> None:
        double(1.0)
        double.clear_cache()
        double(1.0)
        jax.clear_caches()
        double(1.0)

    misses = record(program)
    assert len(misses) == 3
    assert [miss.function_epoch for miss in misses] == [0, 1, 1]
    assert misses[2].epoch == misses[1].epoch + 1
    assert [miss.new_object for miss in misses] == [True, False, False]


def test_a_lowering_that_is_compiled_again_misses_again(record: Record) -> None:
    @jax.jit
    def serve(x: Any) -> Any:
        return jnp.tanh(x)

    def program() -> None:
        lowered = serve.lower(np.ones(3, np.float32))
        lowered.compile()
        lowered.compile()
        lowered.compile({"xla_backend_optimization_level": "0"})
        with pytest.raises(RuntimeError):
            lowered.compile({"no such option": "1"})
        lowered.compile({"xla_backend_optimization_level": "1"})

    first, second, third, fourth = record(program)
    assert set(first.stages) == ALL and first.raised is None and not first.key.options
    for again in (second, third, fourth):
        assert set(again.stages) == {Stage.COMPILE} and again.function == first.function
        assert again.key.leaves == first.key.leaves and again.call_site is not None
    assert [miss.raised is None for miss in (second, third, fourth)] == [True, False, True]
    assert len({str(miss.key.options) for miss in (first, second, third, fourth)}) == 4


def test_options_of_the_first_compilation_are_part_of_the_key(record: Record) -> None:
    options: dict[str, str | bool] = {"xla_backend_optimization_level": "0"}
    (miss,) = record(lambda: jax.jit(lambda x: x + 1).lower(1.0).compile(options))
    assert set(miss.stages) == ALL and [name for name, _ in miss.key.options] == [
        "compiler_options"
    ]


def test_a_compilation_without_options_has_not_those_of_the_first(record: Record) -> None:
    def program() -> None:
        lowered = jax.jit(lambda x: x + 1).lower(1.0)
        lowered.compile({"xla_backend_optimization_level": "0"})
        lowered.compile()

    first, second = record(program)
    assert first.key.options and not second.key.options


def test_a_derivative_of_what_was_traced_is_made_without_a_trace(record: Record) -> None:
    ran: list[None] = []

    @jax.jit
    def energy(x: Any) -> Any:
        ran.append(None)
        return jnp.tanh(x)

    def program() -> None:
        energy(1.0)
        jax.jvp(energy, (1.0,), (1.0,))

    of_energy = [m for m in record(program) if m.function.name == "energy"]
    assert len(ran) == sum(Stage.TRACE in miss.stages for miss in of_energy) == 1
    assert Stage.COMPILE in of_energy[-1].stages


def test_a_program_derived_twice_was_never_evicted(record: Record) -> None:
    @jax.jit
    def energy(x: Any) -> Any:
        return jnp.tanh(x)

    def program() -> None:
        energy(1.0)
        jax.linearize(energy, 1.0)[1](1.0)
        jax.vjp(energy, 1.0)[1](1.0)

    found = judge(Recording([], record(program)))
    assert {v.cause for v in found} <= {Cause.FIRST_TRACE, Cause.EAGER_OP}


def test_a_backward_program_of_a_dead_function_is_not_of_a_new_one(record: Record) -> None:
    def program() -> None:
        _, backward = jax.vjp(jax.jit(lambda x: x * x), np.ones(3, np.float32))
        jax.clear_caches()
        gc.collect()
        backward(np.ones(3, np.float32))

    forward, backward = record(program)
    assert forward.new_object and backward.derived == "backward"
    assert not backward.new_object


def test_a_trace_to_lower_a_primitive_is_not_the_trace_of_the_call(record: Record) -> None:
    twice = Primitive("twice")

    def doubled(x: Any) -> Any:
        return x * 2

    twice.def_abstract_eval(lambda x: x)
    mlir.register_lowering(twice, mlir.lower_fun(doubled, multiple_results=False))

    @jax.jit
    def slow(x: Any) -> Any:
        time.sleep(0.1)
        return jnp.sin(twice.bind(x)) + 1

    (miss,) = record(lambda: slow(np.ones(3)))
    assert set(miss.stages) == {Stage.TRACE, Stage.LOWER, Stage.COMPILE}
    assert miss.stages[Stage.TRACE] > 0.1
    assert miss.program is not None and miss.program.equations == 3

"""What guards report about programs."""

from __future__ import annotations

import asyncio
import functools
import itertools
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrace
from retrace.errors import ExceededError, MissError, UsageError


def make_step() -> Any:
    """A new function for each test, on a line of its own, whichever tests ran before."""

    def step(x: Any) -> Any:
        return x * 2

    step.__code__ = step.__code__.replace(co_firstlineno=next(_LINES))
    return jax.jit(step)


_LINES = itertools.count(10_000)


def run(step: Callable[..., Any], *sizes: int) -> None:
    for size in sizes:
        step(ones(size))


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def test_too_many_traces_are_explained_in_words_and_as_data() -> None:
    step = make_step()
    said = "step was traced 3 .* 1 "
    with pytest.raises(AssertionError, match=said) as caught, retrace.assert_max_traces(step, 1):
        run(step, 2, 3, 4)
    error = caught.value
    assert isinstance(error, retrace.RetraceError) and isinstance(error, ExceededError)
    assert "float32[2] -> float32[3]" in str(error) or "float32[3] -> float32[4]" in str(error)
    assert [miss.cause for miss in error.misses] == [
        "first-trace",
        "shape-changed",
        "shape-changed",
    ]
    copied = pickle.loads(pickle.dumps(error))
    assert str(copied) == str(error) and copied.misses[1].changes[0].path == "x"


def test_as_many_as_allowed_pass() -> None:
    step = make_step()
    with retrace.assert_max_traces(step, 2), retrace.assert_max_traces(n=2):
        step(ones(2))
        step(ones(3))
        step(ones(2))


@pytest.mark.parametrize("named", ["step", "*.step", "test_guard.*", "make_step.<locals>.step"])
def test_functions_are_found_by_name_and_pattern(named: str) -> None:
    step = make_step()
    with pytest.raises(ExceededError), retrace.assert_max_traces(named, 1):
        run(step, 2, 3)


def test_derived_functions_count_with_their_origin() -> None:
    def loss(x: Any) -> Any:
        return (x**2).sum()

    with pytest.raises(ExceededError, match="loss was"), retrace.assert_max_traces(loss, 1):
        list(map(run, (jax.jit(loss), jax.jit(jax.grad(loss))), (2, 2)))


def test_an_unknown_name_is_reported() -> None:
    name = "no_such_step"
    with pytest.warns(retrace.RetraceWarning, match=name) as caught:
        retrace.assert_max_traces(name, 1)(make_step)()
    assert caught[0].filename == __file__


NONSENSE: dict[str, Callable[[], object]] = {
    "cause": lambda: retrace.assert_no_retrace(allow=["shape-chnged"]),
    "function": lambda: retrace.assert_no_retrace([3]),  # pyright: ignore[reportArgumentType]
    "no limit": lambda: retrace.assert_max_traces("f"),
    "negative": lambda: retrace.assert_max_traces("f", -1),
    "limit": lambda: retrace.assert_max_traces("f", 1, causes={"shapes": 1}),
    "warm-up": lambda: retrace.freeze(warmup=-1),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_invalid_arguments_are_refused(kind: str) -> None:
    with pytest.raises(UsageError):
        NONSENSE[kind]()


def test_the_nearest_cause_is_suggested() -> None:
    with pytest.raises(UsageError, match="did you mean shape-changed"):
        retrace.assert_no_retrace(allow=["shape-chnged"])


def test_no_retrace_counts_all_but_what_is_allowed() -> None:
    step = make_step()
    with retrace.assert_no_retrace(allow={"first-trace"}):
        step(ones(2))
        step(ones(2))
    with retrace.assert_no_retrace(allow={retrace.Cause.SHAPE_CHANGED}):
        step(ones(3))
    guard = retrace.assert_no_retrace(step, allow={"shape-changed"})
    with pytest.raises(ExceededError, match="dtype-changed"), guard:
        step(np.ones(3, np.int32))


def test_a_call_that_leaves_the_fast_path_is_no_miss() -> None:
    def seen(x: Any) -> Any:
        return np.asarray(x)

    @jax.jit
    def called_back(x: Any) -> Any:
        return jax.pure_callback(seen, jax.ShapeDtypeStruct((3,), "float32"), x)

    step, array = make_step(), jnp.ones(3)
    step(array)
    called_back(array)
    step(ones(3))
    with retrace.assert_no_retrace(), retrace.assert_max_traces(n=0), retrace.freeze():
        for _ in range(3):
            step(array)
            step(ones(3))
            called_back(array)
            called_back(ones(3))


def test_limits_by_cause_stage_and_seconds() -> None:
    step = make_step()
    limits: list[dict[str, Any]] = [
        {"causes": {"shape-changed": 0}},
        {"compiles": 1},
        {"lowerings": 1},
        {"seconds": 1e-9},
    ]
    for index, limit in enumerate(limits):
        with pytest.raises(ExceededError), retrace.assert_max_traces(step, **limit):
            run(step, 2 * index + 1, 2 * index + 2)
    with retrace.assert_max_traces(step, causes={"shape-changed": 2}, seconds=1e6):
        step(ones(1, 1, 1))
        step(ones(2, 1, 1))


def test_warm_up_is_not_counted() -> None:
    step = make_step()
    with retrace.assert_no_retrace(step, warmup=2), retrace.freeze(step, warmup=2):
        step(ones(2))
        step(ones(3))
    with pytest.raises(ExceededError), retrace.assert_no_retrace(step, warmup=1):
        run(step, 4, 5)


GUARDS: dict[str, Callable[[Any], Any]] = {
    "assert_no_retrace": lambda step: retrace.assert_no_retrace(step, warmup=2),
    "assert_max_traces": lambda step: retrace.assert_max_traces(step, 0, warmup=2),
    "freeze": lambda step: retrace.freeze(step, warmup=2),
    "policy": lambda step: retrace.policy("raise", step, warmup=2),
}


@pytest.mark.parametrize("guard", GUARDS)
def test_the_warm_up_of_a_decorated_function_is_over_once(guard: str) -> None:
    step = make_step()
    epoch = GUARDS[guard](step)(lambda size: step(ones(size)))
    epoch(2)
    epoch(3)
    epoch(2)
    with pytest.raises((ExceededError, MissError)):
        epoch(4)


def test_what_was_lowered_before_is_seen_to_be_compiled() -> None:
    step = make_step()
    shapes = (jax.ShapeDtypeStruct((size,), np.float32) for size in (2, 3, 4, 5))
    with retrace.recording():
        first, second, third, fourth = map(step.lower, shapes)
        with pytest.raises(ExceededError), retrace.assert_no_retrace():
            first.compile()
        with pytest.raises(ExceededError), retrace.assert_max_traces(None, 9, compiles=0):
            second.compile()
        with pytest.raises(MissError), retrace.freeze():
            third.compile()
        with retrace.assert_max_traces(step, 0):  # it was traced before
            fourth.compile()


def test_decorators_guard_each_call() -> None:
    step = make_step()

    @retrace.assert_max_traces(step, 1)
    def train(sizes: list[int]) -> int:
        """Trains."""
        for size in sizes:
            step(ones(size))
        return len(sizes)

    assert train([2, 2]) == 2 and train([3]) == 1
    assert train.__doc__ == "Trains."
    with pytest.raises(ExceededError):
        train([4, 5])


def test_a_coroutine_function_is_guarded_while_it_runs() -> None:
    step = make_step()

    @retrace.assert_max_traces(step, 1)
    async def train() -> None:
        for size in (2, 3):
            await asyncio.sleep(0)
            step(ones(size))

    with pytest.raises(ExceededError):
        asyncio.run(train())


def behind_a_closure(function: Any) -> Any:
    def wrapper(x: Any) -> Any:
        return function(x)

    return wrapper


class BehindAClass:
    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, x: Any) -> Any:
        return self.function(x)


def test_a_limit_on_a_wrapped_function_is_counted_or_reported() -> None:
    def in_a_closure(x: Any) -> Any:
        return x * 2

    def in_an_object(x: Any) -> Any:
        return x * 3

    def wrapped(x: Any) -> Any:
        return x * 4

    for function, wrapper, holder in (
        (in_a_closure, behind_a_closure, "wrapper"),
        (in_an_object, BehindAClass, "BehindAClass"),
    ):
        for named in (function, function.__name__):
            jitted = jax.jit(wrapper(function))
            with (
                pytest.warns(retrace.RetraceWarning, match=f"nothing is guarded.*'{holder}'"),
                retrace.assert_max_traces(named, 1),
            ):
                run(jitted, 2, 3)
        with pytest.raises(ExceededError), retrace.assert_max_traces(jitted, 1):
            run(jitted, 4, 5)
    wrappers: list[Callable[[Any], Any]] = [
        lambda f: functools.wraps(f)(behind_a_closure(f)),
        functools.partial,
        jax.vmap,
        jax.checkpoint,
    ]
    for wrapper in wrappers:
        jitted = jax.jit(wrapper(wrapped))
        for named in (wrapped, "wrapped"):
            with pytest.raises(ExceededError), retrace.assert_max_traces(named, 1):
                run(jitted, *((2, 3) if named is wrapped else (4, 5)))


def test_a_function_of_a_class_stands_for_the_methods_bound_to_its_objects() -> None:
    class Model:
        def step(self, x: Any) -> Any:
            return x

        def __call__(self, x: Any) -> Any:
            return x

    class Child(Model): ...

    for named, make in (
        (Model.step, lambda: Model().step),
        (Model.step, lambda: Child().step),
        (Model.step, lambda: jax.vmap(Model().step)),
        (Model.__call__, Model),
    ):
        with pytest.raises(ExceededError), retrace.assert_max_traces(named, 1):
            run(jax.jit(make()), 2, 3)
        with pytest.raises(MissError), retrace.freeze(named):
            run(jax.jit(make()), 2)


def test_an_error_of_the_block_stays_itself() -> None:
    step = make_step()
    with pytest.raises(KeyError), retrace.assert_max_traces(step, 0):
        step(ones(2))[{}.pop("the program's own")]


def test_all_threads_are_seen() -> None:
    step = make_step()

    def in_threads() -> None:
        for size in (2, 3):
            thread = threading.Thread(target=step, args=(ones(size),))
            thread.start()
            thread.join()

    with pytest.raises(ExceededError), retrace.assert_max_traces(step, 1):
        in_threads()


def test_a_later_guard_knows_what_an_earlier_one_saw() -> None:
    step = make_step()
    with retrace.assert_max_traces(step, 1):
        step(ones(2))
    with pytest.raises(ExceededError) as caught, retrace.assert_no_retrace(step):
        step(ones(3))
    assert caught.value.misses[0].cause == "shape-changed"


def test_misses_of_an_enclosing_recording_are_known() -> None:
    step = make_step()
    with retrace.recording() as recorded:
        step(ones(2))
        with pytest.raises(MissError) as caught, retrace.freeze():
            step(ones(3))
    assert caught.value.misses[0].cause == "shape-changed"
    assert [miss.raised for miss in recorded.misses] == [None, "MissError"]


def test_frozen_means_raised_at_the_call() -> None:
    step = make_step()
    step(ones(2))
    called: list[int] = []

    def loop() -> None:
        for size in (2, 2, 3, 4):
            called.append(size)
            step(ones(size))

    with pytest.raises(retrace.RetraceError, match="step missed") as caught, retrace.freeze():
        loop()
    assert called == [2, 2, 3]
    assert "before its trace" in str(caught.value)
    assert not isinstance(caught.value, AssertionError)


def test_jax_still_works_after_a_refused_miss() -> None:
    step = make_step()
    counted = 0

    @jax.jit
    def outer(x: Any) -> Any:
        nonlocal counted
        counted += 1
        return step(x) + 1

    for _ in range(2):
        with pytest.raises(MissError), retrace.freeze():
            outer(ones(3))
    assert counted == 0
    with pytest.raises(MissError), retrace.freeze(step):
        outer(ones(3))
    assert counted == 1
    assert outer(ones(3)).tolist() == [3.0, 3.0, 3.0]
    with retrace.freeze():
        assert outer(ones(3)).tolist() == [3.0, 3.0, 3.0]
    assert counted == 2


def test_a_miss_without_a_trace_is_refused_too() -> None:
    step = make_step()
    step(jnp.ones(3))
    placed = jax.device_put(jnp.ones(3), jax.devices()[0])
    # Refused at its end: refused earlier, JAX would lower and compile at every later call.
    with pytest.raises(MissError), retrace.freeze():
        step(placed)
    assert step(placed).tolist() == [2.0, 2.0, 2.0]
    with retrace.freeze(), retrace.assert_no_retrace():
        step(placed)


def test_a_backward_program_is_refused() -> None:
    step = make_step()

    def loss(x: Any) -> Any:
        return step(x).sum()

    x = jnp.ones(3)
    step(x).sum()
    with pytest.raises(MissError), retrace.freeze("step"):
        jax.grad(loss)(x)
    jax.grad(loss)(x)
    with retrace.freeze():
        jax.grad(loss)(x)


def test_another_thread_is_refused_in_its_own_call() -> None:
    step, raised = make_step(), list[BaseException]()

    def in_thread() -> None:
        try:
            step(ones(3))
        except MissError as error:
            raised.append(error)

    with retrace.freeze(step):
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
    assert len(raised) == 1


def test_a_compilation_ahead_of_time_is_refused() -> None:
    lowered = make_step().lower(ones(3))
    with pytest.raises(MissError), retrace.freeze():
        lowered.compile()
    assert lowered.compile()(ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_frozen_from_here_on() -> None:
    step = make_step()
    frozen = retrace.freeze(step)
    with pytest.raises(MissError):
        step(ones(3))
    frozen.end()
    step(ones(3))


def test_a_frozen_function() -> None:
    step = make_step()

    @retrace.freeze()
    def serve(x: Any) -> Any:
        return step(x)

    step(ones(2))
    serve(ones(2))
    with pytest.raises(MissError):
        serve(ones(3))
    step(ones(4))


def test_freezing_may_only_warn() -> None:
    step = make_step()
    frozen = pytest.warns(retrace.RetraceWarning, match="step missed")
    with frozen as caught, retrace.freeze(step, warn=True):
        step(ones(3))
    assert caught[0].filename == __file__
    with warnings.catch_warnings(), retrace.freeze(step, warn=True):
        warnings.simplefilter("error")
        with pytest.raises(retrace.RetraceWarning):
            step(ones(4))


def test_off_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRACE", "0")
    step = make_step()
    with retrace.freeze(), retrace.assert_max_traces(step, 0), retrace.assert_no_retrace():
        step(ones(3))


def test_an_unknown_name_lists_what_was_traced() -> None:
    def train_step(x: Any) -> Any:
        return x + 1

    with (
        pytest.warns(retrace.RetraceWarning, match="'qqq' was ever.*traced here: .*train_step"),
        retrace.assert_max_traces("qqq", 1),
    ):
        run(jax.jit(train_step), 2)


@pytest.mark.parametrize(
    "function",
    [
        jax.nn.relu,
        jnp.linalg.norm,
        jnp.mean,
        jax.vmap(jnp.cumsum),
        functools.partial(jax.nn.softmax, axis=0),
        jax.grad(jnp.sum),
    ],
    ids=["relu", "norm", "mean", "vmap", "partial", "grad"],
)
def test_a_function_of_jax_that_the_user_jitted_is_guarded(function: Any) -> None:
    jitted = jax.jit(function)
    mapped = getattr(function, "__wrapped__", None) is jnp.cumsum
    rows = [ones(1, size) if mapped else ones(size) for size in (2, 3)]
    with pytest.raises(ExceededError) as caught, retrace.assert_max_traces(jitted, 1):
        [jitted(row) for row in rows]
    assert [miss.cause for miss in caught.value.misses] == ["first-trace", "shape-changed"]
    with pytest.raises(MissError), retrace.freeze(jitted):
        jitted(np.pad(rows[0], [(0, 3)] * rows[0].ndim))


def test_each_ufunc_of_jax_that_the_user_jitted_is_its_own() -> None:
    add, multiply = jax.jit(jnp.add), jax.jit(jnp.multiply)
    with retrace.recording() as seen, retrace.assert_max_traces(add, 1):
        add(ones(2), ones(2))
        for size in (2, 3):
            multiply(ones(size), ones(size))
    assert [miss.function.name for miss in seen.misses] == ["add", "multiply", "multiply"]


def test_operations_of_jax_are_not_functions_of_the_user() -> None:
    with retrace.recording() as seen:
        for operation in (jnp.linalg.norm, jnp.sort, jax.nn.relu, jnp.cumsum):
            operation(ones(17))
        jnp.einsum("i,i", ones(17), ones(17))
        jnp.interp(ones(17), ones(17), ones(17))
    assert {miss.cause for miss in seen.misses} == {"eager-op"}


@pytest.mark.parametrize("name", ["Local.step", "step", "*.step"])
def test_a_method_of_a_class_that_is_local_to_a_function_is_guarded(name: str) -> None:
    class Local:
        @functools.partial(jax.jit, static_argnums=0)
        def step(self, x: Any) -> Any:
            return x * 2

    Local().step(1.0)
    with pytest.raises(MissError, match="step"), retrace.assert_no_retrace(name):
        Local().step(1.0)

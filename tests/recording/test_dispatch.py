"""Programs that call back into Python go in; which functions are slow at every call comes out."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import io_callback

from retrace.jax_internals.names_frames import CALL
from retrace.present.view import View
from tests.recording.conftest import JudgeAll

CALLS = 10


def pure(x: Any) -> Any:
    return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def printing(x: Any) -> Any:
    jax.debug.print("")
    return x + 1


def debugging(x: Any) -> Any:
    jax.debug.callback(lambda v: None, x)
    return x + 1


def sending(x: Any) -> Any:
    io_callback(lambda v: None, None, x)
    return x + 1


def sending_in_order(x: Any) -> Any:
    io_callback(lambda v: None, None, x, ordered=True)
    return x + 1


def sending_for_nothing(x: Any) -> Any:
    io_callback(lambda v: v, x, x)
    return x + 1


def inspecting(x: Any) -> Any:
    jax.debug.inspect_array_sharding(x, callback=lambda s: None)
    return x + 1


def pure_for_nothing(x: Any) -> Any:
    pure(x)
    return x + 1


def pure_inside_for_nothing(x: Any) -> Any:
    return jax.jit(lambda x: (pure(x), x + 1))(x)[1]


def pure_in_a_loop(x: Any) -> Any:
    return jax.lax.scan(lambda c, _: (c + pure(c), None), x, None, length=3)[0]


def pure_in_a_loop_for_nothing(x: Any) -> Any:
    return jax.lax.scan(lambda c, _: (c + 1, pure(c)), x, None, length=3)[0]


def pure_for_the_next_round(x: Any) -> Any:
    return jax.lax.scan(lambda c, _: (pure(c), c + 1), x, None, length=3)[1]


def pure_in_while(x: Any) -> Any:
    return jax.lax.while_loop(lambda c: c[0] < 1, pure, x)


def pure_in_a_branch(x: Any) -> Any:
    return jax.lax.cond(x[0] > 5, pure, lambda x: x, x)


def printing_in_a_branch(x: Any) -> Any:
    return jax.lax.cond(x[0] > 5, printing, lambda x: x, x)


def printing_below(x: Any) -> Any:
    return jax.jit(jax.jit(printing))(x) * 2


def printing_when_made_again(x: Any) -> Any:
    return jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(debugging(y)))(x).sum())(x)


def printing_for_each(x: Any) -> Any:
    return jax.vmap(debugging)(x)


def plain(x: Any) -> Any:
    return jnp.sin(x) + 1


PROGRAMS: tuple[Callable[[Any], Any], ...] = (
    pure,
    printing,
    debugging,
    sending,
    sending_in_order,
    sending_for_nothing,
    inspecting,
    pure_for_nothing,
    pure_inside_for_nothing,
    pure_in_a_loop,
    pure_in_a_loop_for_nothing,
    pure_for_the_next_round,
    pure_in_while,
    pure_in_a_branch,
    printing_in_a_branch,
    printing_below,
    printing_when_made_again,
    printing_for_each,
    plain,
)


def slow_calls(call: Callable[[], object]) -> int:
    """How many of ten calls that hit run JAX's Python."""
    code, number = CALL.get(), 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal number
        number += event == "call" and frame.f_code is code

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in range(CALLS):
            call()
    finally:
        sys.setprofile(before)
    return number


@pytest.mark.usefixtures("capfd")
def test_what_is_said_of_each_call_is_what_jax_does(judge_all: JudgeAll) -> None:
    x = jnp.ones(3)
    jitted = {function.__name__: jax.jit(function) for function in PROGRAMS}

    def program() -> None:
        for function in jitted.values():
            jax.block_until_ready(function(x))  # pyright: ignore[reportUnknownMemberType]
        jax.effects_barrier()

    recording, verdicts = judge_all(program)
    view = View(recording, verdicts)
    told = {
        verdict.miss.function.name: view.slow_dispatch(verdict)
        for verdict in verdicts
        if verdict.miss.function.name in jitted and verdict.miss.parent is None
    }
    assert told.keys() == jitted.keys()
    # Called once more before it is counted: by its second call C++ knows it.
    made = {}
    for name, function in jitted.items():
        function(x)
        made[name] = slow_calls(lambda function=function: function(x))
    jax.effects_barrier()
    assert {name: CALLS if found else 0 for name, found in told.items()} == made
    assert made["plain"] == 0
    assert made["printing"] == made["sending"] == CALLS


def anew(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same as another function, which JAX has not traced yet."""
    return lambda x: function(x)


def test_the_line_of_the_callback_is_told(judge_all: JudgeAll) -> None:
    recording, verdicts = judge_all(lambda: jax.jit(anew(printing_below))(jnp.ones(3)))
    view = View(recording, verdicts)
    [found] = [one for verdict in verdicts for one in view.slow_dispatch(verdict)]
    assert (found.file, found.line) == (__file__, printing.__code__.co_firstlineno + 1)


def test_calls_that_are_no_calls_of_the_program_are_not_judged(judge_all: JudgeAll) -> None:
    inner = jax.jit(anew(debugging))

    @jax.jit
    def outer(x: Any) -> Any:
        return inner(x) * 2

    def program() -> None:
        outer(jnp.ones(3))
        jax.jit(anew(sending)).lower(jnp.ones(3)).compile()
        jax.grad(lambda x: inner(x).sum())(jnp.ones(4))

    recording, verdicts = judge_all(program)
    view = View(recording, verdicts)
    told = [verdict.miss for verdict in verdicts if view.slow_dispatch(verdict)]
    assert [miss.function.name for miss in told] == ["outer"]
    # What they call is known all the same.
    programs = [miss.program for miss in recording.misses if miss.ahead]
    assert programs
    assert all(program and program.callbacks for program in programs)


def test_a_function_traced_ahead_is_judged_when_it_is_called(judge_all: JudgeAll) -> None:
    jitted = jax.jit(anew(debugging))

    def program() -> None:
        jitted.eval_shape(jnp.ones(3))
        jitted(jnp.ones(3))

    recording, verdicts = judge_all(program)
    view = View(recording, verdicts)
    assert [verdict.miss.ahead for verdict in verdicts if view.slow_dispatch(verdict)] == [False]


def test_a_recording_that_does_not_tell_what_is_fast_says_nothing(judge_all: JudgeAll) -> None:
    recording, verdicts = judge_all(lambda: jax.jit(anew(debugging))(jnp.ones(3)))
    view = View(recording, verdicts)
    assert any(view.slow_dispatch(verdict) for verdict in verdicts)
    recording.runs[0].off_fast_path = ()
    assert not any(view.slow_dispatch(verdict) for verdict in verdicts)

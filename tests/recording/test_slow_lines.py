"""Which line the seconds of a slow miss are told on, where JAX and XLA do not say it outright."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.capture.kernels import kernels
from retrace.capture.loops import around, loops
from retrace.capture.programs import transcript
from retrace.capture.sampling import Sampler
from retrace.capture.session import begin_memory, session
from retrace.capture.turn import Turn
from retrace.costs.account import Account, account
from retrace.costs.by_line import by_line
from retrace.costs.folding import Folded, folded
from retrace.costs.tracing import summarise
from retrace.jax_internals import names_slow
from retrace.model import Frame, Tracing
from retrace.model.slow import Kernel, Part, Sampled
from retrace.store.reader import read_lines
from retrace.store.slow import decode_slow, encode_slow
from tests.recording.own_stack import seen_here
from tests.recording.test_slow import sampled

HERE = __file__
Of = Callable[[Callable[[], object], str], Account]


@pytest.fixture
def of() -> Iterator[Of]:
    """Run a program with long misses observed; what is told of one of its functions."""
    recorder = session().recorder
    recorder.observe_slow(0.02)

    def run(program: Callable[[], object], name: str) -> Account:
        writer, sink = begin_memory()
        try:
            program()
        finally:
            session().detach(writer)
        recording = read_lines(sink.lines)
        assert recording.runs[0].losses == {}
        miss = next(m for m in recording.misses if m.function.name == name and not m.parent)
        return account(miss, recording)

    yield run
    recorder.slow = None


def line_of(mark: str) -> int:
    lines = Path(HERE).read_text(encoding="utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))


HLO = f"""HloModule jit_f

FileNames
1 "{HERE}"

FunctionNames
1 "f"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=10 end_line=10 column=1 end_column=2}}
2 {{file_name_id=1 function_name_id=1 line=20 end_line=20 column=1 end_column=2}}
3 {{file_name_id=1 function_name_id=1 line=30 end_line=30 column=1 end_column=2}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}
3 {{file_location_id=3 parent_frame_id=3}}

%region (a: f32[], b: f32[]) -> pred[] {{
  %a = f32[] parameter(0), metadata={{op_name="sort"}}
  %b = f32[] parameter(1), metadata={{op_name="sort"}}
  %ne = pred[] compare(%a, %b), direction=NE
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}}

%wrapped_reduce-window_computation (p: f32[4]) -> f32[4] {{
  %p = f32[4]{{0}} parameter(0)
  ROOT %reduce-window.1 = f32[4]{{0}} reduce-window(%p), window={{size=2}}
}}

%mixed (p.1: f32[4]) -> f32[4] {{
  %p.1 = f32[4]{{0}} parameter(0)
  %sine = f32[4]{{0}} sine(%p.1), metadata={{op_name="jit(f)/sin" stack_frame_id=1}}
  ROOT %add = f32[4]{{0}} add(%sine, %p.1), metadata={{op_name="jit(f)/add" stack_frame_id=2}}
}}

ENTRY %main (x: f32[4]) -> f32[4] {{
  %x = f32[4]{{0}} parameter(0), metadata={{op_name="x"}}
  %wrapped_reduce-window = f32[4]{{0}} fusion(%x), kind=kLoop, calls=%wrapped_reduce-window_computation
  %mixed_fusion = f32[4]{{0}} fusion(%wrapped_reduce-window), kind=kLoop, calls=%mixed, metadata={{op_name="jit(f)/add" stack_frame_id=2}}
  %again = f32[4]{{0}} fusion(%mixed_fusion), kind=kLoop, calls=%mixed, metadata={{op_name="jit(f)/add" stack_frame_id=2}}
  %sort = (f32[4]{{0}}, f32[4]{{0}}, f32[4]{{0}}, f32[4]{{0}}, f32[4]{{0}}, /*index=5*/f32[4]{{0}}) sort(%again, %x, %x, %x, %x, /*index=5*/%x), dimensions={{0}}, to_apply=%region, metadata={{op_name="jit(f)/sort" stack_frame_id=3}}
  ROOT %out = f32[4]{{0}} get-tuple-element(%sort), index=0
}}
"""  # noqa: E501 - as XLA writes it


def test_what_xla_added_is_told_on_the_line_that_it_was_added_for() -> None:
    found, named = kernels(HLO, {"mixed_fusion": 1.0, "wrapped_reduce-window": 0.5}, 5.0)
    lines = {one.line: one for one in found}
    # A sort of six arrays, and its comparison; the fusion of a reduction, by what uses it.
    assert named == 4
    assert (lines[30].kernels, dict(lines[30].operations)) == (1, {"compare": 2, "sort": 1})
    assert dict(lines[20].operations) == {"add": 1, "reduce-window": 1}
    # A fusion of two lines is shared; the equal one was made once and counts no second time.
    # Machine code follows the seconds of kernels, and of a sort its instructions: half a second
    # for each of three, and a twentieth of that for the two by which the sort compares.
    assert lines[10].seconds == pytest.approx(0.5 + 5 * 0.5 / 1.55)
    assert lines[20].seconds == pytest.approx(1.0 + 5 * 1.0 / 1.55)
    assert lines[30].seconds == pytest.approx(5 * 0.05 / 1.55)


def test_without_seconds_lines_are_told_by_their_instructions() -> None:
    found, _ = kernels(HLO, {})
    assert {one.seconds for one in found} == {0.0}
    assert found[0].instructions == max(one.instructions for one in found)


def test_a_program_of_one_computation_has_kernels() -> None:
    entry = HLO[: HLO.index("%region (")] + HLO[HLO.index("ENTRY") :]
    assert {one.line for one in kernels(entry, {})[0]} == {20, 30}


def test_the_loops_of_a_function() -> None:
    here = sys._getframe  # pyright: ignore[reportPrivateUsage]
    seen: list[int] = []

    def runs() -> None:
        seen.append(here().f_lasti)
        for number in range(1):  # outer
            if number:
                continue
            while len(seen) < 2:  # inner
                seen.append(here().f_lasti)
            seen.append(here().f_lasti)

    runs()
    found = loops(runs.__code__)
    told = [sorted(loop.line for loop in around(found, position)) for position in seen]
    outer, inner = line_of("outer"), line_of("inner")
    assert told == [[], [outer, inner], [outer]]
    (whole,) = around(found, seen[2])
    assert whole.line == outer and whole.end >= inner + 2


def layer(x: Any) -> Any:
    y = jnp.sin(x) * 2.0
    return y + jnp.cos(y)


@sampled
def test_the_advice_to_scan_names_the_loop(of: Of) -> None:
    def unrolls(x: Any) -> Any:
        for _ in range(200):  # loop
            x = layer(x)
            x = x - x.sum()
        return x.sum()

    jitted = jax.jit(jax.grad(unrolls))
    advice = of(lambda: jitted.lower(np.ones(3)), "unrolls").advice[0]
    assert advice.code == "scan" and advice.frame is not None
    assert (advice.frame.file, advice.frame.line) == (HERE, line_of("loop"))
    # What its lines left forward and backward, together.
    assert advice.after < advice.before / 8


@sampled
def test_a_few_large_rounds_are_those_of_the_loop_around_the_loop_inside(of: Of) -> None:
    def advances(x: Any) -> Any:
        for rate in range(60):
            x = jnp.sin(layer(x)) * rate
            x = jnp.where(x > rate, jnp.cumsum(x), x / 2) if rate % 2 else jnp.sort(x)
        return x / x.max()

    def simulates(x: Any) -> Any:
        for _ in range(7):  # large rounds
            x = advances(x)
        return x.sum()

    found = of(lambda: jax.jit(simulates).lower(np.ones(3)), "simulates")
    advice = found.advice[0]
    assert advice.code == "scan" and advice.frame is not None
    assert (advice.frame.file, advice.frame.line) == (HERE, line_of("large rounds"))
    assert advice.times in (6, 7) and 0 < advice.after < advice.before / 3


@sampled
def test_what_is_derived_is_told_on_the_line_that_it_is_derived_from(of: Of) -> None:
    def derives(x: Any) -> Any:
        for _ in range(1000):  # a quick machine transposes 200 rounds between two samples
            x = jnp.sin(x) * 2.0  # derived
        return x.sum()

    jitted = jax.jit(jax.grad(derives))
    found = of(lambda: jitted.lower(np.ones(3)), "derives").trace
    assert found is not None
    row = found.lines[0]
    assert row.frame is not None and row.frame.line == line_of("derived")
    assert row.seconds > 0.6 * found.seconds
    assert Part.TRANSPOSITION in dict(row.parts)


def rounds(x: Any, spent: list[float]) -> Any:
    begun = time.thread_time()
    for _ in range(15):
        x = jnp.cos(x) * 2  # rounds
    spent[0] += time.thread_time() - begun
    return x


@sampled
@pytest.mark.drawn
def test_what_lets_other_threads_in_again_and_again_is_not_told_for_all(of: Of) -> None:
    """Each `jax.jit` lets go of the interpreter, every two milliseconds."""
    spent = [0.0, 0.0]

    def jits(x: Any) -> Any:
        begun = time.thread_time()
        for _ in range(600):
            x = jax.jit(lambda x: rounds(x, spent))(x)
        spent[1] += time.thread_time() - begun
        return x.sum()

    interval = sys.getswitchinterval()
    found = of(lambda: jax.jit(jits).trace(np.ones(3)), "jits").trace
    assert sys.getswitchinterval() == interval
    assert found is not None
    told = {row.frame and row.frame.line: row.seconds for row in found.lines}
    share = told.get(line_of("rounds"), 0.0) / sum(told.values())
    assert share == pytest.approx(spent[0] / spent[1], rel=0.35), told


class Checked:
    """A node of a pytree that works in C, and lets nobody in meanwhile.

    Each time for many times as long as a thread waits before it asks to be let in, 5 ms: what
    it asks for in the last of them comes when the next line runs.
    """

    spent = 0.0

    def __init__(self, value: Any) -> None:
        self.value = value
        begun = time.thread_time()
        sorted(range(600_000), key=str)  # in C
        Checked.spent += time.thread_time() - begun


jax.tree_util.register_pytree_node(
    Checked, lambda one: ((one.value,), None), lambda _, children: Checked(*children)
)


@sampled
def test_what_lets_nobody_in_is_told_on_its_line(of: Of) -> None:
    Checked.spent = whole = 0.0

    def checks(x: Any) -> Any:
        nonlocal whole
        begun = time.thread_time()
        one = Checked(x)
        for _ in range(5):
            one = jax.tree.map(lambda x: x + 1, one)
            for number in range(12):
                x = jnp.sin(x) * number
        whole = time.thread_time() - begun
        return one.value + x

    found = of(lambda: jax.jit(checks).trace(np.ones(3)), "checks").trace
    assert found is not None
    told = {row.frame and row.frame.line: row.seconds for row in found.lines}
    share = told.get(line_of("in C"), 0.0) / sum(told.values())
    assert share == pytest.approx(Checked.spent / whole, rel=0.25), told


def test_two_functions_on_one_line_are_one_row() -> None:
    operations = (("sine", 2), ("add", 1))
    rows = [
        Kernel("a.py", 1, "f.<locals>.<lambda>", 5, 2, 1.0, operations),
        Kernel("a.py", 2, "f", 9, 2, 1.5, operations),
        Kernel("a.py", 1, "f", 3, 1, 1.0, (("add", 2),)),
    ]
    first, second = by_line(rows)
    assert first == Kernel("a.py", 1, "f", 8, 3, 2.0, (("add", 3), ("sine", 2)))
    assert second is rows[1]


def test_traces_that_end_at_once_leave_the_interval_as_it_was() -> None:
    before = sys.getswitchinterval()
    sampler = Sampler(60, lambda look: look(), lambda *_: None)
    for number in range(200):  # the thread that would look is awake for most of them
        sampler.began(number)
        sampler.ended(number)
        assert sys.getswitchinterval() == before


def test_an_interval_that_the_program_sets_meanwhile_stays() -> None:
    before = sys.getswitchinterval()
    turn = Turn()
    try:
        assert 0 < turn.soon() < 0.01 and sys.getswitchinterval() < before
        turn.over()
        assert sys.getswitchinterval() == before
        turn.soon()
        sys.setswitchinterval(0.001)
        turn.over()
        assert sys.getswitchinterval() == pytest.approx(0.001)
    finally:
        sys.setswitchinterval(before)


class Equal:
    """A value whose comparison is a generator expression."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return all(self.seen.append(seen_here()) is None for _ in range(1))  # compares


def test_a_comparison_is_one_whatever_its_code_calls() -> None:
    seen: list[Any] = []
    inner = jax.jit(lambda x, held: x + 1, static_argnums=1)

    def compares(x: Any) -> Any:
        return inner(inner(x, Equal(seen)), Equal(seen))

    jax.jit(compares).trace(np.ones(3))
    lines, part = seen[0]
    assert part is Part.EQUALITY
    stack = tuple(Frame(*line, in_library=False) for line in lines)
    row = summarise(Tracing(0.0, 1.0, 1, (Sampled(1.0, part, stack),))).lines[0]
    assert row.frame is not None
    assert (row.frame.line, row.frame.function) == (line_of("compares"), "Equal.__eq__")


HELD = np.random.RandomState(0).rand(500, 60).astype(np.float32)
needs_a_profile = pytest.mark.skipif(
    not names_slow.SESSION.expected, reason="this JAX has no profile that can be taken unseen"
)


def folds(x: Any) -> Any:
    y = jnp.sin(x) + jnp.arange(3).sum()
    held = jnp.asarray(HELD) * 2
    window = (200, 3)
    sums = jax.lax.reduce_window(held, 0.0, jax.lax.add, window, (1, 1), "SAME")  # folds
    return (sums * y).sum() + y


def of_program(function: Callable[..., Any], argument: Any) -> Folded | None:
    found = transcript(jax.make_jaxpr(function)(argument))
    listings = {one.id: one for one in found.listings}
    return folded(listings[found.program.listing or ""], listings)


def test_the_line_that_computes_on_constants() -> None:
    named = of_program(folds, np.float32(1))
    assert named is not None
    assert (named.frame.line, named.primitive) == (line_of("folds"), "reduce_window_sum")
    assert of_program(lambda x: jnp.sin(x) @ x, np.ones(3)) is None


@needs_a_profile
@sampled
def test_computing_on_constants_is_told_before_kernels(of: Of) -> None:
    found = of(lambda: jax.jit(folds)(np.float32(1)), "folds")
    dearest = found.lines[0]
    assert (dearest.file, dearest.line) == (HERE, line_of("folds"))
    assert found.advice[0].code == "folding" and found.advice[0].frame is not None
    assert found.advice[0].frame.line == line_of("folds")


@sampled
@sampled
def test_loops_are_written_down(of: Of) -> None:
    def unrolls(x: Any) -> Any:
        for _ in range(1500):
            x = layer(x)
        return x

    jitted = jax.jit(unrolls)
    slow = of(lambda: jitted.lower(np.ones(3)), "unrolls").miss.slow
    assert slow is not None and slow.tracing is not None and slow.tracing.loops
    written = decode_slow(encode_slow(slow), None)
    assert written.tracing is not None and written.tracing.loops == slow.tracing.loops

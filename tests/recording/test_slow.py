"""Where the seconds of slow misses go: one planted cost each, told on the line that has it.

What a plant costs it measures itself, in the run that is told of: no share is held to a clock
that other processes share.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.capture.sampling import Sampler, Seen
from retrace.capture.session import begin_memory, session
from retrace.costs.account import Account, account
from retrace.costs.tracing import TraceSummary, outside_tracing
from retrace.failure import contain, ignore
from retrace.jax_internals import names_slow
from retrace.jax_internals.profile import Profile
from retrace.model import Miss, Recording, Stage, Tracing
from retrace.model.slow import Part
from retrace.store.reader import read_lines
from tests.recording.own_stack import seen_here

HERE = __file__
LEAST = 0.4
"""Seconds that a plant takes: some forty samples."""

Slowly = Callable[[Callable[[], object]], Recording]
Test = TypeVar("Test", bound=Callable[..., None])


def sampled(test: Test) -> Test:
    """Try a test four times: seconds are of the whole machine, and a busy one stops for a while.

    So may the thread that looks, or a thread of XLA's while it makes a small kernel.
    """

    @wraps(test)
    def tried(*args: Any, **kwargs: Any) -> None:
        for _ in range(3):
            try:
                return test(*args, **kwargs)
            except AssertionError:
                continue
        return test(*args, **kwargs)

    return cast("Test", tried)


@pytest.fixture
def slowly() -> Iterator[Slowly]:
    """Run a program with its long misses observed, from a twentieth of a second on."""
    recorder = session().recorder
    recorder.observe_slow(0.05)

    def run(program: Callable[[], object]) -> Recording:
        writer, sink = begin_memory()
        try:
            program()
        finally:
            session().detach(writer)
        recording = read_lines(sink.lines)
        assert recording.runs[0].losses == {}
        return recording

    yield run
    recorder.slow = None


@dataclass(eq=False)
class Plant:
    """Something that takes long, and knows how long it took."""

    seconds: float = 0.0
    limit: float = LEAST
    begun: float = field(default=0.0, repr=False)

    def work(self, share: float = 1.0) -> None:
        begun = time.perf_counter()
        while time.perf_counter() - begun < self.limit * share:
            sum(range(100))
        self.seconds += time.perf_counter() - begun


def line_of(mark: str) -> int:
    """The line of this file that ends with a mark."""
    lines = Path(HERE).read_text(encoding="utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))


def first(recording: Recording, name: str) -> Account:
    miss = next(m for m in recording.misses if m.function.name == name and m.parent is None)
    return account(miss, recording)


def traced(recording: Recording, name: str) -> TraceSummary:
    found = first(recording, name).trace
    assert found is not None
    # Whatever is spent is told of, and no more than was spent.
    spent = sum(row.seconds for row in found.lines)
    assert spent <= found.seconds * 1.001
    assert spent >= found.seconds * 0.8
    return found


def is_near(told: float, truth: float, unseen: float = 0.0) -> bool:
    """Within 20 %, but for what may have lain before the first sample, which is told apart."""
    return 0.8 * (truth - unseen) - 0.02 <= told <= 1.2 * truth + 0.02


def inclusive(told: TraceSummary, function: str) -> float:
    return sum(seconds for frame, seconds in told.functions if frame.function.endswith(function))


class Compared:
    """A static value that is slow to compare."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        self.plant.work(0.1)
        return isinstance(other, Compared)


class Tree:
    """A node of a pytree that is slow to take apart."""

    def __init__(self, value: Any, plant: Plant) -> None:
        self.value, self.plant = value, plant

    def flatten(self) -> tuple[tuple[Any], Any]:
        self.plant.work(0.1)
        return (self.value,), self.plant


def put_together(plant: Any, held: Any) -> Tree:
    return Tree(next(iter(held)), plant)


jax.tree_util.register_pytree_node(Tree, Tree.flatten, put_together)


@sampled
def test_python_that_runs_while_a_function_is_traced(slowly: Slowly) -> None:
    plant = Plant()

    def load() -> None:
        plant.work()

    def loads(x: Any) -> Any:
        load()  # loads
        return x + 1

    told = traced(slowly(lambda: jax.jit(loads)(np.ones(3))), "loads")
    row = told.lines[0]
    assert row.frame is not None and row.frame.function.endswith("Plant.work")
    assert row.under is not None and row.under.line == line_of("loads")
    assert row.parts[0][0] is Part.PYTHON
    assert is_near(inclusive(told, "Plant.work"), plant.seconds, told.waited)
    assert is_near(inclusive(told, "load"), plant.seconds, told.waited)
    assert is_near(outside_tracing(told.parts), plant.seconds, told.waited)


@sampled
def test_waiting_is_told_on_the_line_that_waits(slowly: Slowly) -> None:
    def waits(x: Any) -> Any:
        time.sleep(LEAST)  # waits
        return x + 1

    told = traced(slowly(lambda: jax.jit(waits)(np.ones(3))), "waits")
    row = told.lines[0]
    assert row.frame is not None and row.frame.line == line_of("waits")
    assert row.parts[0][0] is Part.PYTHON
    assert row.seconds >= 0.8 * (LEAST - told.waited)


@sampled
def test_a_comparison_of_static_values(slowly: Slowly) -> None:
    plant = Plant()
    inner = jax.jit(lambda x, static: x + 1, static_argnums=1)

    def compares(x: Any) -> Any:
        for _ in range(12):
            x = inner(x, Compared(plant))
        return x

    told = traced(slowly(lambda: jax.jit(compares)(np.ones(3))), "compares")
    found = inclusive(told, "Compared.__eq__")
    assert plant.seconds > LEAST / 2
    assert is_near(found, plant.seconds, told.waited)


@sampled
def test_a_pytree_that_is_slow_to_take_apart(slowly: Slowly) -> None:
    plant = Plant()

    def flattens(x: Any) -> Any:
        held = Tree(x, plant)
        for _ in range(12):
            jax.tree_util.tree_leaves(held)  # flattens
        return x + 1

    told = traced(slowly(lambda: jax.jit(flattens)(np.ones(3))), "flattens")
    row = told.lines[0]
    assert row.under is not None and row.under.line == line_of("flattens")
    assert is_near(inclusive(told, "Tree.flatten"), plant.seconds, told.waited)


@sampled
def test_a_nested_trace_takes_what_its_own_miss_says(slowly: Slowly) -> None:
    taken: list[float] = []

    @jax.jit
    def nested(x: Any) -> Any:
        begun = time.perf_counter()
        for index in range(1200):
            x = jnp.sin(x) * index
        taken.append(time.perf_counter() - begun)
        return x

    def nests(x: Any) -> Any:
        return nested(x) + 1  # nests

    recording = slowly(lambda: jax.jit(nests).trace(np.ones(3)))
    told = traced(recording, "nests")
    exact = next(m for m in recording.misses if m.function.name == "nested" and m.parent)
    # What JAX does with the program after its last line is on the line that calls it.
    assert is_near(inclusive(told, "nested"), taken[0], told.waited)
    assert is_near(inclusive(told, "nests"), exact.stages[Stage.TRACE], told.waited)
    found = first(recording, "nests")
    assert found.unrolled[0].times == 1200


@sampled
def test_a_deep_cond_is_told_on_its_line(slowly: Slowly) -> None:
    def deep(depth: int, x: Any) -> Any:
        if not depth:
            return x + 1
        below, also = partial(deep, depth - 1), partial(deep, depth - 1)
        return jax.lax.cond(x.sum() > depth, below, also, x)  # cond

    def conds(x: Any) -> Any:
        return deep(7, x)

    told = traced(slowly(lambda: jax.jit(conds).trace(np.ones(3))), "conds")
    assert inclusive(told, "deep") >= 0.8 * told.seconds
    assert line_of("cond") in {row.frame.line for row in told.lines if row.frame is not None}


@sampled
def test_what_jax_does_is_told_by_its_parts(slowly: Slowly) -> None:
    def differentiates(x: Any) -> Any:
        for _ in range(400):
            x = jnp.sin(x) * 2.0
        return x.sum()

    program = jax.jit(jax.grad(differentiates))
    told = traced(slowly(lambda: program.trace(np.ones(3))), "differentiates")
    spent = dict(told.parts)
    derived = spent.get(Part.DIFFERENTIATION, 0) + spent.get(Part.TRANSPOSITION, 0)
    # Of some thirty samples; on a busy machine they come when the program's own line runs, too.
    assert derived > 0.1 * told.seconds
    assert spent.get(Part.PYTHON, 0) < 0.7 * told.seconds


TABLE = np.random.RandomState(0).rand(300, 1000).astype(np.float32)


def test_a_constant_and_the_line_that_captures_it(slowly: Slowly) -> None:
    def captures(x: Any) -> Any:
        y = x * 2
        return (TABLE * y).sum()  # captures

    found = first(slowly(lambda: jax.jit(captures)(np.float32(1))), "captures")
    constant = found.constants[0]
    assert constant.bytes == TABLE.nbytes
    assert constant.frame is not None and constant.frame.line == line_of("captures")
    assert [advice.code for advice in found.advice][-1] == "argument"


def test_what_is_compiled_is_told_by_pass_and_by_line(slowly: Slowly) -> None:
    def sorts(x: Any) -> Any:
        for index in range(12):
            x = jnp.sort(x * index, axis=0)  # sorts
        return x + 1

    recording = slowly(lambda: jax.jit(sorts)(np.ones((8, 9), np.float32)))
    found = first(recording, "sorts")
    assert found.compiling is not None
    by_size = max(found.kernels, key=lambda kernel: kernel.instructions)
    assert (by_size.file, by_size.line) == (HERE, line_of("sorts"))
    assert by_size.kernels >= 12
    assert found.memory is not None and found.memory.arguments == 8 * 9 * 4
    spent = sum(step.seconds for step in (*found.passes, *found.code))
    stage = found.miss.stages[Stage.COMPILE]
    if names_slow.SESSION.expected:
        assert found.compiling.unprofiled is None
        assert 0.5 * stage < spent <= 1.05 * stage
        assert {"algsimp", "fusion"} <= {step.name for step in found.passes}
    else:
        assert (spent, found.compiling.unprofiled) == (0, "jax")


@sampled
def test_many_small_kernels_are_told_on_their_line(slowly: Slowly) -> None:
    def multiplies(x: Any) -> Any:
        y = x + 1
        for _ in range(100):
            x = jnp.sin(x) @ x  # multiplies
        return x + jnp.tanh(y)

    recording = slowly(lambda: jax.jit(multiplies)(np.ones((5, 5), np.float32)))
    found = first(recording, "multiplies")
    assert found.compiling is not None
    told = found.kernels[0]
    assert (told.file, told.line) == (HERE, line_of("multiplies"))
    # All but a few of the program's: what leaving the line out would save of them.
    assert 200 <= told.kernels <= found.compiling.named <= 1.2 * told.kernels
    assert {"dot", "sine"} <= {name for name, _ in told.operations}
    assert found.advice[0].code == "scan" and found.advice[0].times == 100


needs_a_profile = pytest.mark.skipif(
    not names_slow.SESSION.expected, reason="this JAX has no profile that can be taken unseen"
)

FOLDED = np.random.RandomState(0).rand(600, 60).astype(np.float32)


@needs_a_profile
@sampled
def test_constants_that_xla_computes_on(slowly: Slowly) -> None:
    def folds(x: Any) -> Any:
        y = jnp.sin(x)
        held = jnp.asarray(FOLDED)
        window = (200, 3)
        sums = jax.lax.reduce_window(held, 0.0, jax.lax.add, window, (1, 1), "SAME")  # folds
        return (sums * y).sum()

    found = first(slowly(lambda: jax.jit(folds)(np.float32(1))), "folds")
    assert found.constants[0].bytes == FOLDED.nbytes
    assert found.constants[0].frame is not None
    assert found.constants[0].frame.function.endswith("folds")
    dearest, *others = sorted(found.passes, key=lambda step: -step.seconds)
    assert dearest.name == "constant_folding"
    assert dearest.seconds > max(step.seconds for step in others)
    advice = found.advice[0]
    assert (advice.code, advice.before) == ("folding", FOLDED.nbytes)
    assert advice.seconds == dearest.seconds


@pytest.mark.filterwarnings("ignore:Some donated buffers:UserWarning")
def test_what_is_donated_and_what_no_result_takes(slowly: Slowly) -> None:
    wide, narrow = (
        jax.ShapeDtypeStruct((400, 400), np.float32),
        jax.ShapeDtypeStruct((90,), "int8"),
    )

    def give(state: Any, x: Any) -> Any:
        for i in range(60):
            x = jnp.cumsum(jnp.sin(x) + i)
        return {"wide": state["wide"] + x.sum(), "narrow": state["narrow"] * 2.5}

    def run() -> None:
        arguments = ({"wide": wide, "narrow": narrow}, jax.ShapeDtypeStruct((3,), np.float32))
        jax.jit(give, donate_argnums=0).lower(*arguments).compile()
        jax.jit(give, donate_argnames="x").lower(*arguments).compile()
        jax.jit(give).lower(*arguments).compile()

    recording = slowly(run)
    first, second, third = (account(miss, recording) for miss in misses_of(recording, "give"))
    assert first.memory is not None and first.donated is not None
    assert (first.donated.bytes, first.donated.reused) == (640_090, 640_000)
    assert [leaf.path for leaf in first.donated.refused] == ["state['narrow']"]
    assert second.donated is not None and [leaf.path for leaf in second.donated.refused] == ["x"]
    assert third.memory is not None and third.donated is None


@needs_a_profile
@sampled  # where even a small one took long, the next one is profiled
def test_few_plain_operations_are_not_profiled(
    slowly: Slowly, monkeypatch: pytest.MonkeyPatch
) -> None:
    session().recorder.observe_slow(5.0)
    begun: list[bool] = []
    begin = Profile.begin

    def counted(profile: Profile) -> str | None:
        begun.append(True)
        return begin(profile)

    monkeypatch.setattr(Profile, "begin", counted)
    slowly(lambda: jax.jit(lambda x: jnp.tanh(x @ x + 1))(np.ones((3, 3))))
    assert not begun
    # Each may take XLA long: an operation with a body, one that is tuned, a constant to fold.
    for program in (
        lambda x: jnp.sort(x),
        lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y * 2, x),
        lambda x: x.sum() + jnp.arange(1 << 17).sum(),
    ):
        del begun[:]
        slowly(partial(jax.jit(program), np.ones(3)))
        assert begun


def test_a_quick_miss_is_not_observed(slowly: Slowly) -> None:
    session().recorder.observe_slow(100.0)
    recording = slowly(lambda: jax.jit(lambda x: x + 1)(np.ones(3)))
    assert recording.misses
    # On a busy machine its compilation may take as long as one whose memory is read.
    seen = [miss.slow for miss in recording.misses if miss.slow is not None]
    assert [(slow.tracing, slow.compiling) for slow in seen] == [(None, None)] * len(seen)


@sampled
def test_a_trace_in_each_of_two_threads(slowly: Slowly) -> None:
    plants = Plant(), Plant()

    def program(plant: Plant) -> Callable[[Any], Any]:
        def works(x: Any) -> Any:
            plant.work()
            return x + 1

        return works

    def run() -> None:
        threads = [
            threading.Thread(target=jax.jit(program(plant)).trace, args=(np.ones(3),))
            for plant in plants
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    recording = slowly(run)
    misses = [miss for miss in recording.misses if miss.function.name == "works"]
    told = [account(miss, recording).trace for miss in misses]
    # The first look waits for both: what was before it is told as not sampled.
    for one in told:
        assert one is not None
        assert is_near(inclusive(one, "Plant.work"), one.seconds)
    spent = sum(one.seconds + one.waited for one in told if one is not None)
    assert is_near(spent, sum(plant.seconds for plant in plants))
    assert len(told) == 2


def test_what_was_seen_is_told_while_a_trace_goes_on() -> None:
    told: list[tuple[int, Tracing]] = []
    sampler = Sampler(0.01, lambda look: look(), lambda *one: told.append(one))

    def goes_on(x: Any) -> Any:
        sampler.began(7)
        watched: Any = sampler.__dict__["_watched"]
        watched[threading.get_ident()].told = 0.05
        Plant().work()
        return x + 1

    jax.jit(goes_on).trace(np.ones(3))
    ended = sampler.ended(7)
    assert ended is not None and ended.ended
    # Ever more seldom: at 0.05, 0.1, 0.2 and 0.4 seconds.
    assert 1 <= len(told) <= 4
    assert [number for number, _ in told] == [7] * len(told)
    assert not any(one.ended for _, one in told)
    assert told[-1][1].stacks and told[-1][1].seconds <= ended.seconds


def test_a_jax_without_a_profile_says_so() -> None:
    profile = Profile()
    assert (profile.begin() == "jax") is not names_slow.SESSION.expected
    profile.end()


@needs_a_profile
def test_a_profile_of_the_program_goes_first(slowly: Slowly, tmp_path: Path) -> None:
    def profiled(x: Any) -> Any:
        for index in range(8):
            x = jnp.sort(x * index, axis=0)
        return x

    def run() -> None:
        with jax.profiler.trace(str(tmp_path)):
            jax.jit(profiled)(np.ones((8, 9), np.float32))

    found = first(slowly(run), "profiled")
    assert found.compiling is not None and found.compiling.unprofiled == "program"
    assert list(tmp_path.rglob("*.xplane.pb"))


@needs_a_profile
def test_a_profile_that_the_program_begins_ends_ours(tmp_path: Path) -> None:
    profile = Profile()
    before = names_slow.SESSION.look()
    assert profile.begin() is None
    jax.profiler.start_trace(str(tmp_path))
    assert names_slow.SESSION.look() is before
    jax.jit(lambda x: x * 3)(np.ones(3))
    jax.profiler.stop_trace()
    assert profile.end() is None
    assert list(tmp_path.rglob("*.xplane.pb"))
    assert profile.begin() is None
    assert profile.end()
    assert names_slow.SESSION.look() is before


def misses_of(recording: Recording, name: str) -> list[Miss]:
    return [miss for miss in recording.misses if miss.function.name == name]


def test_how_a_function_grows(slowly: Slowly) -> None:
    plant = Plant(limit=0.01)

    def grows(x: Any, layers: int) -> Any:
        for _ in range(layers * layers):
            plant.work()
            x = x + 1.0
        return x

    jitted = jax.jit(grows, static_argnums=1)

    def run() -> None:
        for layers in (3, 6, 9):
            jitted.trace(np.ones(3), layers)

    recording = slowly(run)
    found = account(misses_of(recording, "grows")[0], recording).growth
    assert [one.stage.value for one in found] == ["trace"]
    assert found[0].by == "layers" and found[0].values == (3, 6, 9)
    assert found[0].by_power is not None and 1.2 < found[0].by_power < 2.8
    assert found[0].power is not None and 0.6 < found[0].power < 1.4


def stack(*frames: tuple[str, str]) -> Seen | None:
    """What `look` makes of functions that call each other, each of a file, outermost first."""
    inner: Callable[[], Any] | None = None
    told: list[Any] = []
    for file, name in reversed(frames):
        held: dict[str, Any] = {
            "inner": inner,
            "told": told,
            "seen_here": seen_here,
        }
        body = "told.append(seen_here())" if inner is None else "inner()"
        exec(compile(f"def {name}():\n    {body}", file, "exec"), held)
        inner = held[name]
    assert inner is not None
    inner()
    return told[0]


JAX = os.path.join(os.path.dirname(jax.__file__), "_src")
ENUM = os.path.join(os.path.dirname(os.__file__), "enum.py")
CORE, TREES = os.path.join(JAX, "core.py"), os.path.join(JAX, "tree_util.py")
TRACES = os.path.join(JAX, "interpreters", "partial_eval.py")
DIFFERENTIATES = os.path.join(JAX, "interpreters", "ad.py")
BEGIN = (("/me/run.py", "main"), (CORE, "call"), (TRACES, "trace_to_jaxpr_dynamic"))


@pytest.mark.parametrize(
    ("frames", "part", "functions"),
    [
        ([("/me/a.py", "f"), (CORE, "bind")], Part.TRACING, ["f"]),
        (
            [("/me/a.py", "f"), (DIFFERENTIATES, "jvp"), (CORE, "bind")],
            Part.DIFFERENTIATION,
            ["f"],
        ),
        ([(DIFFERENTIATES, "backward_pass"), (CORE, "bind")], Part.TRANSPOSITION, []),
        ([("/me/a.py", "f"), ("/me/b.py", "load")], Part.PYTHON, ["load", "f"]),
        (
            [("/me/a.py", "f"), (CORE, "call"), ("/me/b.py", "__eq__")],
            Part.EQUALITY,
            ["__eq__", "f"],
        ),
        (
            [("/me/a.py", "f"), (TREES, "tree_flatten"), ("/me/b.py", "g")],
            Part.FLATTEN,
            ["g", "f"],
        ),
        ([("/me/a.py", "f"), (TREES, "tree_map"), ("/me/b.py", "g")], Part.PYTHON, ["g", "f"]),
        # JAX's own use of Python's modules is JAX's; the user's is the user's.
        ([("/me/a.py", "f"), (CORE, "call"), (ENUM, "__hash__")], Part.TRACING, ["f"]),
        ([("/me/a.py", "f"), (ENUM, "member")], Part.PYTHON, ["member", "f"]),
        # A body that JAX traces inside the trace.
        (
            [("/me/a.py", "f"), (TRACES, "trace_to_jaxpr_dynamic"), ("/me/a.py", "body")],
            Part.PYTHON,
            ["body", "f"],
        ),
    ],
)
def test_what_a_stack_shows(
    frames: list[tuple[str, str]], part: Part, functions: list[str]
) -> None:
    seen = stack(*BEGIN, *frames)
    assert seen is not None
    lines, found = seen
    assert found is part
    assert [line[2] for line in lines] == functions


def test_what_is_recorded_inside_a_trace_is_on_no_line_of_the_programs() -> None:
    seen: list[Seen | None] = []

    def here(leaf: Any = None) -> Any:
        seen.append(seen_here())
        return leaf

    def record() -> None:
        here()
        # Python's own modules work for us there, and JAX's.
        json.dumps(seen.append, default=lambda _: here(1))
        jax.tree.map(here, [1])

    def traced(x: Any) -> Any:
        here()
        contain(ignore, record)
        return jax.jit(lambda x: (contain(ignore, record), x)[1])(x)

    jax.jit(traced).trace(1.0)
    parts = [one and (len(one[0]) > 0, one[1]) for one in seen]
    assert parts == [(True, Part.PYTHON), *[(False, Part.RECORDING)] * 6]


def test_a_stack_outside_jax_is_none_of_a_trace() -> None:
    assert stack(("/me/run.py", "main")) is None

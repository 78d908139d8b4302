"""Programs under JAX: recorded, compared with the earlier one, told by the user's own lines."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import dataclasses
import functools
import gc
import gzip
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.capture.programs import AHEAD, DROPPED, Programs
from retrace.capture.session import begin_file, session
from retrace.compare.size import samples, unrolled
from retrace.model import Kind, Listing, Recording, Verdict
from retrace.model.advice import (
    Advice,
    LeaveOutValue,
    LoopInProgram,
    OneStructure,
    ToArgument,
)
from retrace.present import pprof
from retrace.present.advice import advised
from retrace.present.detail import detail
from retrace.present.program import evidence
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.store.programs import Library, decode
from retrace.store.reader import read
from retrace.store.shelf import encode
from tests.recording.conftest import JudgeAll, Judged

shard_map: Any = getattr(jax, "shard_map", None)
if shard_map is None:
    from jax.experimental.shard_map import shard_map

ones = np.ones(3, np.float32)


@pytest.fixture
def run(judge_all: JudgeAll) -> JudgeAll:
    """Record a program; the misses of its functions, judged."""

    def recorded(program: Callable[[], object]) -> Judged:
        recording, verdicts = judge_all(program)
        return recording, [v for v in verdicts if v.miss.function.kind is not Kind.OP]

    return recorded


def listing_of(recording: Recording, verdict: Verdict) -> Listing:
    assert verdict.miss.program is not None
    return recording.listings[verdict.miss.program.listing or ""]


def line_of(function: Any, after: int) -> str:
    return f"{Path(__file__).name}:{function.__code__.co_firstlineno + after}"


def said(judged: Judged, index: int = -1) -> list[str]:
    recording, verdicts = judged
    return evidence(
        View(recording, judge(recording), str(Path(__file__).parent)), verdicts[index]
    )


def test_cond_is_one_program_for_both_values(run: JudgeAll) -> None:
    @functools.partial(jax.jit, static_argnames="flag")
    def step(x: Any, flag: bool) -> Any:
        return jax.lax.cond(jnp.asarray(x[0] > 0), jnp.sin, jnp.cos, x)

    _, verdicts = run(lambda: [step(ones, flag=flag) for flag in (True, False)])
    assert [v.program_change for v in verdicts] == [None, "identical"]
    assert verdicts[1].avoidable == "yes"


@dataclasses.dataclass(frozen=True)
class Rate:
    start: float = 0.1


@dataclasses.dataclass(frozen=True)
class Config:
    folder: str = "results/of/an/experiment/0"
    steps: int = 2
    rate: Rate = Rate()
    axes: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("fields", "said", "avoidable", "advice", "path"),
    [
        ({"rate": Rate(0.2)}, ".rate.start: 0.1 -> 0.2", "yes", ToArgument, "rate.start"),
        ({"steps": 5}, ".steps: 2 -> 5", "maybe", LoopInProgram, "steps"),
        ({"folder": "results/of/1"}, ".folder: ", "yes", LeaveOutValue, "folder"),
        ({"axes": (0,)}, ".axes: () -> (0,)", "yes", LeaveOutValue, "axes"),
    ],
)
def test_of_a_static_config_the_fields_that_changed_are_told(
    run: JudgeAll,
    fields: dict[str, Any],
    said: str,
    avoidable: str,
    advice: type[Advice],
    path: str,
) -> None:
    @functools.partial(jax.jit, static_argnames="config")
    def step(x: Any, config: Config) -> Any:
        for _ in range(config.steps):
            x = x - config.rate.start * jnp.sin(x)
        return x

    _, verdicts = run(lambda: [step(ones, config=c) for c in (Config(), Config(**fields))])
    found = verdicts[-1]
    assert detail(found.changes[0]).startswith(said)
    assert isinstance(found.fix, advice) and found.fix.paths == (f"config.{path}",)
    assert found.avoidable == avoidable


@jax.tree_util.register_pytree_node_class
class Batch:
    def __init__(self, x: Any, info: dict[str, Any]) -> None:
        self.x = x
        self.info = info

    def tree_flatten(self) -> tuple[tuple[Any], dict[str, Any]]:
        return (self.x,), self.info

    @classmethod
    def tree_unflatten(cls, info: dict[str, Any], children: tuple[Any]) -> Batch:
        return cls(*children, info)


@pytest.mark.parametrize(
    ("item", "value", "advice"),
    [
        ("step", 2, LeaveOutValue),
        ("split", "val", LeaveOutValue),
        ("train", False, OneStructure),
    ],
)
def test_of_the_static_data_of_a_tree_the_items_that_changed_are_told(
    run: JudgeAll, item: str, value: Any, advice: type[Advice]
) -> None:
    @jax.jit
    def step(batch: Batch) -> Any:
        return jnp.sin(batch.x) if batch.info["train"] else batch.x + batch.x

    before: dict[str, Any] = {"train": True, "split": "train", "step": 1, "of": "a data set"}
    after = {**before, item: value}
    _, verdicts = run(lambda: [step(Batch(ones, info)) for info in (before, after)])
    found = verdicts[-1]
    said = f"static field info['{item}']: {before[item]} -> {value}"
    assert (found.changes[0].path, detail(found.changes[0])) == ("batch.info", said)
    assert isinstance(found.fix, advice) and found.fix.paths == (f"batch.info['{item}']",)


def test_a_python_if_on_a_static_value_is_rightly_separate(run: JudgeAll) -> None:
    @functools.partial(jax.jit, static_argnames="flag")
    def step(x: Any, flag: bool) -> Any:
        if flag:
            return jnp.sin(x)
        return jnp.cos(x) + x

    judged = run(lambda: [step(ones, flag=flag) for flag in (True, False)])
    last = judged[1][-1]
    assert (last.program_change, last.avoidable) == ("different", "no")
    assert last.fix is not None and "jax.lax.cond" in advised(last.fix)
    assert any("now runs cos and add" in text for text in said(judged))


def test_layers_in_a_python_loop_are_repeated(run: JudgeAll) -> None:
    def step(x: Any, depth: int) -> Any:
        for _ in range(depth):
            x = jnp.tanh(x * 2.0)
        return x

    jitted = jax.jit(step, static_argnames="depth")
    judged = run(lambda: [jitted(ones, depth=depth) for depth in (5, 7)])
    assert judged[1][-1].program_change == "repeated"
    assert judged[1][-1].fix is not None and "fori_loop" in advised(judged[1][-1].fix)
    expected = f"{line_of(step, 2)} now runs mul and tanh 7 times instead of 5"
    assert [text.rpartition("/")[2] for text in said(judged)] == [expected]


def test_a_number_that_could_be_an_argument(run: JudgeAll) -> None:
    @functools.partial(jax.jit, static_argnames="rate")
    def decay(x: Any, rate: float) -> Any:
        return x * rate

    judged = run(lambda: [decay(ones, rate=rate) for rate in (0.5, 0.25)])
    last = judged[1][-1]
    assert (last.program_change, last.avoidable) == ("constants-only", "yes")
    assert "0.5 -> 0.25" in said(judged)[0]


def test_sizes_follow_the_axes_of_the_arguments(run: JudgeAll) -> None:
    mean = jax.jit(lambda batch: jnp.mean(jnp.sin(batch)))
    judged = run(lambda: [mean(np.ones((size, 4), np.float32)) for size in (32, 17)])
    assert judged[1][-1].program_change == "shapes-only"
    assert "axis 0 of batch (32 -> 17)" in said(judged)[0]


def test_captured_arrays_are_told_by_object_and_never_read(run: JudgeAll) -> None:
    tables = [jnp.arange(3.0), jnp.arange(3.0) + 1]

    def made(table: Any) -> Any:
        return jax.jit(lambda x: x + table)

    _, verdicts = run(lambda: [made(tables[index])(ones) for index in (0, 0, 1)])
    changes = [v.program_change for v in verdicts]
    assert changes[:2] == [None, "identical"]
    assert changes[2] == "constants-only"


def test_5000_unrolled_additions_point_to_their_line(run: JudgeAll) -> None:
    def total(x: Any) -> Any:
        for _ in range(5000):
            x = x + 1.0
        return x

    recording, verdicts = run(lambda: jax.jit(total).lower(ones))
    program = listing_of(recording, verdicts[0])
    (block,) = unrolled([program], recording.listings)
    assert (block.primitives, block.times, block.saved) == (("add",), 5000, 4999)
    assert block.place is not None
    assert block.place.line == total.__code__.co_firstlineno + 2
    assert len(encode([program])) < 100 * 5000


def test_many_rounds_of_a_short_block_are_not_told_as_few_of_a_long_one(run: JudgeAll) -> None:
    def total(x: Any) -> Any:
        for index in range(120):
            x = jnp.sort(jnp.sin(x) * index + jnp.cumsum(x))
        return x

    recording, verdicts = run(lambda: jax.jit(total).lower(ones))
    (block,) = unrolled([listing_of(recording, verdicts[0])], recording.listings)
    assert block.times == 120


def test_a_program_that_jax_dropped_is_counted_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program() -> None:
        def long(x: Any) -> Any:
            return functools.reduce(jnp.add, [x] * 1200)

        def long_inside(x: Any) -> Any:
            return jax.jit(long)(x)

        jax.eval_shape(long, ones)
        jax.eval_shape(long_inside, ones)
        jax.eval_shape(lambda x: functools.reduce(jnp.add, [x] * 100), ones)

    # On jax 0.6 a lowering that is never compiled looks like a compilation without end,
    # beside which programs are walked at once: that of an earlier test's.
    background = session().recorder._background  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(background, "_compiling", 0)
    writer = begin_file(tmp_path)
    try:
        program()
        gc.collect()
    finally:
        session().detach(writer)
    recording = read([tmp_path])
    named = {miss.function.name: miss.program is not None for miss in recording.misses}
    assert named == {"long": False, "long_inside": False, "<lambda>": True}
    (loss,) = recording.runs[0].losses.items()
    assert loss == (DROPPED, 2)


def test_a_program_too_large_to_be_written_at_once_waits_for_our_own_thread() -> None:
    """Also where the size shows only inside it, and at the end of a compilation."""

    def large(x: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda _, y: sum([y] * (AHEAD + 2)), x)

    known: list[int] = []
    waiting: list[Any] = []
    background: Any = SimpleNamespace(program=waiting.append)
    programs = Programs(lambda number, _: known.append(number), pytest.fail, background)
    jaxpr = jax.make_jaxpr(large)(np.float32(1))
    small = jax.make_jaxpr(jnp.sin)(np.float32(1))
    programs.add(1, jaxpr, AHEAD)
    programs.add(2, small, AHEAD)
    assert (known, programs.waiting(1) is jaxpr) == ([2], True)
    programs.compiled(1)
    assert (known, programs.waiting(1) is jaxpr) == ([2], True)
    for task in waiting:
        task()
    assert (known, programs.waiting(1)) == ([2, 1], None)


def test_trips_of_a_scan_are_counted(run: JudgeAll) -> None:
    @jax.jit
    def loop(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=10)[0]

    recording, verdicts = run(lambda: loop(ones))
    found = samples([listing_of(recording, verdicts[0])], recording.listings)
    amounts = {sample.primitive: tuple(amount) for sample, amount in found.items()}
    assert amounts["scan"] == (1, 1)
    assert amounts["sin"] == (1, 10)


def test_a_loop_in_a_jitted_helper_is_told_by_its_line(run: JudgeAll) -> None:
    def helper(x: Any, depth: int) -> Any:
        for _ in range(depth):
            x = jnp.tanh(x * 2.0)
        return x

    inner = jax.jit(helper, static_argnames="depth")

    @functools.partial(jax.jit, static_argnames="depth")
    def step(x: Any, depth: int) -> Any:
        return jax.lax.map(lambda row: inner(row, depth), x)

    def program() -> None:
        for depth in (0, 3, 7):
            step(ones, depth)

    judged = run(program)
    steps = [index for index, v in enumerate(judged[1]) if v.miss.function.name == "step"]
    assert [judged[1][i].program_change for i in steps] == [None, "repeated", "repeated"]
    where = line_of(helper, 2)
    told = [said(judged, index) for index in steps[1:]]
    assert [[text.rpartition("/")[2] for text in each] for each in told] == [
        [f"{where} now runs mul and tanh 3 times instead of 0"],
        [f"{where} now runs mul and tanh 7 times instead of 3"],
    ]


def test_a_loop_over_an_axis_or_a_list_of_arrays_is_repeated(run: JudgeAll) -> None:
    @jax.jit
    def summed(x: Any) -> Any:
        total = jnp.float32(0)
        for index in range(x.shape[0]):
            total = jnp.sin(total + x[index])
        return total

    @jax.jit
    def layered(layers: list[Any], x: Any) -> Any:
        for layer in layers:
            x = jnp.tanh(layer @ x)
        return x

    def program() -> None:
        for number in (3, 5):
            summed(np.ones(number, np.float32))
            layered([np.eye(3, dtype=np.float32)] * number, np.ones(3, np.float32))

    _, verdicts = run(program)
    named = [v for v in verdicts if v.miss.function.name in ("summed", "layered")]
    assert [v.program_change for v in named] == [None, None, "repeated", "repeated"]


def test_a_scan_that_runs_more_often_is_repeated(run: JudgeAll) -> None:
    def simulate(x: Any, steps: int) -> Any:
        return jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=steps)[0]

    jitted = jax.jit(simulate, static_argnames="steps")
    judged = run(lambda: [jitted(ones, steps=steps) for steps in (5, 7, 0)])
    kept = [v for v in judged[1] if v.miss.function.name == "simulate"]
    assert [v.program_change for v in kept] == [None, "repeated", "repeated"]
    # It cannot simply be passed as an array: `scan` takes no such length.
    assert [v.avoidable for v in kept[1:]] == ["maybe", "maybe"]
    assert kept[1].fix is not None and kept[1].fix.code == "trips-in-program"
    line = line_of(simulate, 1)
    (text,) = said(judged, judged[1].index(kept[1]))
    place, _, words = text.rpartition("/")[2].partition(" ")
    assert (place, re.findall(r"\d+", words)) == (f"{line}", ["7", "5"])
    assert " sin " in words and "JAX's own" in words


def _sharded(x: Any, rate: float) -> Any:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    spec = jax.sharding.PartitionSpec("data")
    return shard_map(lambda part: part * rate, mesh=mesh, in_specs=spec, out_specs=spec)(x)


def _kernel(x: Any, rate: float) -> Any:
    from jax.experimental import pallas

    def body(source: Any, target: Any) -> None:
        target[...] = source[...] * rate

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pallas.pallas_call(body, out_shape=shape, interpret=True)(x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _clipped(x: Any, rate: float) -> Any:
    return jnp.sin(x) * rate


_clipped.defvjp(
    lambda x, rate: (_clipped(x, rate), x),
    lambda rate, x, g: (jnp.clip(g, -rate, rate) * x,),
)


def _halved(x: Any, rate: float) -> Any:
    return jax.lax.while_loop(lambda v: v[0] > 0.01, lambda v: v * rate, x)


def _either(x: Any, rate: float) -> Any:
    return jax.lax.cond(x[0] > 0, lambda v: v * rate, jnp.cos, x)


WITHIN: dict[str, Callable[[Any, float], Any]] = {
    "shard_map": _sharded,
    "pallas_call": _kernel,
    "custom_vjp": lambda x, rate: _clipped(x, rate),
    "gradient of custom_vjp": lambda x, rate: jax.grad(lambda v: jnp.sum(_clipped(v, rate)))(x),
    "while": _halved,
    "cond": _either,
    "remat": lambda x, rate: jax.checkpoint(lambda v: v * rate)(x),
    "vmap": lambda x, rate: jax.vmap(lambda v: v * rate)(x),
}


@pytest.mark.parametrize("name", WITHIN)
def test_a_constant_within_any_kind_of_sub_program_is_found(name: str, run: JudgeAll) -> None:
    function = WITHIN[name]

    @functools.partial(jax.jit, static_argnames="rate")
    def step(x: Any, rate: float) -> Any:
        return function(x, rate)

    def program() -> None:
        step(ones, rate=0.5)
        step(ones, rate=0.25)
        jax.clear_caches()
        step(ones, rate=0.25)

    judged = run(program)
    steps = [index for index, v in enumerate(judged[1]) if v.miss.function.name == "step"]
    kinds = [judged[1][index].program_change for index in steps]
    # What a rule of `custom_vjp` holds cannot be traced: no argument could stand for it.
    other = "different" if "custom_vjp" in name else "constants-only"
    assert kinds == [None, other, "identical"]
    if other == "different":
        return
    assert any("0.5 -> 0.25" in text for text in said(judged, steps[1]))
    listing = listing_of(judged[0], judged[1][steps[0]])
    assert len(list(decode(encode([listing])))) == 1


@pytest.mark.parametrize("name", WITHIN)
def test_another_size_within_any_kind_of_sub_program_is_found(name: str, run: JudgeAll) -> None:
    function = WITHIN[name]
    step = jax.jit(lambda x: function(x, 0.5))

    judged = run(lambda: [step(np.ones(size, np.float32)) for size in (32, 17)])
    steps = [index for index, v in enumerate(judged[1]) if v.miss.parent is None]
    assert judged[1][steps[-1]].program_change == "shapes-only"
    assert any("axis 0 of x (32 -> 17)" in text for text in said(judged, steps[-1]))


def test_what_is_written_is_what_is_read(run: JudgeAll) -> None:
    def loss(x: Any) -> Any:
        return jax.lax.scan(lambda c, v: (c * v, jax.nn.relu(c)), 1.0, x)[1].sum()

    recording, verdicts = run(lambda: jax.jit(jax.grad(loss))(ones))
    program = listing_of(recording, verdicts[0])
    inner = [recording.listings[id_] for id_ in program.inner.values()]
    assert inner
    assert list(decode(encode([program, *inner]))) == [program, *inner]


@pytest.mark.parametrize(
    "line",
    [
        '{"listings":["a"],"block":{"texts":[],"frames":[],"programs":[["a"]]}}',
        '{"listings":["a"],"packed":"AAAA"}',
        '{"listings":["a"],"block":{}}',
        '{"listings":["a"],"packed":"%%%"',
        '{"listings":[1,["a"]]}',
        '{"listings":',
    ],
)
def test_a_damaged_program_is_missing_and_harms_nothing(line: str) -> None:
    library = Library()
    library.add_line(line)
    assert library.get("a") is None
    assert "b" not in library


# An independent reader of protocol buffers: field numbers to values.


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while position < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            length = varint()
            yield key >> 3, data[position : position + length]
            position += length


def one(data: bytes | int, field: int) -> Any:
    assert isinstance(data, bytes)
    return next(value for number, value in fields(data) if number == field)


def test_the_profile_holds_each_equation_with_its_stack(run: JudgeAll) -> None:
    def helper(x: Any) -> Any:
        return jnp.sin(x) * 2.0

    def step(x: Any) -> Any:
        return helper(x) + helper(x)

    recording, verdicts = run(lambda: jax.jit(step)(ones))
    found = samples([listing_of(recording, verdicts[0])], recording.listings)
    profile = list(fields(gzip.decompress(pprof.encode(found, "a comment"))))
    strings = [bytes(value).decode() for field, value in profile if field == 6]  # pyright: ignore[reportArgumentType]
    assert strings[0] == ""
    functions = {one(v, 1): strings[one(v, 2)] for f, v in profile if f == 5}
    locations = {
        one(v, 1): (functions[one(one(v, 4), 1)], one(one(v, 4), 2)) for f, v in profile if f == 4
    }
    told: Counter[tuple[str, str]] = Counter()
    for field, value in profile:
        if field == 2:
            stack = [locations[index] for index in one(value, 1)]
            primitive = strings[one(one(value, 3), 2)]
            told[primitive, stack[0][0].rpartition(".")[2]] += one(value, 2)[0]
            assert stack[-1][0].endswith("step")
    assert told == {("sin", "helper"): 2, ("mul", "helper"): 2, ("add", "step"): 1}

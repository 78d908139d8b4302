"""Eager operations by what caused them, and what the plan says of each cause."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.capture.session import begin_file, session
from retrace.model import Component, Kind
from retrace.model.advice import (
    AtImport,
    DefineBodyOnce,
    EnableJit,
    FewSizes,
    InCallback,
    InTrace,
    JitBlock,
    JitInit,
    LeaveEager,
    Library,
    LibraryCall,
    PadBatch,
    Proof,
)
from retrace.plan.order import plan
from retrace.plan.step import Plan, Step
from retrace.present.advice import advised
from retrace.present.group import Group
from retrace.present.message import lines
from retrace.present.plan_sizes import size_lines
from retrace.present.plan_titles import title
from retrace.present.plan_words import sentence
from retrace.present.sentences import explanation
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.store.reader import read
from tests.recording.conftest import JudgeAll

Planned = Callable[[Callable[[], object]], Plan]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    """Run a program with empty caches, under recording: its plan."""
    number = 0

    def run(program: Callable[[], object]) -> Plan:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        jax.clear_caches()
        writer = begin_file(folder)
        try:
            program()
        finally:
            session().detach(writer)
        recording = read([folder])
        assert recording.runs[0].losses == {}
        return plan(recording, judge(recording))

    return run


def eager(plan: Plan) -> dict[str, Step]:
    """The steps on eager operations, by what they are about."""
    found = {step.proposal.changes[0].family: step for step in plan.steps}
    return {family: step for family, step in found.items() if family.startswith("eager")}


def library(source: str, package: str = "package") -> SimpleNamespace:
    """A module of an installed package."""
    return module(source, f"/opt/site-packages/{package}/module.py")


def module(source: str, place: str = "/home/somebody/train.py") -> SimpleNamespace:
    """A module of the user's own."""
    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np}
    exec(compile(source, place, "exec"), names)
    return SimpleNamespace(**names)


LAYERS = """
class Model:
    def __init__(self, sizes):
        self.kernels = [jnp.ones((a, b)) * 2 for a, b in sizes]

    def run(self, sizes):
        return [jnp.tanh(jnp.ones((a, b)) * 2) for a, b in sizes]
"""
SIZES = [(3, 5), (5, 7), (7, 11), (11, 13), (13, 17), (17, 19)]


def test_weights_and_biases_are_no_sizes_of_one_thing(planned: Planned) -> None:
    shapes = [(8, 64), (64,), (64, 64), (64, 10), (10,), (10, 64), (64, 8), (8,)]
    weights = [jax.device_put(np.ones(shape, np.float32)) for shape in shapes]

    def decay() -> None:
        for array in weights:
            0.9 * array  # pyright: ignore[reportUnusedExpression]

    found = planned(decay)
    assert found.now.eager.low > 6
    assert "eager-sizes" not in eager(found)


def test_the_users_function_that_a_library_calls_is_to_be_jitted(planned: Planned) -> None:
    made = library("""
def init(x, density):
    return jax.value_and_grad(density)(x)
""")
    own = module("""
def density(x):
    y = jnp.sin(x) + jnp.cos(x) * 3
    z = jnp.exp(-y**2) / (1 + jnp.abs(y))
    return jnp.sum(jnp.cumsum(jnp.log1p(jnp.abs(z)) - jnp.tanh(y)) + z)
def start(init, density, x):
    return init(x, density)
""")
    x = np.arange(1, 30, dtype=np.float32)
    before = planned(lambda: own.start(made.init, own.density, x))
    step = eager(before)["eager"]
    assert "`density`" in title(step.proposal) and step.sure == "ask"
    after = planned(lambda: own.start(made.init, jax.jit(own.density), x))
    assert after.now.eager.high < before.now.eager.low / 2
    plain, jitted = (made.init(x, one) for one in (own.density, jax.jit(own.density)))
    for a, b in zip(plain, jitted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_the_layers_of_a_librarys_model_are_no_sizes_of_one_thing(planned: Planned) -> None:
    made = library(LAYERS)
    found = planned(lambda: made.Model(SIZES).run(SIZES))
    assert found.now.eager.low > 6
    assert "eager-sizes" not in eager(found)


@pytest.mark.parametrize("seconds", [0.01, 0.1])
def test_a_call_of_a_library_that_runs_many_operations_is_asked_about(
    judge_all: JudgeAll, seconds: float
) -> None:
    """Whether it works in a jitted function is not known; where it takes long, it is asked."""
    operations = ("sin", "cos", "tan", "exp", "log1p", "abs", "sqrt", "floor", "flip", "sort")
    body = "".join(f"    x = jnp.{name}(x)\n" for name in operations)
    made = library(f"def solve(x):\n{body}    return x\n")
    own = module("def main(solve, x):\n    return solve(x)\n")
    recording, verdicts = judge_all(
        lambda: own.main(made.solve, np.ones(int(seconds * 1000), np.float32))
    )
    for verdict in verdicts:
        verdict.miss.stages = dict.fromkeys(verdict.miss.stages, seconds / 3)
    found = plan(recording, verdicts)
    assert [step.proposal.line for step in found.steps] == ([] if seconds < 0.05 else [2])
    assert not any(step.worth or step.gone.eager.low for step in found.steps)


def test_an_initialisation_is_one_step_whatever_lines_it_runs_through(planned: Planned) -> None:
    import flax.linen as nn
    import optax

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for width in (16, 8, 4, 2):
                x = nn.relu(nn.Dense(width)(x))
            return x

    def program() -> object:
        model, x = Net(), np.ones((2, 32), np.float32)
        params = model.init(jax.random.key(0), x)
        return optax.adam(1e-3).init(params)

    found = planned(program)
    steps = eager(found)
    assert set(steps) == {"eager-init"}
    (step,) = [s for s in found.steps if isinstance(s.proposal.advice, JitInit)]
    assert step.proposal.advice == JitInit(name="init", package="flax")
    # One program in place of all takes as long: nothing of it is said to be saved.
    assert step.gone.seconds.low == 0 and not step.worth


@pytest.mark.parametrize("kind", ["linen", "nnx"])
def test_a_model_that_is_applied_eagerly_is_told_to_be_called_in_a_jitted_function(
    planned: Planned, kind: str
) -> None:
    """Its layers are a library's, but the line that calls it is the user's."""
    import flax.linen as nn
    from flax import nnx

    widths = (16, 8, 4, 2, 3)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for width in widths:
                x = nn.Dense(width)(x)
            return x

    class Own(nnx.Module):
        def __init__(self) -> None:
            for number, (a, b) in enumerate(pairwise((32, *widths))):
                setattr(self, f"layer{number}", nnx.Linear(a, b, rngs=nnx.Rngs(0)))

        def __call__(self, x: Any) -> Any:
            for number in range(len(widths)):
                x = getattr(self, f"layer{number}")(x)
            return x

    x = np.ones((2, 32), np.float32)
    if kind == "linen":
        params = Net().init(jax.random.key(0), x)
        call: Callable[[Any], Any] = partial(Net().apply, params)
        jitted = partial(jax.jit(Net().apply), params)
    else:
        model = Own()
        call, jitted = model, partial(nnx.jit(lambda m, x: m(x)), model)
    results: list[Any] = []
    before = planned(lambda: results.append(call(x)))
    (step,) = before.steps
    assert (step.proposal.code, step.sure) == ("jit-block", "ask")
    assert step.gone.eager.high == before.now.eager.high > 8
    after = planned(lambda: results.append(jitted(x)))
    assert after.now.eager.high == 0 and after.now.calls.high == 1
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_where_jit_is_disabled_it_is_to_be_enabled_and_nothing_else(planned: Planned) -> None:
    @jax.jit
    def step(x: Any) -> Any:
        return (jnp.sin(x) * 3 + jnp.exp(x)).sum()

    def program() -> None:
        for size in range(3, 9):
            step(np.ones(size, np.float32))

    found = planned(with_jit(program, disabled=True))
    [enabled] = eager(found).values()
    assert isinstance(enabled.proposal.advice, EnableJit)
    at = enabled.proposal.advice.at
    assert at is not None
    assert at.source == "with jax.disable_jit(disabled):"
    assert enabled.proposal.line == at.line
    assert enabled.gone.eager.low == 0
    assert enabled.gone.eager.high == found.now.eager.high > 20
    assert enabled.sure == "ask"

    def alone() -> None:
        for size in range(3, 9):
            jnp.cos(np.ones(size, np.float32))

    inner = with_jit(alone, disabled=False)
    assert set(eager(planned(with_jit(inner, disabled=True)))) == {"eager-sizes"}
    jax.clear_caches()
    jax.config.update("jax_disable_jit", True)
    try:
        assert set(eager(planned(program))) == {"eager-disabled"}
    finally:
        jax.config.update("jax_disable_jit", False)


def with_jit(program: Callable[[], object], *, disabled: bool) -> Callable[[], None]:
    def run() -> None:
        with jax.disable_jit(disabled):
            program()

    return run


@pytest.mark.parametrize(
    ("package", "call", "step"),
    [
        ("package", "jax.eval_shape(lambda: x)", "train_step"),
        ("optax", "jax.jit(lambda x: x)(x)", "train_step"),
        ("package", "jax.jit(lambda x: x)(x)", None),
    ],
    ids=("shapes", "pure", "other"),
)
def test_what_a_library_traces_itself_does_not_keep_a_step_from_being_jitted(
    planned: Planned, package: str, call: str, step: str | None
) -> None:
    made = library(f"def update(x):\n    {call}\n    return x\n", package)
    own = module("""
def train_step(update, x):
    y = jnp.sin(x) + jnp.cos(x) * 3
    z = jnp.exp(-y**2) / (1 + jnp.abs(y))
    return update(jnp.cumsum(jnp.log1p(jnp.abs(z)) - jnp.tanh(y)) + jnp.sqrt(jnp.abs(z)))
def main(update, x):
    for _ in range(3):
        x = train_step(update, x)
""")
    found = planned(lambda: own.main(made.update, np.arange(1, 30, dtype=np.float32)))
    named = [name for one in eager(found).values() for name in one.proposal.changes[0].functions]
    assert named == ([] if step is None else [step])
    if step is not None:
        # Jitted, the step calls it once; whether it would be traced that once is left open.
        (whole,) = [one for one in eager(found).values() if one.proposal.changes[0].functions]
        assert whole.gone.calls == (2, 3) and whole.worth
        assert found.floor.calls.high == 1


def test_a_host_callback_computes_with_numpy(planned: Planned) -> None:
    def program(convert: Callable[[Any], Any]) -> Callable[[], object]:
        seen: list[Any] = []

        def callback(values: Any, done: Any) -> None:
            values, done = convert(values), convert(done)
            seen.append(values[done] * 2)

        @jax.jit
        def step(x: Any, limit: Any) -> Any:
            jax.debug.callback(callback, x, x < limit)
            return x + 1

        def run() -> object:
            for limit in range(1, 6):
                step(np.arange(8.0), limit)
                jax.effects_barrier()
            return seen

        return run

    before = planned(program(jnp.asarray))
    step = eager(before)["eager-callback"]
    assert isinstance(step.proposal.advice, InCallback) and step.sure == "likely"
    after = planned(program(np.asarray))
    spared = before.now.eager.low - after.now.eager.low
    assert step.gone.eager.low <= spared <= step.gone.eager.high
    assert spared > 5


def test_sizes_are_a_cause_where_one_line_ran_again(planned: Planned) -> None:
    def program() -> object:
        return [jnp.cumsum(np.ones(size, np.float32)) for size in range(1, 8)]

    step = eager(planned(program))["eager-sizes"]
    assert step.gone.eager.low == 6


def test_a_list_that_grows_is_joined_by_numpy_or_not_at_all(planned: Planned) -> None:
    """Jitted, each number of arrays would be a program as well."""

    def program(join: Callable[[list[Any]], Any]) -> list[Any]:
        seen: list[Any] = []
        joined: Any = None
        for number in range(12):
            seen.append(np.full(5, number, np.float32))
            joined = np.asarray(join(seen))
        return [joined]

    results: list[Any] = []
    before = planned(lambda: results.append(program(jnp.concatenate)))
    step = eager(before)["eager-sizes"]
    assert isinstance(step.proposal.advice, FewSizes) and step.proposal.advice.joined
    assert "`np.concatenate`" in sentence(step.proposal)
    assert (step.sure, step.worth) == ("likely", True)
    after = planned(lambda: results.append(program(np.concatenate)))
    spared = before.now.eager.low - after.now.eager.low
    assert step.gone.eager.low <= spared <= step.gone.eager.high
    np.testing.assert_array_equal(*results)


def test_one_operation_on_many_arrays_is_not_to_be_jitted(planned: Planned) -> None:
    kernels = [np.ones((a + 3, 40 - a), np.float32) for a in range(11)]
    found = planned(lambda: [jnp.max(x) - jnp.min(x) for x in kernels])
    assert "eager" in eager(found)
    found = planned(lambda: [jnp.sum(x) for x in kernels])
    assert found.now.eager.low == len(kernels)
    assert "eager" not in eager(found)


@pytest.mark.parametrize(
    ("lengths", "grows"), [((12, 24, 8, 36), False), ((13, 14, 15, 16), True)]
)
def test_a_line_of_many_lengths_has_no_array_that_grows(
    lengths: tuple[int, ...], grows: bool, judge_all: JudgeAll
) -> None:
    """Among lengths in any order, some are longer than the one that they are compared with."""

    def program() -> None:
        for length in lengths:
            jnp.sinh(jnp.asarray(np.ones(length, np.float32)))

    advised = [one.fix for one in judge_all(program)[1] if isinstance(one.fix, FewSizes)]
    assert {one.grows for one in advised} == {grows}


def test_the_layers_of_ones_own_network_are_no_sizes_of_one_thing(planned: Planned) -> None:
    widths = (4, 32, 32, 8, 2)
    layers = [(np.ones((b, a), np.float32), np.ones(b, np.float32)) for a, b in pairwise(widths)]

    def forward(x: Any) -> Any:
        for kernel, bias in layers:
            x = jnp.tanh(jnp.dot(kernel, x) + bias)
        return x

    found = planned(lambda: forward(np.ones(4, np.float32)))
    assert found.now.eager.low > 6
    assert "eager-sizes" not in eager(found)
    # The same lines on data that grow.
    found = planned(lambda: [jnp.tanh(np.ones((n, 4), np.float32)) for n in range(1, 6)])
    assert "eager-sizes" in eager(found)


def test_the_layers_of_one_gradient_are_no_sizes_of_one_thing(judge_all: JudgeAll) -> None:
    """Few sizes would need layers of one width; one jitted gradient is served in every round."""
    widths = (4, 16, 8, 5, 1)
    kernels = [np.ones((a, b), np.float32) for a, b in pairwise(widths)]

    def loss(kernels: Any, x: Any) -> Any:
        for kernel in kernels:
            x = jnp.tanh(jnp.dot(x, kernel))
        return x.sum()

    jax.clear_caches()
    _, verdicts = judge_all(lambda: jax.grad(loss)(kernels, np.ones((32, 4), np.float32)))
    again = [v for v in verdicts if v.nearest is not None and v.miss.parent is None]
    assert len(again) > 6
    assert [verdict.fix for verdict in again if isinstance(verdict.fix, FewSizes)] == []


def test_two_things_on_one_line_are_no_sizes_of_one_thing(judge_all: JudgeAll) -> None:
    jax.clear_caches()
    _, verdicts = judge_all(lambda: jnp.mgrid[0:5.7:0.1, 0:4.7:0.1])
    again = [v for v in verdicts if any(c.component is Component.STATIC for c in v.changes)]
    assert again
    assert {type(verdict.fix) for verdict in again} == {JitBlock}


def test_the_leaves_of_a_tree_are_no_sizes_of_one_thing(planned: Planned) -> None:
    tree = {str(size): np.ones(size, np.float32) for size in range(1, 8)}
    found = planned(lambda: jax.tree.map(lambda leaf: jnp.cumsum(leaf), tree))
    assert found.now.eager.low >= 7
    assert eager(found) == {}


def test_a_training_loop_is_no_function_to_jit(planned: Planned) -> None:
    names = ("sin", "cos", "tan", "exp", "sqrt", "sinh", "cosh", "tanh", "floor", "ceil", "sign")

    def helper(x: Any) -> Any:
        x = jnp.sin(x)
        for name in names:
            x = getattr(jnp, name)(x)
        return x

    def driver(x: Any) -> Any:
        for name in names:
            x = getattr(jnp, name)(x)
        return jax.jit(lambda x: x + 1)(x)

    x = jnp.ones(3)
    step = eager(planned(lambda: helper(x)))["eager"]
    assert step.proposal.changes[0].functions == ("helper",) and step.sure == "ask"
    steps = eager(planned(lambda: driver(x)))
    assert all(step.proposal.changes[0].functions == () for step in steps.values())


PARAMETERS = """
def wrapped(function):
    def wrapper(*args):
        return function(*args)
    return wrapper

def layer(key, n, m):
    one, two = jax.random.split(key)
    return jax.random.normal(one, (n, m)) / jnp.sqrt(n), jnp.cos(jax.random.uniform(two, (m,)))

def norm(n):
    return jnp.cumsum(jnp.ones(n)) * 2

@wrapped
def parameters(key):
    keys = jax.random.split(key, 2)
    return [layer(keys[0], 3, 5), norm(5), layer(keys[1], 5, 7), norm(7)]

step = jax.jit(lambda tree: jax.tree.map(lambda leaf: leaf * 2, tree))

def shown(tree):
    {shown}
    x = np.ones(11, np.float32)
    for name in ("sin", "cos", "tan", "exp", "sinh", "cosh", "tanh", "floor", "ceil", "sign"):
        x = getattr(jnp, name)(x)
    return x.sum()

def train(make):
    tree = make(jax.random.key(0))
    return shown(tree), step(tree)

class Trainer:
    def __init__(self):
        self.result = train(parameters)
"""


@pytest.mark.drawn
def test_one_call_is_one_step_whatever_functions_it_runs_through(planned: Planned) -> None:
    made = module(PARAMETERS.replace("{shown}", "print(tree[1].shape)"))
    found = planned(lambda: made.train(made.parameters))
    (one,) = [step for step in found.steps if step.proposal.changes[0].functions]
    # Not the layers each by itself, nor what prints, nor what calls a jitted function.
    assert one.proposal.changes[0].functions == ("parameters",) and one.sure == "ask"
    asked = PARAMETERS.splitlines().index("    tree = make(jax.random.key(0))") + 1
    assert (one.proposal.file, one.proposal.line) == ("/home/somebody/train.py", asked)

    # Followed, of what it counts no more is left than the one program of the whole.
    after = planned(lambda: made.train(jax.jit(made.parameters)))
    spared = found.now.eager.low - after.now.eager.low
    assert 0 < spared <= one.gone.eager.high
    assert after.now.calls.low == found.now.calls.low + 1
    assert all(step.proposal.changes[0].functions == () for step in after.steps)

    # The same where an object drives it, and a function that could be jitted is another step.
    made = module(PARAMETERS.replace("{shown}", "pass"), "/home/somebody/other.py")
    steps = planned(made.Trainer).steps
    named = [step.proposal.changes[0].functions for step in steps if step.sure == "ask"]
    assert sorted(named) == [("parameters",), ("shown",)]


def test_a_wrapper_that_hands_a_call_on_is_not_what_was_called(judge_all: Any) -> None:
    around = library("def wrapped(f):\n    return lambda x: f(x)\n", "jaxtyping")
    other = library("def smooth(x):\n    return jnp.tanh(x) + 1\n")

    def own(x: Any) -> Any:
        return jnp.sin(x) + 1

    x = np.ones(3, np.float32)
    jax.clear_caches()
    _, verdicts = judge_all(lambda: (around.wrapped(own)(x), around.wrapped(other.smooth)(x)))
    through = {v.miss.function.jax_name: v for v in verdicts if v.miss.parent is None}
    assert through["sin"].miss.through is None
    assert through["tanh"].miss.through == "package:smooth"
    assert isinstance(through["tanh"].fix, LibraryCall)


def test_what_a_library_wraps_and_jits_at_each_call_is_the_librarys(
    judge_all: Any, planned: Planned
) -> None:
    solver = library(
        "def minimize(f, x, **given):\n    return jax.jit(jax.grad(f))(x, **given)\n"
    )

    def loss(x: Any, scale: Any) -> Any:
        return (x * scale).sum()

    x = np.ones(3, np.float32)
    own = jax.jit(jax.grad(loss))

    def program() -> None:
        own(x, 2.0)
        solver.minimize(loss, x, scale=2.0)
        solver.minimize(loss, x, scale=2.0)

    _, verdicts = judge_all(program)
    again = [v for v in verdicts if v.miss.function.name == "loss" and v.nearest is not None]
    assert len(again) == 2
    for verdict in again:
        # Neither another way of passing nor one jitted function of the user's would be served.
        assert verdict.fix == Library(
            name="loss", package="package", wraps=True, proof=Proof.MEANING
        )
        assert verdict.avoidable == "maybe"
    assert not planned(program).steps


def test_a_librarys_object_that_the_user_makes_at_each_call_is_named(
    judge_all: Any, planned: Planned
) -> None:
    solvers = library(
        "class Solver:\n"
        "    def __init__(self):\n"
        "        self.jitted = jax.jit(self.update)\n"
        "    def update(self, x):\n"
        "        return jnp.tanh(x).sum()\n"
        "    def run(self, x):\n"
        "        return self.jitted(x)\n"
    )
    x = np.ones(3, np.float32)
    kept = [solvers.Solver()]

    def program(fresh: bool) -> None:
        for _ in range(3):
            (solvers.Solver() if fresh else kept[0]).run(x)

    _, verdicts = judge_all(lambda: program(True))
    again = [v for v in verdicts if v.miss.function.name == "update"][1:]
    assert len(again) == 2
    for verdict in again:
        assert isinstance(verdict.fix, Library)
        assert (verdict.fix.name, verdict.fix.holder) == ("update", "Solver")
    (step,) = planned(lambda: program(True)).steps
    assert title(step.proposal) == "keep one `Solver`"
    before = len([v for v in verdicts if v.miss.function.name == "update"])
    _, verdicts = judge_all(lambda: program(False))  # added to the same recording
    assert len([v for v in verdicts if v.miss.function.name == "update"]) == before + 1


def test_a_librarys_method_that_the_user_jits_again_is_the_users_beside_a_size_too(
    judge_all: JudgeAll,
) -> None:
    made = library("""
class Model:
    def apply(self, x, train=True):
        return x * 2 if train else x
""")
    model = made.Model()

    def program() -> None:
        for size in (64, 46):
            jax.jit(partial(model.apply, train=False))(np.ones(size, np.float32))

    _, verdicts = judge_all(program)
    fix = verdicts[-1].fix
    assert not isinstance(fix, Library)
    assert fix is not None and fix.remade == "apply"


def test_what_a_library_passes_to_its_own_function_is_asked(planned: Planned) -> None:
    source = (
        "@jax.jit\ndef step(rate):\n    return rate * 2\n"
        "def run(rates):\n    return [step(rate) for rate in rates]\n"
    )
    rates = (2.0, np.float32(3.0))
    by_library = library(source)
    (step,) = planned(lambda: by_library.run(rates)).steps
    assert step.proposal.changes[0].family == "weak_type"
    assert step.sure == "ask"
    by_user = library(source, "other")
    (step,) = planned(lambda: [by_user.step(rate) for rate in rates]).steps
    assert step.proposal.changes[0].family == "weak_type"
    assert step.sure == "clear"


TABLE = """
def table():
    with jax.ensure_compile_time_eval():
        return jnp.linspace(0.0, 1.0, 5) ** 2 + jnp.linspace(0.0, 1.0, 7)[0]
"""


@pytest.mark.parametrize("place", ["/opt/site-packages/package/module.py", "/home/one/train.py"])
def test_what_is_computed_in_a_trace_did_not_run_outside_of_it(
    place: str, judge_all: JudgeAll, planned: Planned
) -> None:
    """To put it into a jitted function is no advice: it is in one."""
    made = module(TABLE, place)

    def program() -> None:
        jax.jit(lambda x: x * made.table())(np.float32(1.0))

    jax.clear_caches()
    recording, verdicts = judge_all(program)
    own = [v for v in verdicts if v.miss.parent is not None and v.miss.function.kind is Kind.OP]
    assert len(own) > 3
    view = View(recording, verdicts)
    for verdict in own:
        assert "while another" in explanation(view, verdict)
    told = {verdict.fix for verdict in own if verdict.fix is not None}
    by_library = "site-packages" in place
    leave = LeaveEager(who="library", in_trace=True)
    assert told == {leave if by_library else InTrace()}
    assert {verdict.avoidable for verdict in own} <= {"no" if by_library else "maybe", "no"}
    assert eager(planned(program)) == {}


@pytest.mark.parametrize("whose", ["site-packages/package", "own"])
def test_what_a_library_imports_when_it_is_called_is_not_told_to_use_numpy(
    whose: str, tmp_path: Path, judge_all: JudgeAll, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / whose
    folder.mkdir(parents=True)
    name = f"tables_{folder.name}"
    (folder / f"{name}.py").write_text(
        "import jax.numpy as jnp\nA = jnp.arange(9) * 2 + 1\nB = A.sum() - jnp.ones(3)\n"
    )
    monkeypatch.syspath_prepend(folder)
    made = library(
        "import importlib\ndef make(name):\n    return importlib.import_module(name)\n"
    )
    jax.clear_caches()
    verdicts = [v for v in judge_all(lambda: made.make(name))[1] if v.miss.within == "import"]
    expected = LeaveEager(who="import") if "package" in whose else AtImport()
    assert verdicts and {one.fix for one in verdicts} == {expected}


def test_the_state_of_an_optimizer_has_no_flag_to_bind(judge_all: JudgeAll) -> None:
    import optax

    params = {str(n): np.ones((n, 3), np.float32) for n in range(2, 14)}
    jax.clear_caches()
    recording, verdicts = judge_all(lambda: optax.adam(1e-3).init(params))
    assert "eager-init" in eager(plan(recording, verdicts))
    (text,) = {advised(v.fix) for v in verdicts if isinstance(v.fix, JitInit)}
    assert "`init = jax.jit(optimizer.init)`" in text and "partial" not in text


FITTING = """
@jax.jit
def inner(batch, scale=None):
    return batch * 2 if scale is None else batch * scale

@jax.jit
def loss(params, batch):
    return (params * inner(batch)).sum() + inner(batch, None).sum()

def fit(params, data, size):
    for at in range(0, len(data), size):
        loss(params, data[at : at + size])
"""


def test_batches_that_a_library_cuts_are_not_the_users_to_pad(
    judge_all: JudgeAll, planned: Planned
) -> None:
    fitting = library(FITTING)
    data = np.ones((5, 3), np.float32)

    def program() -> None:
        fitting.fit(np.float32(1.0), data, 2)

    _, verdicts = judge_all(program)
    (again,) = [v for v in verdicts if v.nearest and v.miss.function.name == "loss"]
    assert isinstance(again.fix, PadBatch) and again.fix.passed_by == "package:fit"
    # Nor is it the user's how a library calls its own function in its own trace.
    assert [v for v in verdicts if v.avoidable == "yes"] == []
    (step,) = planned(program).steps
    assert step.proposal.changes[0].family == "shape"
    assert step.proposal.passed_by == "package:fit"
    assert "; `fit` of package passes it" in sentence(step.proposal)
    assert any("cut it yourself" in line for line in size_lines(1, step, 80))


def test_of_objects_that_were_new_together_all_are_to_be_kept(planned: Planned) -> None:
    """Each alone would save nothing."""
    training = library(
        """
import functools

__name__ = "package.module"

class Loss:
    def __init__(self, number):
        self.number = number

@functools.partial(jax.jit, static_argnames=("loss", "optimizer"))
def step(x, loss, optimizer):
    return x * 2

def fit(x, loss, rate):
    step(x, loss=loss, optimizer=lambda x: x * rate)
"""
    )
    x = np.ones(3, np.float32)

    def program() -> None:
        for _ in range(2):
            training.fit(x, training.Loss(3), 0.1)

    (step,) = planned(program).steps
    assert re.fullmatch(r"[^`]*`Loss` [^`]*\(2 [^`]*`optimizer`", title(step.proposal))


def test_a_loop_that_a_library_makes_of_ones_own_function_is_jitted_around(
    planned: Planned,
) -> None:
    """Nobody can define once what a library defines at each call."""
    solver = library(
        "def solve(step, x):\n"
        "    def unfinished(x):\n        return x < 9\n"
        "    return jax.lax.while_loop(unfinished, step, x)\n"
    )

    def double(x: Any) -> Any:
        return x * 2

    before = planned(lambda: [solver.solve(double, np.float32(2)) for _ in range(5)])
    (step,) = before.steps
    assert title(step.proposal).startswith("jit once around")
    advice = step.proposal.advice
    assert isinstance(advice, DefineBodyOnce) and advice.package == "package"
    around = jax.jit(lambda x: solver.solve(double, x))
    after = planned(lambda: [around(np.float32(2)) for _ in range(5)])
    assert (before.now.calls.low, after.now.calls.low) == (4, 1)
    assert (step.left.calls.low, step.left.calls.high) == (0, 1)


def test_a_loop_of_a_library_around_ones_own_kept_function_is_the_librarys(
    planned: Planned,
) -> None:
    """To define the function once is no advice: it is."""
    solver = library(
        """
def minimize(f, x):
    def body(x, step):
        return x - jax.grad(f)(x) * step, f(x)
    return jax.lax.scan(body, x, np.ones(3, np.float32))
"""
    )

    def loss(x: Any) -> Any:
        return (x**2).sum()

    x = np.ones(3, np.float32)

    def program() -> None:
        for _ in range(3):
            solver.minimize(loss, x)

    (step,) = planned(program).steps
    assert title(step.proposal).endswith(" `loss`")
    advice = step.proposal.advice
    assert isinstance(advice, DefineBodyOnce) and advice.package == "package"
    jitted = jax.jit(lambda x: solver.minimize(loss, x))
    again = planned(lambda: [jitted(x) for _ in range(3)])
    assert again.now.calls.high == 1 and again.now.eager.high == 0


def test_random_numbers_of_several_sizes_are_not_to_be_padded(judge_all: JudgeAll) -> None:
    """A shuffle of a padded array is another one, and NumPy draws other numbers."""
    key, x = jax.random.key(0), np.arange(99, dtype=np.float32)

    def program() -> None:
        for size in (30, 45, 60, 75, 90):
            jax.random.permutation(key, jnp.asarray(x[:size]))

    recording, verdicts = judge_all(program)
    step = eager(plan(recording, verdicts))["eager-sizes"]
    assert isinstance(step.proposal.advice, FewSizes) and step.proposal.advice.draws
    assert step.sure == "ask"
    shuffles = [v.fix for v in verdicts if "shuffle" in v.miss.function.jax_name and v.changes]
    assert all(isinstance(fix, FewSizes) and fix.draws for fix in shuffles) and shuffles


def test_a_loop_of_a_library_that_is_made_at_each_call_is_jitted_around(planned: Planned) -> None:
    solvers = library(
        "def solve(x):\n"
        "    cond = lambda state: state[0] < 50\n"
        "    body = lambda state: (state[0] + 1, jnp.tanh(state[1]) + 1)\n"
        "    return jax.lax.while_loop(cond, body, (0, x))[1]\n"
    )
    x = np.ones(4, np.float32)
    results: list[Any] = []
    before = planned(lambda: [results.append(solvers.solve(x)) for _ in range(4)])
    (step,) = before.steps
    assert (step.sure, step.worth, step.gone.calls.low) == ("ask", True, 3)
    jitted = jax.jit(solvers.solve)
    after = planned(lambda: [results.append(jitted(x)) for _ in range(4)])
    assert (after.now.calls.high, after.now.eager.high) == (1, 0)
    assert len({result.tobytes() for result in map(np.asarray, results)}) == 1


def _product(a: Any, b: Any) -> Any:
    return a * b


@pytest.mark.parametrize("combine", [jnp.add, _product])
def test_sizes_that_a_function_of_jax_makes_itself_are_not_asked_to_be_few(
    planned: Planned, combine: Callable[[Any, Any], Any]
) -> None:
    """It calls itself, and the user's function, on halves of the one array that it was given."""

    def total(x: Any) -> Any:
        return jax.lax.associative_scan(combine, x)

    x = np.ones(64, np.float32)
    before = planned(lambda: total(x))
    assert before.now.eager.high > 15
    (step,) = before.steps
    assert (step.proposal.code, step.sure) == ("jit-block", "ask")
    after = planned(lambda: jax.jit(total)(x))
    assert (after.now.eager.high, after.now.calls.high) == (0, 1)


def test_many_operations_for_each_of_several_sizes_may_be_one_program_for_each(
    planned: Planned,
) -> None:
    """Padding alone would leave all of them for the sizes that stay."""

    def total(x: Any) -> Any:
        return jnp.tanh(x) * jnp.sin(x) - jnp.exp(x) / jnp.cosh(x) + jnp.sqrt(x)

    arrays = [np.ones(size, np.float32) for size in (5, 9, 14, 20)]
    before = planned(lambda: [total(x) for x in arrays])
    assert "one jitted function" in sentence(eager(before)["eager-sizes"].proposal)
    jitted = jax.jit(total)
    after = planned(lambda: [jitted(x) for x in arrays])
    assert (after.now.eager.high, after.now.calls.high) == (0, len(arrays))
    few = planned(lambda: [jnp.tanh(x) for x in arrays])
    assert "one jitted function" not in sentence(eager(few)["eager-sizes"].proposal)


def test_a_loop_keeps_its_own_advice_beside_lines_of_the_same_sizes(planned: Planned) -> None:
    def once(carry: Any, x: Any) -> Any:
        return carry + x, carry

    def program() -> None:
        for size in (5, 9, 14, 20):
            xs = np.ones(size, np.float32)
            xs = jnp.tanh(xs)
            jax.lax.scan(once, np.float32(0), xs)

    found = [step for step in planned(program).steps if step.proposal.code == "eager-sizes"]
    advice = [step.proposal.advice for step in found]
    assert sorted(isinstance(one, FewSizes) and one.loop for one in advice) == [False, True]


@pytest.mark.parametrize(
    ("way", "picks"),
    [("mask", "mask"), ("where", "where"), ("unique", "unique"), ("size", ""), ("ints", "")],
)
def test_what_picks_another_number_of_elements_is_named(
    planned: Planned, way: str, picks: str
) -> None:
    """The arrays have one size; the number of elements that are picked depends on their data."""
    draw = np.random.default_rng(0)
    data = [draw.integers(0, 40, 64).astype(np.float32) for _ in range(8)]

    def picked(x: Any, size: int) -> Any:
        match way:
            case "mask":
                return x[x > 20]
            case "where":
                return x[jnp.where(x > 20)[0]]
            case "unique":
                return jnp.unique(x)
            case "size":  # no data decide
                return x[jnp.arange(size)]
            case _:  # by position, and not by a mask
                return x[np.flatnonzero(np.asarray(x) > 20)]

    def program() -> None:
        for size, each in enumerate(data, 20):
            jnp.tanh(picked(jnp.asarray(each), size))

    step = eager(planned(program))["eager-sizes"]
    advice = step.proposal.advice
    assert (advice.picks if isinstance(advice, FewSizes) else "") == picks
    assert step.sure == "likely"


def test_a_function_of_one_size_is_not_blamed_for_those_of_its_argument(planned: Planned) -> None:
    def program() -> None:
        for size in (20, 33, 27, 41, 25):
            x = jnp.asarray(np.arange(size, dtype=np.float32))
            jnp.unique(x, size=8, fill_value=0)

    advice = eager(planned(program))["eager-sizes"].proposal.advice
    assert not isinstance(advice, FewSizes) or not advice.picks


@pytest.mark.parametrize(
    ("sizes", "what"),
    [
        ((3, 5, 7, 9, 11), "grows"),  # two are appended each time
        ((3, 5, 11, 12, 19), ""),  # data that happen to be longer each time
        ((8, 16, 32, 64), "doubled"),  # a grid that is refined
        ((9, 5, 7, 3, 11), ""),
    ],
)
def test_sizes_are_those_of_a_growing_array_of_a_grid_or_of_data(
    planned: Planned, sizes: Sequence[int], what: str
) -> None:
    def program() -> None:
        for size in sizes:
            x = np.ones(size, np.float32)
            jnp.tanh(x)
            jnp.cumsum(x)

    step = eager(planned(program))["eager-sizes"]
    advice = step.proposal.advice
    told = [] if not isinstance(advice, FewSizes) else [advice.grows, advice.doubled]
    assert told == {"": [], "grows": [True, False], "doubled": [False, True]}[what]
    assert step.sure == ("ask" if what == "doubled" else "likely")


def test_a_loop_that_reads_a_growing_array_is_not_asked_for_few_lengths(planned: Planned) -> None:
    def program() -> None:
        for size in (4, 5, 6, 7):
            known = jnp.asarray(np.ones(size, np.float32))

            def once(carry: Any, _: Any, known: Any = known) -> Any:
                return carry + known.sum(), None

            jax.lax.scan(once, np.float32(0), None, length=50)

    found = [step.proposal for step in planned(program).steps]
    (said,) = [sentence(one) for one in found if getattr(one.advice, "loop", False)]
    assert "masked" in said and "carry" not in said


@pytest.mark.parametrize("by", ["data", "length"])
@pytest.mark.parametrize("again", [False, True])
def test_a_loop_over_many_lengths_is_asked_for_few(
    planned: Planned, by: str, again: bool
) -> None:
    """Jitted, it would compile for each length as well; and steps at the end change its carry."""

    def program(sizes: Sequence[int], again: bool) -> None:
        def once(carry: Any, x: Any) -> Any:
            return carry + (1 if x is None else x), carry

        for size in sizes:
            body = (lambda carry, x: (carry * 2, x)) if again else once
            xs = np.ones(size, np.float32) if by == "data" else None
            jax.lax.scan(body, np.float32(0), xs, length=size)

    before = planned(lambda: program((5, 9, 14, 20), again))
    step = eager(before)["eager-sizes"]
    assert (step.sure, step.proposal.code) == ("ask", "eager-sizes")
    assert isinstance(step.proposal.advice, FewSizes) and step.proposal.advice.loop
    said = sentence(step.proposal)
    assert "jitted or not" in said and ("define `<lambda>` once" in said) == again
    after = planned(lambda: program((20, 20, 20, 20), again=False))
    spared = before.now.eager.low - after.now.eager.low
    assert step.gone.eager.low <= spared == 3 <= step.gone.eager.high
    if again:  # padded and not defined once, it compiles for each body
        padded = planned(lambda: program((20, 20, 20, 20), again))
        assert padded.now.eager.low + padded.now.calls.low == 4


def test_an_operation_at_another_place_in_jax_says_nothing_of_its_shape(judge_all: Any) -> None:
    def program() -> None:
        x = np.arange(3, dtype=np.float32)
        jax.scipy.stats.multivariate_normal.logpdf(x, x, np.eye(3, dtype=np.float32))

    recording, verdicts = judge_all(program)
    again = [
        verdict
        for verdict in verdicts
        if any(change.component is Component.SIGNATURE for change in verdict.changes)
    ]
    view = View(recording, verdicts)
    assert again  # of one name, on one line of the program
    for verdict in again:
        labels = [line.label for line in lines(view, Group.alone(verdict))]
        assert "because" not in labels


LOOPS = """
def layer(x):
    for scale in (1.5, 2.5):
        x = jnp.sin(x) + jnp.cos(x) * 1.5
    while len(x.shape) < 2:
        x = jnp.tanh(jnp.exp(x))[None]
    return jnp.log1p(jnp.abs(jnp.sinh(jnp.arctan(jnp.cbrt(x)))))

def simulate(x):
    {one}
    for _ in range(3):
        x = layer(x) - jnp.mean(x); x = jnp.sqrt(jnp.cumsum(x) ** 2)
    return x
"""


def test_the_loops_that_jit_would_unroll_are_told(planned: Planned) -> None:
    x = np.ones(3, np.float32)
    for one, found in (("", (3, 5, 11)), ("x = x + int(1)", (3, 5))):
        # What converts to Python numbers cannot be jitted: the layer is what is left.
        place = f"/home/somebody/{'layer' if one else 'whole'}.py"
        made = module(LOOPS.format(one=one), place)
        (step,) = planned(lambda run=made.simulate: run(x)).steps
        (change,) = step.proposal.changes
        assert change.functions == ("layer" if one else "simulate",)
        assert sorted(line for _, line in change.loops) == [*found]
        assert {file for file, _ in change.loops} == {place}
        told = sentence(step.proposal)
        assert all(f"{Path(place).name}:{line}" in told for line in found)
        assert "jax.lax.scan" in told

    straight = LOOPS.partition("def simulate")[0].replace("for scale in (1.5, 2.5)", "if x.size")
    made = module(straight.replace("while", "if").format())
    (step,) = planned(lambda: [made.layer(x) for _ in range(3)]).steps
    assert step.proposal.changes[0].loops == ()  # the loop around the call is not unrolled
    assert "jax.lax.scan" not in sentence(step.proposal)


def test_a_comprehension_beside_an_operation_is_no_loop_around_it(planned: Planned) -> None:
    made = module("""
import jax.numpy as jnp

def layer(x, many):
    x = x * jnp.array([one * 2.0 for one in many])
    x = jnp.sinh(jnp.cosh(jnp.tan(jnp.cos(jnp.sin(x)))))
    return jnp.cbrt(jnp.log1p(jnp.abs(jnp.arctan(jnp.expm1(jnp.tanh(x))))))

def layers(x, many):
    return [jnp.sinh(jnp.cosh(jnp.tan(jnp.cbrt(jnp.log1p(jnp.abs(jnp.sin(jnp.cos(
        jnp.arctan(jnp.expm1(jnp.tanh(x * one)))))))))))  for one in many]
""")
    for run, found in ((made.layer, 0), (made.layers, 1)):
        (step,) = planned(lambda run=run: run(np.ones(3, np.float32), (1.0, 2.0, 3.0))).steps
        assert len(step.proposal.changes[0].loops) == found


@pytest.mark.parametrize("traced", [False, True])
def test_numpy_is_not_proposed_where_a_line_also_runs_inside_a_trace(
    planned: Planned, traced: bool
) -> None:
    halve = jax.jit(lambda x: x / 2)

    def total(sizes: Any) -> Any:
        return [jnp.sum(jnp.cumsum(jnp.sort(halve(np.ones(n, np.float32))))) for n in sizes]

    def program() -> None:
        if traced:
            jax.jit(lambda: total((9,)))()
        total(range(2, 8))

    steps = [one for one in planned(program).steps if one.proposal.code == FewSizes.code]
    (change,) = steps[0].proposal.changes
    assert change.traced == traced
    for said in (title(steps[0].proposal), sentence(steps[0].proposal)):
        assert ("NumPy" in said) != traced


def test_what_may_save_much_stands_before_what_is_not_worth_it(planned: Planned) -> None:
    act = jax.jit(lambda x: jnp.tanh(x).sum())
    update = jax.jit(lambda w, x: w - jax.grad(lambda w: act(x * w))(w))

    def start(x: Any) -> Any:
        x = jnp.sinh(jnp.cosh(jnp.tan(jnp.cos(jnp.sin(x)))))
        return jnp.cbrt(jnp.log1p(jnp.abs(jnp.arctan(jnp.expm1(jnp.tanh(x))))))

    def program() -> None:
        start(np.ones(3, np.float32))
        for _ in range(2):
            act(np.ones(1, np.float32))
            update(np.float32(1), np.ones(32, np.float32))

    families = [step.proposal.changes[0].family for step in planned(program).steps]
    assert families == ["eager", "shape"]

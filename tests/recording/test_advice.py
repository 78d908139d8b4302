"""Advice that can be followed: what retrace says to do about the last miss of a program."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest

from retrace.causes import Cause
from retrace.model import Component, Verdict
from retrace.model.advice import (
    Advice,
    CastNumber,
    CastResult,
    CompareByValue,
    DefineBodyOnce,
    FewValues,
    JitAndPass,
    JitForEach,
    LeaveOutValue,
    Library,
    LibraryPasses,
    LoopInProgram,
    OneCallStyle,
    OneDtype,
    OneReceiver,
    OneStructure,
    PassHeld,
    Proof,
    ReuseObject,
    ToArgument,
    What,
)
from retrace.plan.order import plan
from retrace.present.advice import advised
from retrace.present.detail import detail
from retrace.present.plan_titles import title
from retrace.present.program import compared
from retrace.present.sentences import explanation
from retrace.present.tally import Tally
from retrace.present.view import View
from tests.recording.conftest import JudgeAll

ones = np.ones(4, np.float32)
Last = Callable[[Callable[[], object]], tuple[Advice | None, str]]


@pytest.fixture
def last(judge_all: JudgeAll) -> Last:
    """Run a program under recording: the advice on its last miss, and if it was avoidable."""

    def run(program: Callable[[], object]) -> tuple[Advice | None, str]:
        found: Verdict = judge_all(program)[1][-1]
        assert found.nearest is not None
        return found.fix, found.avoidable

    return run


@dataclasses.dataclass(frozen=True)
class Config:
    rate: float = 0.1
    depth: int = 2
    train: bool = True
    sizes: tuple[int, ...] = ()
    act: Any = None


class Opaque:
    """Equal to itself alone."""

    def __init__(self, folder: str) -> None:
        self.folder = folder


def configured(step: Callable[..., Any], *configs: Any) -> Callable[[], object]:
    jitted = jax.jit(step, static_argnums=1)
    return lambda: [jitted(ones, config) for config in configs]


def test_a_number_in_a_config_is_passed_outside_of_it(last: Last) -> None:
    advice, avoidable = last(configured(lambda x, c: x * c.rate, Config(0.1), Config(0.2)))
    assert avoidable == "yes"
    assert advice == ToArgument(paths=("c.rate",), outside=("c",), proof=Proof.CONSTANTS)


def test_what_python_computed_may_need_jnp(last: Last) -> None:
    advice, _ = last(configured(lambda x, c: x * c.rate**2, Config(0.1), Config(0.2)))
    assert isinstance(advice, ToArgument) and advice.computed


def test_a_loop_is_not_blamed_on_the_constant_beside_it(last: Last) -> None:
    def step(x: Any, c: Config) -> Any:
        for _ in range(c.depth):
            x = jnp.sin(x) * c.rate
        return x

    advice, _ = last(configured(step, Config(0.1, 2), Config(0.2, 4)))
    assert advice == LoopInProgram(paths=("c.depth",), seen=True)


def test_a_switch_is_no_argument_though_it_chose_but_a_constant(last: Last) -> None:
    def step(x: Any, c: Config) -> Any:
        return x * (2.0 if c.train else 3.0)

    advice, avoidable = last(configured(step, Config(), Config(train=False)))
    assert (advice, avoidable) == (FewValues(paths=("c.train",), why="flags"), "maybe")


def test_shapes_that_depend_on_a_value_are_said(last: Last) -> None:
    advice, _ = last(
        configured(lambda x, c: jnp.ones(c.sizes) * x[0], Config(sizes=(2,)), Config(sizes=(5,)))
    )
    assert advice == FewValues(paths=("c.sizes[0]",), why="shapes")


def test_equal_programs_do_not_prove_that_a_value_is_unread(last: Last) -> None:
    def step(x: Any, c: Config) -> Any:
        return jnp.sin(x) if c.depth < 10 else x

    advice, avoidable = last(configured(step, Config(depth=2), Config(depth=3)))
    # Its sentence has the condition that `step` does not read it.
    assert advice == LeaveOutValue(
        paths=("c.depth",), name="step", in_tree=False, of_object=True, proof=Proof.PROGRAM
    )
    assert avoidable == "yes"


def test_none_is_no_other_type_of_a_value(last: Last) -> None:
    advice, _ = last(configured(lambda x, c: x + 1, Config(act=None), Config(act="relu")))
    assert isinstance(advice, LeaveOutValue) and advice.paths == ("c.act",)


class Bound:
    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.step = jax.jit(self.inner)

    def inner(self, x: Any) -> Any:
        return x * self.rate


def test_an_object_with_a_jitted_method_of_its_own_cannot_compare_by_value(last: Last) -> None:
    advice, _ = last(configured(lambda x, c: x + 1, Bound(0.1), Bound(0.2)))
    assert isinstance(advice, LeaveOutValue)
    # To create `step` once would run the method of the first object for all.
    assert (advice.paths, advice.type, advice.held) == (("c",), None, ())


def test_nor_can_one_that_is_created_again_with_the_same_contents(last: Last) -> None:
    advice, _ = last(configured(lambda x, c: x * c.rate, Bound(0.1), Bound(0.1)))
    assert isinstance(advice, CompareByValue) and advice.alone
    assert "__eq__" not in (advised(advice) or "")


def test_a_class_that_compares_by_identity_needs_an_equality_too(last: Last) -> None:
    advice, _ = last(configured(lambda x, c: x + 1, Opaque("a"), Opaque("b")))
    assert isinstance(advice, LeaveOutValue) and advice.paths == ("c.folder",)
    assert advice.type == f"{__name__}.Opaque"


@pytest.mark.parametrize("whose", ["the library's", "the user's"])
def test_only_who_jits_a_function_decides_what_is_static(
    whose: str, last: Last, tmp_path: Path
) -> None:
    file = tmp_path / "site-packages" / "sphere" / "turning.py"
    file.parent.mkdir(parents=True)
    decorator = "@partial(jax.jit, static_argnums=1)\n" if whose == "the library's" else ""
    file.write_text(
        "from functools import partial\nimport jax\n\n\n"
        f"{decorator}def turned(x, angle):\n    return x * angle\n"
    )
    own: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), own)
    turned = own["turned"] if decorator else jax.jit(own["turned"], static_argnums=1)

    def program() -> None:
        for angle in (0.5, 0.25):
            turned(ones, angle)

    fix, avoidable = last(program)
    assert isinstance(fix, ToArgument)
    assert (fix.jitted_by, avoidable) == (("sphere", "maybe") if decorator else ("", "yes"))


def test_an_object_of_a_library_that_the_user_makes_is_no_method_of_it(last: Last) -> None:
    source = """
import jax
class Loss:
    def __call__(self, x):
        return x.sum()
def fit(loss, x):
    return jax.jit(loss)(x)
"""
    own: dict[str, Any] = {"__name__": "package.module"}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec"), own)
    fix, _ = last(lambda: [own["fit"](own["Loss"](), ones[:size]) for size in (2, 3)])
    assert isinstance(fix, Library) and (fix.name, fix.holder) == ("Loss", "Loss")
    assert "method" not in advised(fix)


@pytest.mark.parametrize("sizes", [(2, 2), (1, 2, 2)])
def test_of_an_object_of_a_library_one_is_to_be_kept(sizes: tuple[int, ...], last: Last) -> None:
    source = """
import dataclasses, functools, jax
@dataclasses.dataclass(eq=False)
class Strategy:
    size: int
    @functools.partial(jax.jit, static_argnames="self")
    def tell(self, x):
        return x[: self.size] + 1
"""
    names: dict[str, Any] = {"__name__": "package.module"}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec", 0, True), names)
    make = names["Strategy"]
    advice, avoidable = last(lambda: [make(size).tell(ones) for size in sizes])
    # Of several sizes each has one to keep.
    assert advice == CompareByValue(
        paths=("self",),
        type="package.module.Strategy",
        package="package",
        varies=len({*sizes}) > 1,
        proof=Proof.PROGRAM,
    )
    assert avoidable == "yes"


@pytest.mark.parametrize("names", ["ab", "aa"])
def test_another_model_that_a_library_runs_is_a_program_of_its_own(
    names: str, last: Last
) -> None:
    source = """
import jax
def fit(model, state):
    def body(state):
        return model(state)
    return jax.jit(body)(state)
"""
    own: dict[str, Any] = {"__name__": "package.module"}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec"), own)

    def model(state: dict[str, Any]) -> Any:
        return jnp.sin(state["a"]) if "a" in state else jnp.cos(state["b"] * 2) + 1

    advice, avoidable = last(lambda: [own["fit"](model, {name: ones}) for name in names])
    if names == "ab":
        assert (advice, avoidable) == (None, "no")
    else:  # the same model, and only made anew
        # It was seen to be made by the very call.
        assert advice == Library(
            name="model", package="package", maker="fit", wraps=True, proof=Proof.MEANING
        )
        assert avoidable != "no"


@pytest.mark.parametrize("kernels", ["hn", "hh"])
def test_another_kernel_of_a_library_over_one_density_is_another_function(
    kernels: str, judge_all: JudgeAll
) -> None:
    source = """
def h(density, x):
    return density(x) + 1
def n(density, x):
    return density(x) * 2
def sampler(density, kernel):
    def step(x):
        return kernel(density, x)
    return step
"""
    own: dict[str, Any] = {"__name__": "package.module"}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec"), own)

    def density(x: Any) -> Any:
        return jnp.sin(x).sum()

    _, verdicts = judge_all(
        lambda: [jax.jit(own["sampler"](density, own[kernel]))(ones) for kernel in kernels]
    )
    causes = [one.cause for one in verdicts]
    again = Cause.FUNCTION_REDEFINED if kernels == "hh" else Cause.FIRST_TRACE
    assert causes == [Cause.FIRST_TRACE, again]


@pytest.mark.parametrize("same", [False, True])
def test_a_librarys_sampler_over_another_density_is_another_program(
    same: bool, judge_all: JudgeAll
) -> None:
    source = """
import functools, typing
class Algorithm(typing.NamedTuple):
    step: typing.Callable
    move: typing.Callable
def sampler(density, prior, steps):
    def inner(x, algorithm):
        for _ in range(steps):
            x = x + algorithm.step(x) + algorithm.move(x)
        return x
    kernel = functools.partial(inner, algorithm=Algorithm(density, prior))
    def step_fn(x):
        return kernel(x)
    return step_fn
"""
    own: dict[str, Any] = {"__name__": "package.module"}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec"), own)

    def wide(x: Any) -> Any:
        return -jnp.sum(x**2)

    def mixture(x: Any) -> Any:
        return jnp.log(jnp.exp(-x).mean() + jnp.cos(x).mean())

    def prior(x: Any) -> Any:
        return x.max()

    def program() -> None:
        for density, x in ((wide, ones), (wide if same else mixture, np.ones(6, np.float32))):
            jax.jit(own["sampler"](density, prior, 2))(x)

    again = [v for v in judge_all(program)[1] if v.miss.function.name == "step_fn"][-1]
    assert again.nearest is not None
    assert (again.fix is None) == (not same)
    assert (again.avoidable == "no") == (not same)


def test_what_a_library_keeps_in_an_object_is_the_users_to_keep(last: Last) -> None:
    source = """
import jax
class Solver:
    def __init__(self):
        def step(x):
            return x + 1
        self.step = jax.jit(step)
    def run(self, x):
        return self.step(x)
"""
    own: dict[str, Any] = {"__name__": "package.module"}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec"), own)
    advice, _ = last(lambda: [own["Solver"]().run(ones) for _ in range(2)])
    # No call was seen to make it, so it came from the object.
    assert advice == Library(name="step", package="package", proof=Proof.MEANING)


@pytest.mark.parametrize(("makes", "maker"), [(True, "Solver.run"), (False, "")])
def test_the_loop_that_a_library_runs_is_compiled_once_in_a_jitted_function(
    makes: bool, maker: str, last: Last
) -> None:
    inside = "        def step(carry, x): return carry + x, x\n"
    source = f"""
import jax
class Solver:
    def __init__(self):
{inside}        self.step = step
    def run(self, x):
        step = self.step
{inside if makes else ""}        return jax.lax.scan(step, x[0], x)
"""
    own: dict[str, Any] = {"__name__": "package.module"}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec"), own)
    advice, avoidable = last(lambda: [own["Solver"]().run(ones) for _ in range(2)])
    assert advice == Library(
        name="step", package="package", maker=maker, is_body=True, proof=Proof.MEANING
    )
    assert avoidable == "maybe"


@pytest.mark.parametrize("made", [jax.jit, functools.partial])
def test_the_body_of_a_loop_is_named_whatever_it_is_wrapped_in(
    made: Callable[[Any], Any], judge_all: JudgeAll
) -> None:
    def run() -> None:
        def body(carry: Any, x: Any) -> Any:
            return carry + x, x

        jax.lax.scan(made(body), jnp.float32(0), ones)

    found = judge_all(lambda: [run() for _ in range(2)])[1]
    loop = [verdict for verdict in found if verdict.cause is Cause.CONTROL_FLOW_RECREATED][-1]
    assert isinstance(loop.fix, DefineBodyOnce) and loop.fix.bodies == ("body",)
    assert loop.fix.partial is (made is functools.partial)
    assert loop.avoidable == "yes"


def test_a_body_that_holds_other_values_is_not_to_be_defined_once(judge_all: JudgeAll) -> None:
    def fixed_point(f: Any, a: Any) -> Any:
        def cond(c: Any) -> Any:
            return jnp.abs(c[0] - c[1]) > 1e-6

        def body(c: Any) -> Any:
            return c[1], f(a, c[1])

        return jax.lax.while_loop(cond, body, (a, f(a, a)))[1]

    def root(a: Any) -> Any:
        return fixed_point(lambda a, x: 0.5 * (x + a / x), a)

    found = judge_all(lambda: [root(np.float32(a)) for a in (2, 3, 5)])[1]
    loops = [verdict for verdict in found if verdict.cause is Cause.CONTROL_FLOW_RECREATED]
    assert [type(loop.fix) for loop in loops] == [DefineBodyOnce] * 2
    for loop in loops:
        assert isinstance(loop.fix, DefineBodyOnce) and loop.fix.proof is Proof.MEANING
        assert {*loop.fix.holds} == {"a", "f"} and loop.fix.each == ("f",)
        assert "for each `f`" in advised(loop.fix)


@pytest.mark.parametrize("other", [False, True])
def test_a_function_in_which_numbers_differ_is_created_where_a_loop_is_jitted(
    judge_all: JudgeAll, other: bool
) -> None:
    """Jitted once for each, it would compile as often as before."""

    def kernel_of(rate: float, kind: str = "euler") -> Any:
        return jax.jit(lambda x: x * rate if kind else x)

    def run(kernel: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            return kernel(x), None

        return jax.lax.scan(step, jnp.asarray(ones), None, length=5)

    kernels = [kernel_of(0.1), kernel_of(0.2), kernel_of(0.3, "heun" if other else "euler")]
    found = judge_all(lambda: [*map(run, kernels)])[1]
    loops = [one.fix for one in found if one.cause is Cause.CONTROL_FLOW_RECREATED]
    for advice in loops:
        assert isinstance(advice, DefineBodyOnce)
        assert (advice.each, advice.made) == ((), ("kernel",))[:: -1 if other else 1]
        assert ("`kernel` created inside it" in advised(advice)) != other
    assert len(loops) == 2


def test_an_object_that_looks_the_same_is_not_told_to_be_left_out(judge_all: JudgeAll) -> None:
    """The program is the same for both, but for what was read from them."""

    class Strategy:
        def __init__(self, size: int, rate: Any) -> None:
            self.size, self.scale = size, lambda x: x * rate

        @functools.partial(jax.jit, static_argnames="self")
        def ask(self, x: Any) -> Any:
            return x + self.size

    rate = jnp.float32(0.1)
    found = judge_all(lambda: [Strategy(16, rate).ask(ones) for _ in range(3)])[1]
    fixes = [verdict.fix for verdict in found if verdict.changes]
    assert [type(fix) for fix in fixes] == [CompareByValue] * 2
    assert all(isinstance(fix, CompareByValue) and not fix.varies for fix in fixes)


def test_what_a_callback_holds_is_unknown_and_not_different(judge_all: JudgeAll) -> None:
    @functools.partial(jax.jit, static_argnums=0)
    def solve(field: Any, y: Any) -> Any:
        y = field(y)
        jax.debug.callback(lambda _: None, y)
        return y

    scale = jnp.float32(2)

    def simulate(scale: Any) -> None:
        solve(lambda y: y * scale, ones)

    found = judge_all(lambda: [simulate(scale) for _ in range(3)])[1]
    fixes = [verdict.fix for verdict in found if verdict.cause is Cause.STATIC_ARGUMENT_CHANGED]
    assert [(type(fix), fix and fix.proof) for fix in fixes] == [(ReuseObject, Proof.MEANING)] * 2


def test_a_static_field_that_holds_other_arrays_is_not_told_to_be_kept(
    judge_all: JudgeAll,
) -> None:
    """One that is kept would go on with the arrays of its first trace, in silence."""

    @functools.partial(
        jax.tree_util.register_dataclass, data_fields=["scale"], meta_fields=["transform"]
    )
    @dataclasses.dataclass
    class Kernel:
        scale: Any
        transform: Any

    @jax.jit
    def condition(kernel: Kernel, x: Any) -> Any:
        return jnp.sin(kernel.transform(x)) * kernel.scale

    def model(w: Any) -> Any:
        return condition(Kernel(ones, lambda v: v * w), ones)

    arrays = [jnp.float32(2), jnp.float32(3)]
    verdict = [v for v in judge_all(lambda: [model(w) for w in arrays])[1] if v.changes][-1]
    assert verdict.cause is Cause.TREE_STRUCTURE_CHANGED
    assert isinstance(verdict.fix, PassHeld) and verdict.fix.unsure
    assert verdict.fix.proof is Proof.MEANING and verdict.fix.paths == ("kernel.transform",)


def test_a_body_is_compared_with_one_that_held_the_same(judge_all: JudgeAll) -> None:
    def run(k: float) -> None:
        jax.lax.fori_loop(0, 5, lambda _, carry: carry * k + 1, np.float32(0))

    recording, found = judge_all(lambda: [run(k) for k in (1.0, 2.0, 1.0)])
    first, second, third = [verdict for verdict in found if verdict.miss.bodies]
    assert second.nearest is first.miss and third.nearest is first.miss
    held = [[change.path for change in verdict.changes] for verdict in (second, third)]
    assert "k" in held[0] and "k" not in held[1]
    assert third.program is not None and third.program.is_wasted
    view = View(recording, found)
    told = [explanation(view, verdict) for verdict in (second, third)]
    assert ["repeated" in text for text in told] == [False, True]
    group = next(group for group in Tally.of(view).groups() if group.count == 2)
    assert "(1 of 2: " in compared(view, group)


def test_only_the_body_that_was_defined_again_is_named(judge_all: JudgeAll) -> None:
    def flip(x: Any) -> Any:
        return -x

    def positive(x: Any) -> Any:
        def stay(x: Any) -> Any:
            return x

        return jax.lax.cond(x < 0, flip, stay, x)

    found = judge_all(lambda: [positive(np.float32(x)) for x in (1, -2)])[1]
    (loop,) = [verdict for verdict in found if verdict.cause is Cause.CONTROL_FLOW_RECREATED]
    assert isinstance(loop.fix, DefineBodyOnce) and loop.fix.bodies == ("stay",)


def test_a_function_over_the_same_arrays_is_created_once(judge_all: JudgeAll) -> None:
    @functools.partial(jax.jit, static_argnums=0)
    def masked(fn: Any, x: Any) -> Any:
        return jnp.where(x > 0, fn(x), 0)

    held = jnp.float32(2)

    def energy(x: Any) -> Any:
        return masked(lambda x: x**held, x)

    found = judge_all(lambda: [energy(ones) for _ in range(3)])[1]
    again = [one for one in found if one.cause is Cause.STATIC_ARGUMENT_CHANGED]
    assert [type(one.fix) for one in again] == [ReuseObject] * 2
    assert {one.avoidable for one in again} == {"yes"}


@pytest.mark.parametrize("by_library", [True, False])
def test_how_a_library_calls_its_own_function_is_not_the_users(
    by_library: bool, last: Last
) -> None:
    source = """
import jax
@jax.jit
def filtered(x, scale=2.0):
    return x * scale
def fit(x):
    return filtered(x, 2.0)
def score(x):
    return filtered(x, scale=2.0)
"""
    own: dict[str, Any] = {"__name__": "package.module"}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec"), own)
    if by_library:
        advice, avoidable = last(lambda: [own["fit"](ones), own["score"](ones)])
        assert avoidable == "maybe"
        assert isinstance(advice, LibraryPasses)
        assert (advice.by, advice.name, advice.package) == ("score", "filtered", "package")
    else:
        call = own["filtered"]
        advice, avoidable = last(lambda: [call(ones, 3.0), call(ones, scale=3.0)])
        assert (advice, avoidable) == (OneCallStyle(paths=("scale",)), "yes")


@pytest.mark.parametrize("computes", [False, True])
def test_a_default_that_python_computes_with_is_passed_if_bits_may_differ(
    last: Last, computes: bool
) -> None:
    mixed = jax.jit(lambda x, by=0.9: by * x + (1 - by if computes else by))
    advice, avoidable = last(lambda: [mixed(ones), mixed(ones, by=0.9)])
    if not computes:
        assert (advice, avoidable) == (OneCallStyle(paths=("by",)), "yes")
    else:
        assert isinstance(advice, OneCallStyle) and advice.computed
        assert (advice.sure, avoidable) == ("ask", "maybe")


def test_a_default_that_another_branch_is_for_is_left(last: Last) -> None:
    bounded = jax.jit(lambda x, by=1.0: jnp.tanh(x) if isinstance(by, float) else jnp.clip(x, by))
    advice, avoidable = last(lambda: [bounded(ones), bounded(ones, by=1.0)])
    assert isinstance(advice, OneCallStyle) and advice.branches and not advice.computed
    assert (advice.sure, avoidable) == ("ask", "maybe")


def test_a_lambda_in_a_config_is_named(last: Last) -> None:
    configs = (Config(act=lambda x: x) for _ in range(2))
    advice, _ = last(configured(lambda x, c: c.act(x) + 1, *configs))
    assert isinstance(advice, CompareByValue) and advice.held == ("c.act",)


def test_a_config_that_was_cut_is_not_said_to_look_the_same(judge_all: JudgeAll) -> None:
    sizes = tuple(range(1000))
    configs = Config(0.1, sizes=sizes), Config(0.1, sizes=(*sizes[:-1], 7))
    found = judge_all(configured(lambda x, c: x + c.sizes[-1], *configs))[1][-1]
    change = found.changes[0]
    assert change.component is Component.STATIC and not change.exact
    assert "recorded" in detail(change)
    assert (found.pattern, found.avoidable) == (None, "maybe")


def test_of_two_functions_neither_is_made_again(last: Last) -> None:
    advice, avoidable = last(configured(lambda x, f: f(x), jnp.sin, jnp.cos))
    assert (advice, avoidable) == (FewValues(paths=("f",), why="functions"), "maybe")


def test_what_a_callback_holds_is_in_no_program(last: Last) -> None:
    def step(x: Any, c: Config) -> Any:
        shape = jax.ShapeDtypeStruct((4,), np.float32)
        return jax.pure_callback(lambda y: y * np.float32(c.rate), shape, x)

    advice, avoidable = last(configured(step, Config(0.1), Config(0.2)))
    assert (advice, avoidable) == (FewValues(paths=("c.rate",), why="program"), "maybe")


class Optimizer(NamedTuple):
    update: Any


def made(optimizer: Optimizer, parameters: Any) -> Any:
    @jax.jit
    def step(x: Any) -> Any:
        return optimizer.update(x * parameters[0])

    return step


def test_objects_are_kept(last: Last) -> None:
    def step_of(holder: Opaque) -> Any:
        return jax.jit(lambda x: x * len(holder.folder))

    advice, _ = last(lambda: [step_of(Opaque(folder))(ones) for folder in ("a", "bc")])
    assert isinstance(advice, JitAndPass) and advice.static == ("holder.folder",)


class Wave:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def at(self, x: Any) -> Any:
        return jnp.sin(self.rate * x)


@pytest.mark.parametrize(
    ("wrapped", "name"),
    [
        (lambda rate: Wave(rate).at, "g.__self__.rate"),
        (lambda rate: jax.vmap(Wave(rate).at), "g.__self__.rate"),
        (lambda rate: jax.vmap(jax.grad(lambda x: jnp.sin(rate * x))), "g.rate"),
    ],
    ids=["method", "vmap", "grad"],
)
def test_what_a_function_holds_inside_another_is_to_be_passed(
    last: Last, wrapped: Callable[[float], Any], name: str
) -> None:
    """It was "a new method with the same contents", to be created once."""

    def program() -> None:
        for rate in (1.0, 2.0):
            g = wrapped(rate)
            jax.jit(lambda x, g=g: g(x) + 1)(ones)

    advice, worth = last(program)
    # Another lambda on the same line has the same place.
    assert isinstance(advice, JitAndPass) and worth == ("maybe" if name == "g.rate" else "yes")
    assert (advice.traced, advice.functions) == ((name,), ())


def test_what_changed_a_program_without_being_recorded_is_asked_for(last: Last) -> None:
    values: dict[int, float] = {}

    class Table:
        def read(self) -> float:
            return values[id(self)]

    def program() -> None:
        tables = [Table(), Table()]
        for rate, table in enumerate(tables):
            values[id(table)] = rate + 1.0
            g = lambda x, table=table: x * table.read()
            jax.jit(lambda x, g=g: g(x) + 1)(ones)

    advice, worth = last(program)
    assert advice is not None and advice.proof is Proof.MEANING and worth == "maybe"
    assert "was not recorded" in advised(advice)


@pytest.mark.parametrize("new", [False, True])
def test_a_function_is_passed_what_differs_though_its_optimizer_is_kept(
    judge_all: JudgeAll, new: bool
) -> None:
    """Two calls hold equal optimizers and losses; a third holds another loss."""

    def train(rate: float) -> None:
        wave = Wave(rate)
        build = lambda p: p
        loss = lambda p: jnp.mean(wave.at(build(p)) ** 2)
        optimizer = optax.adam(1e-2)

        @jax.jit
        def step(p: Any, state: Any) -> Any:
            return optimizer.update(jax.grad(loss)(p), state, p)

        step(ones, optimizer.init(ones))

    rates = (1.0, 1.0, 2.0, 2.0) if new else (1.0, 1.0)
    found = [
        v for v in judge_all(lambda: [*map(train, rates)])[1] if v.miss.function.name == "step"
    ]
    for verdict in found[1:]:
        advice = verdict.fix
        assert isinstance(advice, JitForEach)
        assert advice.traced == (("loss.wave.rate",) if new else ())
        assert advice.paths == (("optimizer",) if new else ("optimizer", "loss"))


def test_two_lambdas_of_one_line_are_told_apart(judge_all: JudgeAll) -> None:
    pair = [lambda x: x * 2, lambda x: jnp.sin(x)]  # fmt: skip

    def program() -> None:
        for g in pair:
            jax.jit(lambda x, g=g: g(x) + 1)(ones)

    verdict = judge_all(program)[1][-1]
    (change,) = [one for one in verdict.changes if one.component is Component.DEFAULTS]
    assert "same contents" not in (said := detail(change))
    line = pair[0].__code__.co_firstlineno
    assert said.count(f"test_advice.py:{line}:") == 2


def test_two_functions_inside_a_wrapper_of_jax_are_told_apart(judge_all: JudgeAll) -> None:
    """They hold nothing, and the wrappers have the name and the place of JAX's code."""
    first = jax.vmap(lambda x: x * 2)
    second = jax.vmap(lambda x: x * 3)

    def program() -> None:
        for g in (first, second):
            jax.jit(lambda x, g=g: g(x) + 1)(ones)

    verdict = judge_all(program)[1][-1]
    (change,) = [one for one in verdict.changes if one.component is Component.DEFAULTS]
    assert "same contents" not in detail(change)
    assert isinstance(verdict.fix, JitForEach) and not verdict.fix.same


def test_where_types_decide_what_is_static_an_array_is_asked_for(last: Last) -> None:
    eqx = pytest.importorskip("equinox")

    @eqx.filter_jit
    def scaled(x: Any, rate: Any) -> Any:
        return x * rate

    advice, _ = last(lambda: [scaled(jnp.asarray(ones), rate) for rate in (0.1, 0.2)])
    assert advice is not None and "as an array" in advised(advice)


def test_what_several_functions_hold_is_passed_once(last: Last) -> None:
    def made(config: dict[str, float]) -> Any:
        def schedule(x: Any) -> Any:
            return x * config["rate"]

        return jax.jit(lambda x: schedule(x) + config["rate"])

    advice, _ = last(lambda: [made({"rate": rate})(ones) for rate in (1.0, 2.0)])
    assert isinstance(advice, JitAndPass) and advice.traced == ("config['rate']",)


def test_what_a_new_function_holds_is_told_beside_another_cause(last: Last) -> None:
    """Jitted once, as the advice says, it would have kept the first number."""

    def program() -> None:
        for size, most in ((4, 20), (6, 30)):

            @jax.jit
            def steps(x: Any, most: int = most) -> Any:
                return x >= most

            steps(np.ones(size, np.float32))

    advice, _ = last(program)
    assert advice is not None and (advice.remade, advice.holding) == ("steps", ("most",))
    assert "pass `most`" in advised(advice)


def test_a_function_that_a_new_one_holds_is_not_passed_itself(last: Last) -> None:
    def made(rate: float) -> Any:
        table = {str(number): rate for number in range(5_000)}

        def scaled(x: Any) -> Any:
            return x * table["7"]

        return jax.jit(lambda x: scaled(x) + 1)

    def program() -> None:
        for size, rate in ((4, 0.5), (6, 0.25)):
            made(rate)(np.ones(size, np.float32))

    advice, _ = last(program)
    assert advice is not None and (advice.holding, advice.calling) == ((), ("scaled",))
    assert "pass what `scaled`" in advised(advice)


def test_padding_is_a_question_where_each_size_has_other_operations(last: Last) -> None:
    @jax.jit
    def total(amplitudes: Any) -> Any:
        found = jnp.exp(amplitudes[0])
        return found if amplitudes.shape[0] == 1 else found + jnp.abs(amplitudes[1:]).sum()

    advice, _ = last(lambda: [total(np.ones(size, np.float32)) for size in (1, 2)])
    assert advice is not None and advice.proof is Proof.MEANING
    assert "leave it" in advised(advice)


def test_arrays_are_passed(last: Last) -> None:
    mine = Optimizer(jnp.sin)
    advice, _ = last(lambda: [made(mine, (jnp.ones(4) * n,))(ones) for n in (1, 2)])
    assert advice == JitAndPass(name="step", traced=("parameters",), proof=Proof.CONSTANTS)


def test_arrays_that_a_function_reads_are_not_left_in_it(last: Last) -> None:
    def program() -> None:
        for number in range(2):
            batch = {"x": jnp.arange(4.0) + number}
            jax.jit(lambda x: x * batch["x"])(ones)

    advice, avoidable = last(program)
    assert isinstance(advice, JitAndPass)
    assert (advice.traced, advice.static) == (("batch",), ())
    assert avoidable == "maybe"


class Policy(NamedTuple):
    weights: Any

    def act(self, x: Any) -> Any:
        return x * self.weights


def test_a_method_of_another_tuple_is_not_one_to_keep(last: Last) -> None:
    advice, avoidable = last(lambda: [jax.jit(Policy(ones * n).act)(ones) for n in (1, 2)])
    assert isinstance(advice, OneReceiver) and advice.is_method
    # Its sentence leaves the choice between one object and arguments.
    assert (advice.name, advice.proof) == ("act", Proof.MEANING)
    assert avoidable == "maybe"


def test_what_a_decorator_was_given_is_told(last: Last) -> None:
    def along(axis: int) -> Any:
        def decorate(function: Any) -> Any:
            @functools.wraps(function)
            def wrapper(x: Any) -> Any:
                return function(x) + x.sum(axis)

            return wrapper

        return decorate

    def energy(x: Any) -> Any:
        return x**2

    square = np.ones((3, 3), np.float32)
    advice, _ = last(lambda: [jax.jit(along(axis)(energy))(square) for axis in (0, 1)])
    assert advice == JitAndPass(name="energy", what=What.WRAPPED, static=("axis",))


def test_a_number_that_changes_the_dtype_of_results_is_a_question(last: Last) -> None:
    step = jax.jit(lambda x, scale: x * scale)
    half = jnp.ones(4, jnp.bfloat16)
    advice, avoidable = last(lambda: [step(half, scale) for scale in (jnp.float32(2), 2.0)])
    assert isinstance(advice, CastNumber) and advice.sure == "ask"
    assert (advice.paths, advice.types) == (("scale",), (("float32", False),))
    assert avoidable == "maybe"


def test_all_that_changed_is_to_be_mended(last: Last) -> None:
    step = jax.jit(lambda batch, scale: batch["x"] * scale)
    one, other = {"x": ones, "y": None}, {"x": ones, "y": ones}
    advice, _ = last(lambda: [step(one, 2.0), step(other, np.float32(2))])
    assert advice is not None and advice.others == (("scale", "weak_type"),)


def test_a_loop_of_another_length_is_another_program(last: Last) -> None:
    def run(lengths: tuple[int, ...]) -> None:
        for length in lengths:
            jax.lax.scan(lambda c, x: (c + x, None), 0.0, np.ones(3), length=None)
            jax.lax.cond(True, lambda x: x[:length], lambda x: x[-length:], ones)

    _, avoidable = last(lambda: run((2, 3)))
    assert avoidable == "maybe"


def test_what_was_none_before_is_no_other_type(last: Last) -> None:
    advice, _ = last(configured(lambda x, c: x + 1, None, "relu"))
    assert isinstance(advice, LeaveOutValue) and (advice.paths, advice.type) == (("c",), None)


def test_of_arrays_nobody_looked_at_the_content(judge_all: JudgeAll) -> None:
    mine = Optimizer(jnp.sin)
    _, verdicts = judge_all(lambda: [made(mine, jnp.ones(4) * n)(ones) for n in (1, 2)])
    said = [detail(change) for change in verdicts[-1].changes]
    assert any("float32[4] array; its contents" in text for text in said)


class NoneSuch(NamedTuple):
    value: Any


class LooksTheSame(NamedTuple):
    value: Any


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ([ones], (ones,), ("list", "tuple")),
        (NoneSuch(ones), LooksTheSame(ones), ("NoneSuch", "LooksTheSame")),
        (None, {"fillNone": ones}, ("None", "dict")),
        ([ones], [ones, ones], None),
    ],
)
def test_two_containers_are_named_and_no_name_is_taken_for_none(
    last: Last, old: Any, new: Any, named: tuple[str, str] | None
) -> None:
    jitted = jax.jit(lambda tree: jax.tree.leaves(tree))
    advice, _ = last(lambda: [jitted({"fillNone": one}) for one in (old, new)])
    assert advice == OneStructure(
        paths=("tree['fillNone']",), way="nodes", containers=named, proof=Proof.MEANING
    )


@pytest.mark.parametrize("number", [False, True])
def test_what_other_calls_pass_is_given_in_place_of_none(number: bool, last: Last) -> None:
    """Where they pass a Python number, an array would miss again."""
    jitted = jax.jit(lambda tree: jax.tree.leaves(tree))
    advice, _ = last(lambda: [jitted({"x": one}) for one in (None, 0.5 if number else ones)])
    assert advice == OneStructure(
        paths=("tree['x']",), way="none", number=number, proof=Proof.MEANING
    )
    assert advice is not None and ("Python number" in advised(advice)) == number


class Solver(NamedTuple):
    update: Callable[[Any, Any], Any]


def test_an_object_for_each_value_is_created_inside_the_function_that_gets_the_value(
    judge_all: JudgeAll,
) -> None:
    """One function for each of the objects is what the program has already."""

    def made(rate: Any) -> Solver:
        return Solver(lambda x, y: rate * x + y)

    def compute(solver: Solver, x: Any) -> Any:
        return solver.update(x, solver.update(x, x))

    inside = jax.jit(lambda rate, x: compute(made(rate), x))

    def program() -> None:
        for rate in (0.9, 0.99, 0.999):
            jax.jit(functools.partial(compute, made(rate)))(ones)
        for rate in (0.9, 0.99, 0.999):
            inside(rate, ones)

    verdicts = judge_all(program)[1]
    again = [one.fix for one in verdicts if one.cause is Cause.PARTIAL_RECREATED]
    assert len(again) == 2 and len(verdicts) == 4
    for advice in again:
        assert isinstance(advice, JitForEach) and advice.inside
        assert advice.traced == ("solver.update.rate",)
        assert "create `solver` inside it" in advised(advice)


def test_what_a_librarys_wrapper_may_hold_is_not_called_wasted(judge_all: JudgeAll) -> None:
    """The wrapper closes over the data of each call, the user's function over nothing."""
    source = """
import jax
def fit(objective, data, x):
    def loss(x):
        return objective(x, data)
    @jax.jit
    def wrapper(x):
        return jax.value_and_grad(loss)(x)
    return wrapper(x)
"""
    own: dict[str, Any] = {"__name__": "package.module"}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec"), own)

    def program() -> None:
        for data in (np.ones(3, np.float32), np.zeros(3, np.float32)):
            own["fit"](lambda x, y: ((x - y) ** 2).sum(), jnp.asarray(data), ones[:3])

    recording, verdicts = judge_all(program)
    view, last = View(recording, verdicts, ""), verdicts[-1]
    assert last.avoidable != "yes"
    assert "wasted" not in explanation(view, last)


def test_what_a_library_returns_weakly_typed_is_not_given_a_dtype_in_its_code(
    judge_all: JudgeAll,
) -> None:
    """Its lines are not the user's to change, nor are they lines of the user's file."""

    def program() -> None:
        for function in (
            optax.constant_schedule(0.5),
            lambda count: jnp.where(count > 0, 2.0, 1.0),
        ):
            jitted = jax.jit(function)
            jitted(jitted(np.float32(1)))

    found = [one for one in judge_all(program)[1] if one.cause is Cause.WEAK_TYPE_CHANGED]
    advice = [one.fix for one in found if isinstance(one.fix, CastResult)]
    assert [(one.package, one.line is None) for one in advice] == [("optax", True), ("", False)]
    assert [one.avoidable for one in found] == ["maybe", "yes"]


def test_a_type_that_is_weak_in_turns_is_not_that_of_a_result(judge_all: JudgeAll) -> None:
    """Of two arguments one became weak and the other strong: both need one type at every call."""

    def program() -> None:
        step = jax.jit(lambda a, b: (a + b, jnp.where(a > b, 1.0, 0.0)))
        one, weak = jnp.asarray(np.float32(1)), jnp.asarray(1.0)
        step(step(one, weak)[1], one)

    *_, last = judge_all(program)[1]
    assert last.cause is Cause.WEAK_TYPE_CHANGED
    assert isinstance(last.fix, CastNumber)
    assert set(last.fix.paths) == {"a", "b"}
    assert (last.fix.later, last.fix.returned) == (("a",), True)
    assert "`a` a dtype where `<lambda>` returns it" in advised(last.fix)


@pytest.mark.parametrize(
    "strong", [frozenset[str](), frozenset({"reward"}), frozenset({"reward", "stop"})]
)
def test_what_starts_weak_and_what_becomes_weak_need_a_dtype_in_two_places(
    strong: frozenset[str], judge_all: JudgeAll
) -> None:
    """One of them alone removes nothing; both together do."""

    @jax.jit
    def unroll(state: dict[str, Any]) -> dict[str, Any]:
        x = jnp.tanh(state["x"])
        stop = jnp.float32(1) if "stop" in strong else 1.0
        return {"x": x, "reward": x + 1, "stop": jax.lax.full((3,), stop)}

    def program() -> None:
        zeros = np.zeros(3, np.float32)
        reward = zeros if "reward" in strong else jnp.broadcast_to(jnp.asarray(0.0), (3,))
        state: dict[str, Any] = {"x": zeros, "reward": reward, "stop": zeros}
        for _ in range(3):
            state = unroll(state)

    found = [one.fix for one in judge_all(program)[1] if one.cause is Cause.WEAK_TYPE_CHANGED]
    assert len(found) == (len(strong) < 2)
    if not strong:
        (advice,) = found
        assert isinstance(advice, CastNumber)
        assert advice.later == ("state['stop']",) and advice.returned


def test_a_value_that_was_weak_before_as_well_is_not_the_one_that_is_returned_so(
    judge_all: JudgeAll,
) -> None:
    @jax.jit
    def update(x: Any, state: dict[str, Any]) -> Any:
        return {"n": state["n"] + 1, "error": jnp.sqrt(jnp.sum(x**2))}

    def program() -> None:
        for error in (np.float32(1), jnp.asarray(jnp.inf)):
            update(ones, {"n": jnp.asarray(0), "error": error})

    *_, last = judge_all(program)[1]
    assert last.fix == CastNumber(
        paths=("state['error']",), types=(("float32", False),), name="update", proof=Proof.PROGRAM
    )


@pytest.mark.parametrize(("sizes", "resized"), [((3, 4), True), ((3, 3), False)])
def test_captured_arrays_of_other_sizes_would_miss_as_arguments_too(
    sizes: tuple[int, int], resized: bool, last: Last
) -> None:
    def scaled(start: int, size: int) -> Any:
        data = jnp.asarray(np.arange(start, start + size, dtype=np.float32))
        return jax.jit(lambda w: jnp.tanh(w * data).sum())

    advice, _ = last(lambda: [scaled(*each)(np.float32(2)) for each in enumerate(sizes)])
    assert isinstance(advice, JitAndPass)
    assert advice.resized is resized


def test_a_captured_number_that_gives_the_sizes_is_static_and_nothing_to_pad(last: Last) -> None:
    advice, _ = last(
        lambda: [jax.jit(lambda w, n=n: w * jnp.ones(n))(np.float32(2)) for n in (3, 4)]
    )
    assert isinstance(advice, JitAndPass)
    assert (advice.static, advice.resized) == (("n",), False)


@pytest.mark.parametrize("kept", [False, True])
def test_arrays_below_a_function_that_is_held_are_passed_as_well(
    judge_all: JudgeAll, kept: bool
) -> None:
    def metric_in(box: Any) -> Any:
        return lambda x: jnp.sum((x @ box) ** 2, -1)

    def candidates_by(metric: Any, cutoff: Any) -> Any:
        @jax.jit
        def candidates(x: Any) -> Any:
            return metric(x) < cutoff

        return candidates

    x = np.ones((4, 3), np.float32)
    metrics = [metric_in(jnp.eye(3) * scale) for scale in (1.0, 1.5)]
    if kept:
        metrics[1] = metrics[0]
    cutoffs = (jnp.float32(1), jnp.float32(2))
    _, found = judge_all(
        lambda: [candidates_by(*pair)(x) for pair in zip(metrics, cutoffs, strict=True)]
    )
    (fix,) = [v.fix for v in found if v.cause is Cause.FUNCTION_REDEFINED]
    assert isinstance(fix, JitAndPass) and fix.traced == ("cutoff",)
    assert (fix.reads, fix.functions) == ((False, ()) if kept else (True, ("metric",)))
    assert kept or "`cutoff` and the arrays that `metric` reads" in advised(fix)


def test_a_function_that_holds_one_created_again_binds_nothing(judge_all: JudgeAll) -> None:
    def run() -> None:
        @jax.jit
        def norm(x: Any) -> Any:
            return jnp.abs(x).max()

        @jax.jit
        def goes_on(x: Any) -> Any:
            return norm(x) > 1e-3

        goes_on(ones)

    _, found = judge_all(lambda: [run() for _ in range(3)])
    fixes = [v.fix for v in found if v.miss.function.name == "goes_on" and v.changes]
    assert len(fixes) == 2
    for fix in fixes:
        assert isinstance(fix, JitAndPass) and fix.functions == ("norm",)
        assert "partial" not in advised(fix) and "`norm`" in advised(fix)


def test_a_title_names_what_can_be_an_argument(judge_all: JudgeAll) -> None:
    def integrate(function: Any) -> Any:
        return jax.jit(lambda x: function(x))(ones)

    def program() -> None:
        for rate in (1.0, 2.0, 3.0):
            integrate(lambda k, rate=rate: jnp.sin(k * rate))

    recording, verdicts = judge_all(program)
    (step,) = plan(recording, verdicts).steps
    assert "`function.rate`" in title(step.proposal)  # not the function itself


def test_of_whole_numbers_and_fractions_the_dtype_of_fractions_is_to_be_given(
    judge_all: JudgeAll,
) -> None:
    update = jax.jit(lambda w, rate: w - rate * w)
    _, found = judge_all(lambda: [update(ones, rate) for rate in (1, 0.5, 0.25)])
    (fix,) = [v.fix for v in found if v.cause is Cause.DTYPE_CHANGED]
    assert isinstance(fix, OneDtype)
    assert "float32, not int32" in advised(fix)


def test_a_static_object_over_other_arrays_is_to_be_a_pytree(judge_all: JudgeAll) -> None:
    class Posterior:
        def __init__(self, data: Any, scale: float = 2.0) -> None:
            self.data, self.scale = data, scale

        def logp(self, x: Any) -> Any:
            return ((self.data - x) ** 2).sum() / self.scale

    class Leaf(Posterior):
        pass

    jax.tree_util.register_dataclass(Leaf, data_fields=["data"], meta_fields=["scale"])
    data = [jax.device_put(np.arange(4, dtype=np.float32) * k) for k in range(3)]
    results: list[Any] = []

    def run(kind: type[Posterior]) -> list[Verdict]:
        static = 0 if kind is Posterior else None
        logp = jax.jit(kind.logp, static_argnums=static)
        found = judge_all(lambda: results.append([float(logp(kind(d), ones)) for d in data]))[1]
        return [v for v in found if v.miss.function.name == "logp"]

    _, *again = run(Posterior)
    for verdict in again:
        assert isinstance(verdict.fix, PassHeld) and verdict.fix.of == "Posterior"
        assert verdict.fix.held == ("self.data",) and verdict.avoidable == "maybe"
    known = len(again) + 1
    assert len(run(Leaf)) == known + 1  # followed: one program
    assert results[0] == results[1]


def test_a_loop_in_a_function_that_prints_is_not_to_be_jitted_with_it(
    judge_all: JudgeAll,
) -> None:
    def run(rate: Any, prints: bool) -> None:
        def body(carry: Any, x: Any) -> Any:
            return carry * rate + x, x

        found = jax.lax.scan(body, jnp.float32(0), ones)[0]
        if prints:
            print(f"{float(found):.2f}")

    def quiet(rate: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            return carry * rate + x + 1, x

        return jax.lax.scan(body, jnp.float32(0), ones)[0]

    rates = jax.device_put(np.array([0.5, 0.25], np.float32))
    _, found = judge_all(lambda: [(run(rate, True), quiet(rate)) for rate in rates])
    loops = {
        v.miss.call_site.function.rpartition(".")[2]: v.fix
        for v in found
        if v.miss.bodies and v.nearest and v.miss.call_site
    }
    printing, plain = loops["run"], loops["quiet"]
    assert isinstance(printing, DefineBodyOnce) and printing.untraceable
    assert isinstance(plain, DefineBodyOnce) and not plain.untraceable
    assert "stays outside" in advised(printing) and "stays outside" not in advised(plain)


def test_a_weak_array_with_axes_was_no_python_number(judge_all: JudgeAll) -> None:
    step = jax.jit(lambda scale, x: (scale * x).mean())
    weak = jax.vmap(lambda _: jnp.array(0.5))(ones)
    strong = jax.vmap(lambda _: jnp.array(0.5, jnp.float32))(ones)
    _, found = judge_all(lambda: [step(scale, ones) for scale in (strong, weak)])
    (fix,) = [v.fix for v in found if v.cause is Cause.WEAK_TYPE_CHANGED]
    assert isinstance(fix, CastNumber)
    assert "jnp.array(0.0, jnp.float32)" in advised(fix)
    assert "Python number for" not in advised(fix)

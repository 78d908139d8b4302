"""What makes function objects one function to the user, and whose function was jitted."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive

import retrace
from retrace.causes import Cause
from retrace.model import Component, HeldChange, Kind, NamedChange, Recording, Verdict
from retrace.model.advice import ToArray
from retrace.present import markdown, page, report_json, terminal
from retrace.present.detail import detail
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.store.redaction import Redaction
from tests.recording.conftest import JudgeAll

X = np.ones(4, np.float32)
Function = Callable[..., Any]
ADDED = Cause.FIRST_TRACE


def _causes(judge_all: JudgeAll, program: Callable[[], object]) -> list[Cause]:
    return [verdict.cause for verdict in _verdicts(judge_all, program)]


def _verdicts(judge_all: JudgeAll, program: Callable[[], object]) -> list[Verdict]:
    recording, verdicts = judge_all(program)
    latest = max(recording.runs, key=lambda run: run.started).id
    own = [verdict for verdict in verdicts if verdict.miss.run == latest]
    return [verdict for verdict in own if verdict.miss.function.kind is not Kind.OP]


def _twice(function: Function) -> Function:
    def wrapper(*args: Any) -> Any:
        return function(*args) * 2

    return wrapper


def _scaled(function: Function) -> Function:
    def scaled(*args: Any) -> Any:
        return function(*args) * 3

    return scaled


def _through(pair: Any) -> Function:
    def through(x: Any) -> Any:
        return (pair[0] if isinstance(pair, tuple) else pair)(x)

    return through


def actor(x: Any) -> Any:
    return x + 1


def critic(x: Any) -> Any:
    return x - 1


class Model:
    def left(self, x: Any) -> Any:
        return x + 1

    def right(self, x: Any) -> Any:
        return x + 2


def _library(source: str) -> dict[str, Any]:
    """The names of a module of an installed package."""
    names: dict[str, Any] = {}
    exec(compile(source, "/opt/site-packages/package/module.py", "exec"), names)
    return names


class Twice:
    """A decorator that is a class."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, x: Any) -> Any:
        function = self.function[0] if isinstance(self.function, tuple) else self.function
        return function(function(x))


class Slotted:
    __slots__ = ("__weakref__", "function")

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, x: Any) -> Any:
        return self.function(x)


def _pairs() -> Iterator[tuple[Any, Any]]:
    yield _twice(actor), _twice(critic)
    yield _scaled(_twice(actor)), _scaled(_twice(critic))
    yield _twice(jax.jit(actor)), _twice(jax.jit(critic))
    yield _twice(functools.partial(actor)), _twice(functools.partial(critic))
    yield _twice(Model().left), _twice(Model().right)
    yield _through((actor, 1)), _through((critic, 1))
    yield _twice(jnp.sin), _twice(jnp.cos)
    yield jax.vmap(_twice(actor)), jax.vmap(_twice(critic))
    yield functools.partial(_twice(actor)), functools.partial(_twice(critic))
    yield _twice(eqx.filter_jit(actor)), _twice(eqx.filter_jit(critic))
    yield Twice(actor), Twice(critic)
    yield Twice(jax.jit(actor)), Twice(jax.jit(critic))
    yield Twice(functools.partial(actor)), Twice(functools.partial(critic))
    yield Twice(Model().left), Twice(Model().right)
    yield Twice((actor, 1)), Twice((critic, 1))
    yield Twice(Twice(actor)), Twice(Twice(critic))
    yield _twice(Twice(actor)), _twice(Twice(critic))
    yield jax.vmap(Twice(actor)), jax.vmap(Twice(critic))
    yield Slotted(actor), Slotted(critic)
    yield _twice(eqx.Partial(actor)), _twice(eqx.Partial(critic))


def test_functions_behind_one_decorator_are_two(judge_all: JudgeAll) -> None:
    for index, (one, other) in enumerate(_pairs()):
        first, second = jax.jit(one), jax.jit(other)

        def program(first: Any = first, second: Any = second) -> None:
            first(X)
            second(X)
            second(X[:2])

        found = [v for v in _verdicts(judge_all, program) if v.miss.parent is None]
        causes = [verdict.cause for verdict in found]
        assert causes == [ADDED, ADDED, Cause.SHAPE_CHANGED], index
        sites = [verdict.miss.function.site for verdict in found]
        assert sites[0] != sites[1] == sites[2], index


def test_one_object_of_a_class_stays_one_function(judge_all: JudgeAll) -> None:
    changed = Twice(actor)

    def program() -> None:
        jax.jit(Twice(actor))(X)
        jax.jit(Twice(actor))(X)
        jitted = jax.jit(changed)
        jitted(X)
        changed.function = critic
        jitted(X[:2])

    causes = _causes(judge_all, program)
    assert causes == [ADDED, *[Cause.METHOD_REBOUND] * 2, Cause.SHAPE_CHANGED]


def test_what_is_made_again_over_the_same_function_is_one(judge_all: JudgeAll) -> None:
    def program() -> None:
        for scale in (1.0, 2.0):
            jax.jit(_twice(actor))(X)
            jax.jit(_twice(lambda x: x * scale))(X)
            jax.jit(_twice(Model().left))(X)

    causes = _causes(judge_all, program)
    assert causes == [ADDED] * 3 + [Cause.FUNCTION_REDEFINED] * 3


def test_a_function_stays_one_when_its_cells_change(judge_all: JudgeAll) -> None:
    def program() -> None:
        helper: Any = actor

        @jax.jit
        def step(x: Any) -> Any:
            return helper(x)

        step(X)
        helper = critic
        step(X[:2])

        @jax.jit
        def countdown(x: Any, n: int = 2) -> Any:
            return countdown.__wrapped__(later(x), n - 1) if n else x  # pyright: ignore[reportFunctionMemberAccess, reportAttributeAccessIssue]

        later = _twice(actor)
        countdown(X)

    causes = _causes(judge_all, program)
    assert causes == [ADDED, Cause.SHAPE_CHANGED, ADDED]


def test_strategies_that_are_no_functions_are_no_part_of_it(judge_all: JudgeAll) -> None:
    class Strategy:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def __call__(self, x: Any) -> Any:
            return x * self.scale

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    def program() -> None:
        jax.jit(_twice(Strategy(1.0)))(X)
        jax.jit(_twice(Strategy(2.0)))(X)

    assert _causes(judge_all, program) == [ADDED, Cause.FUNCTION_REDEFINED]


def test_closures_of_packages_are_told_by_what_they_hold_and_where_they_are_jitted(
    judge_all: JudgeAll,
) -> None:
    package = _library(
        "def adam():\n    def update(x): return x + 1\n    return update\n"
        "def sgd():\n    def update(x): return x + 2\n    return update\n"
        "def chain(*given):\n"
        "    def update_fn(x):\n        return given[0](x)\n    return update_fn\n"
    )

    def program() -> None:
        for made in (package["adam"], package["sgd"], package["adam"]):
            jax.jit(package["chain"](made()))(X)
        jax.jit(package["chain"](package["adam"]()))(X)

    assert _causes(judge_all, program) == [ADDED, ADDED, Cause.FUNCTION_REDEFINED, ADDED]


def test_a_guard_of_one_function_does_not_count_the_other() -> None:
    first, second = jax.jit(_twice(actor)), jax.jit(_twice(critic))
    with retrace.assert_max_traces(second, 1), retrace.assert_max_traces(first, 2):
        first(X)
        first(X[:2])
        second(X)
    with pytest.raises(AssertionError), retrace.assert_max_traces(second, 1):
        [second(X[:size]) for size in (2, 3)]


def test_sites_of_closures_can_be_given_away(judge_all: JudgeAll) -> None:
    package = _library("def tanh(x): return x\n")

    def program() -> None:
        jax.jit(_twice(package["tanh"]))(X)
        jax.jit(_twice(actor))(X)

    found = [verdict.miss.function for verdict in _verdicts(judge_all, program)]
    whole = [function.site for function in found]
    assert all("/test_sites.py" in site for site in whole)
    given = [Redaction([]).site(function) for function in found]
    assert len(set(given)) == 2
    assert not any("/opt" in site or __file__ in site for site in given)
    assert given[0].endswith("site-packages/package/module.py:1 tanh")


def test_pmap_of_a_package_s_function_is_that_function(judge_all: JudgeAll) -> None:
    norm = _library("def norm(updates, scale=1.0): return updates * scale\n")["norm"]
    batch = X[None]

    def program() -> None:
        mapped = jax.pmap(norm)
        mapped(batch)
        mapped(batch[:, :2])
        jax.pmap(functools.partial(norm, scale=2.0), axis_name="data")(batch)
        jax.jit(norm)(batch)
        eqx.filter_pmap(norm)(batch[:, :3])

    found = [v for v in _verdicts(judge_all, program) if not v.miss.ahead]
    assert [v.cause for v in found] == [
        ADDED,
        Cause.SHAPE_CHANGED,
        Cause.JIT_OPTIONS_CHANGED,
        Cause.JIT_OPTIONS_CHANGED,
        Cause.SHAPE_CHANGED,
    ]
    assert [v.miss.function.name for v in found] == ["norm"] * 5
    assert [v.miss.function.kind for v in found] == [
        *(Kind.DEF, Kind.DEF, Kind.PARTIAL, Kind.DEF, Kind.DEF)
    ]
    assert {leaf.path for v in found for leaf in v.miss.key.leaves} == {"updates"}
    assert {c.path for v in found for c in v.changes if c.component == "options"} == {"axis_name"}
    assert not [name for v in found for name, value in v.miss.key.config if "0x" in value.text]


def test_pmap_of_a_function_of_jax_is_that_function(judge_all: JudgeAll) -> None:
    verdicts = judge_all(lambda: jax.pmap(jax.nn.softmax)(X[None]))[1]
    assert "softmax" in {verdict.miss.function.name for verdict in verdicts}
    assert {verdict.cause for verdict in verdicts} == {Cause.FIRST_TRACE}


def test_what_jax_makes_of_a_trace_is_the_function_s_that_was_traced(
    judge_all: JudgeAll,
) -> None:
    def loss(x: Any) -> Any:
        return jnp.sin(x).sum()

    def linear(x: Any) -> Any:
        return 2 * x

    def program() -> None:
        for _ in range(2):
            pullback = jax.jit(jax.vjp(loss, X)[1])
            pullback(1.0)
            pullback(1.0)
            jax.jit(jax.linearize(loss, X)[1])(X)
            jax.jit(jax.linear_transpose(linear, X))(X)
            jax.jit(jax.tree_util.Partial(loss))(X)

    found = _verdicts(judge_all, program)
    names = [verdict.miss.function.name for verdict in found]
    assert names == ["loss", "loss", "linear", "loss"] * 2
    again = [Cause.TRANSFORM_RECREATED] * 3 + [Cause.PARTIAL_RECREATED]
    assert [verdict.cause for verdict in found] == [ADDED] * 4 + again
    kinds = [Kind.TRANSFORM] * 3 + [Kind.PARTIAL]
    assert [verdict.miss.function.kind for verdict in found] == kinds * 2
    assert all(verdict.miss.function.file == __file__ for verdict in found)


def test_a_callable_instance_has_the_name_of_its_class(judge_all: JudgeAll) -> None:
    class Net:
        def __call__(self, x: Any) -> Any:
            return x

    def program() -> None:
        net = Net()
        jax.jit(net)(X)
        jax.jit(functools.partial(net))(X)
        jax.jit(jax.vmap(net))(X)

    names = {verdict.miss.function.name for verdict in _verdicts(judge_all, program)}
    assert names == {"Net"}


def _view(verdicts: list[Verdict]) -> View:
    return View(Recording([], [verdict.miss for verdict in verdicts]), verdicts)


def _first_traces(verdicts: list[Verdict]) -> int:
    return sum(row.first_traces for row in Tally.of(_view(verdicts)).functions.values())


def test_a_call_that_goes_on_with_a_trace_is_no_further_first_trace(judge_all: JudgeAll) -> None:
    def ahead(f: Any) -> Iterator[Callable[[], object]]:
        yield lambda: jax.eval_shape(f, X)
        yield lambda: f.trace(X)
        yield lambda: f.lower(X)
        yield lambda: f.lower(X).compile()
        yield lambda: jax.make_jaxpr(f)(X)
        yield lambda: jax.jit(f)(X)
        yield lambda: jax.eval_shape(f.__wrapped__, X)

    def make() -> Any:
        return jax.jit(lambda x: x * 2)

    for number in range(7):
        f: Any = make()

        def program(f: Any = f, number: int = number) -> None:
            list(ahead(f))[number]()
            f(X)

        found = _verdicts(judge_all, program)
        assert {v.cause for v in found} == {ADDED}, number
        assert _first_traces(found) == 1, number


def test_it_has_the_cause_of_the_miss_that_it_goes_on_with(judge_all: JudgeAll) -> None:
    @jax.jit
    def f(x: Any) -> Any:
        return x * 2

    @jax.jit
    def outer(x: Any) -> Any:
        return f(x) + 1

    def program() -> None:
        f(X)
        f.trace(X[:3])
        f(X[:2])
        f(X[:3])
        outer(X[:1])
        f(X[:1])
        f(jax.device_put(X[:1], jax.devices()[0]))

    found = [v for v in _verdicts(judge_all, program) if v.miss.function.name == "f"]
    assert [(v.cause, v.nearest and v.nearest.number) for v in found] == [
        (ADDED, None),
        (Cause.SHAPE_CHANGED, found[0].miss.number),
        (Cause.SHAPE_CHANGED, found[1].miss.number),
        (Cause.SHAPE_CHANGED, found[1].miss.number),
        (Cause.SHAPE_CHANGED, found[3].miss.number),
        (Cause.SHAPE_CHANGED, found[4].miss.number),
        (Cause.SHARDING_CHANGED, found[5].miss.number),
    ]
    assert [bool(v.changes) for v in found] == [False, True, True, False, True, False, True]


def test_the_function_inside_its_own_jit_is_no_further_first_trace(judge_all: JudgeAll) -> None:
    def one(x: Any) -> Any:
        return x + 1

    def program() -> None:
        jax.jit(jax.jit(one))(X)
        inner = jax.jit(lambda x: x - 1)
        inner(X)
        jax.jit(inner)(X)

    found = _verdicts(judge_all, program)
    assert {v.cause for v in found} == {ADDED}
    assert _first_traces(found) == 2
    nested = found[1].miss
    assert (nested.parent, list(nested.stages)) == (found[0].miss.id, ["trace"])


def test_what_raises_is_told_and_is_never_the_nearest(judge_all: JudgeAll) -> None:
    wanted = iter([True, True, False, False])

    @jax.jit
    def flaky(x: Any) -> Any:
        if next(wanted) or x.shape[0] == 3:
            raise RuntimeError
        return x

    def program() -> None:
        for size in (4, 4, 4, 3, 2):
            try:
                flaky(X[:size])
            except (RuntimeError, StopIteration):
                continue

    found = _verdicts(judge_all, program)
    assert [v.miss.raised for v in found] == [
        *("RuntimeError", "RuntimeError", None, "RuntimeError", "StopIteration")
    ]
    assert [v.cause for v in found] == [ADDED] * 3 + [Cause.SHAPE_CHANGED] * 2
    assert _first_traces(found) == 1
    assert [v.nearest and v.nearest.id for v in found[3:]] == [found[2].miss.id] * 2
    quiet = _view(found[:2])
    assert "RuntimeError" in terminal.report(quiet)
    assert "RuntimeError" in markdown.report(quiet)
    assert "RuntimeError" in "".join(page.report(quiet, Tally.of(quiet), [found[:2]]))
    assert report_json.report(quiet)["misses"][0]["raised"] == "RuntimeError"


def test_lowering_and_compilation_raise_too(judge_all: JudgeAll) -> None:
    unknown = Primitive("unknown")
    unknown.def_abstract_eval(lambda x: x)

    @jax.jit
    def lowered(x: Any) -> Any:
        return unknown.bind(x)

    compiled = jax.jit(lambda x: x, compiler_options={"no_such_option": True})

    def program() -> None:
        try:
            raise KeyError
        except KeyError:  # being handled, it is raised by no stage
            jax.jit(actor)(X)
            for f in (lowered, lowered, compiled):
                with pytest.raises((NotImplementedError, jax.errors.JaxRuntimeError)):
                    f(X)

    found = _verdicts(judge_all, program)
    raised = [v.miss.raised for v in found]
    assert raised[:3] == [None, "NotImplementedError", "NotImplementedError"]
    assert raised[3] is not None
    assert _first_traces(found) == 3


def test_pmap_raises_too(judge_all: JudgeAll) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError

    def program() -> None:
        with pytest.raises(RuntimeError):
            jax.pmap(broken)(X[None])

    (found,) = _verdicts(judge_all, program)
    assert (found.miss.raised, found.cause) == ("RuntimeError", ADDED)


def actor_of(x: Any, scale: Any = 1.0) -> Any:
    return x * scale


def _through_another(x: Any, function: Any) -> Any:
    return function(x)


class Rule(eqx.Module):
    rate: float

    def step(self, x: Any, scale: Any) -> Any:
        return x - self.rate * scale * x

    def converged(self, x: Any, scale: Any) -> Any:
        return (x * scale).sum() < self.rate


def test_methods_behind_partials_of_equinox_are_functions_of_their_own(
    judge_all: JudgeAll,
) -> None:
    def program() -> None:
        rule = Rule(0.5)
        step = eqx.filter_jit(eqx.Partial(rule.step, scale=2.0))
        converged = eqx.filter_jit(eqx.Partial(rule.converged, scale=2.0))
        for x in (X, X, jnp.concatenate([X, X])):
            step(x)
            converged(x)

    found = _verdicts(judge_all, program)
    assert [(one.miss.function.name, one.cause) for one in found] == [
        ("step", ADDED),
        ("converged", ADDED),
        ("step", Cause.SHAPE_CHANGED),
        ("converged", Cause.SHAPE_CHANGED),
    ]
    function = found[0].miss.function
    assert (function.kind, function.file) == (Kind.PARTIAL, __file__)
    assert [name for name, _ in function.bound] == ["scale"]


def test_another_value_in_a_partial_of_equinox_is_told(judge_all: JudgeAll) -> None:
    def program() -> None:
        for scale in (2.0, 3.0):
            eqx.filter_jit(eqx.Partial(actor_of, scale=scale))(X)

    _, again = _verdicts(judge_all, program)
    assert again.cause is Cause.PARTIAL_RECREATED
    assert "scale" in {one.path for one in again.changes if isinstance(one, HeldChange)}


def test_a_module_that_is_jitted_and_kept_is_one_function(judge_all: JudgeAll) -> None:
    """Equinox puts it together again at each call."""

    def program() -> None:
        again = eqx.filter_jit(actor_of)
        kept = (
            eqx.filter_jit(eqx.Partial(Rule(0.5).step, scale=jnp.ones(3))),
            eqx.filter_jit(eqx.Partial(_through_another, function=again)),
            eqx.filter_jit(Rule(0.5).converged),
        )
        for jitted in kept:
            for x in (np.ones(3, np.float32), np.ones((2, 3), np.float32)):
                jitted(x, *((1.0,) if jitted is kept[2] else ()))

    found = [one for one in _verdicts(judge_all, program) if one.miss.parent is None]
    assert [one.cause for one in found] == 3 * [ADDED, Cause.SHAPE_CHANGED]
    components = {one.component for again in found[1::2] for one in again.changes}
    assert components == {Component.SHAPE, Component.PROGRAM}


def test_a_number_that_became_an_array_is_to_be_one_at_every_call(judge_all: JudgeAll) -> None:
    for rates in ((0.5, jnp.asarray(0.25)), (jnp.asarray(0.5), 0.25)):

        def program(rates: tuple[Any, ...] = rates) -> None:
            @eqx.filter_jit
            def step(x: Any, rate: Any) -> Any:
                return x * rate

            for rate in rates:
                step(X, rate)

        verdict = _verdicts(judge_all, program)[-1]
        assert verdict.cause is Cause.STATIC_ARGUMENT_CHANGED
        assert isinstance(verdict.fix, ToArray)
        assert verdict.fix.paths == ("rate",) and verdict.fix.mixed
        (change,) = (one for one in verdict.changes if isinstance(one, NamedChange))
        assert "an array" in detail(change).split(" -> ")


def test_packages_in_a_folder_of_their_own_belong_to_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge_all: JudgeAll
) -> None:
    # As `pip install --target` leaves them; a module of the user's lies beside them.
    (tmp_path / "soft").mkdir()
    for name in ("soft/__init__.py", "ours.py"):
        (tmp_path / name).write_text("def plus(x): return x + 1\n")
    (tmp_path / "soft-1.0.dist-info").mkdir()
    record = '"soft/__init__.py",sha256=0,26\nsoft-1.0.dist-info/RECORD,,\n../../bin/soft,,\n'
    (tmp_path / "soft-1.0.dist-info" / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
    soft, ours = importlib.import_module("soft"), importlib.import_module("ours")

    def program() -> None:
        jax.jit(soft.plus)(X)
        jax.jit(ours.plus)(X)

    found = [miss.function.in_library for miss in judge_all(program)[0].misses]
    assert found == [True, False]


def test_a_function_whose_code_was_replaced_is_the_same_function(
    tmp_path: Path, judge_all: JudgeAll
) -> None:
    """As IPython's `%autoreload 2` does, for every function of a module that was edited."""

    def defined(lines: int, factor: int) -> Any:
        names: dict[str, Any] = {}
        text = "\n" * lines + f"def scaled(x): return x * {factor}\n"
        exec(compile(text, str(tmp_path / "edited.py"), "exec"), names)
        return names["scaled"]

    def program() -> None:
        scaled = defined(0, 2)
        jitted = jax.jit(scaled)
        jitted(X)
        scaled.__code__ = defined(4, 3).__code__
        jitted(X)  # a hit: JAX knows the function object
        jitted(np.ones(5, np.float32))
        jitted(np.ones(6, np.float32))

    shape = Cause.SHAPE_CHANGED
    first, second, third = _verdicts(judge_all, program)
    assert [first.cause, second.cause, third.cause] == [ADDED, shape, shape]
    assert Component.CODE in {change.component for change in second.changes}

"""What advice must not promise: followed, it raised, changed results, or saved nothing."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest
from flax.training.train_state import TrainState  # pyright: ignore[reportMissingTypeStubs]
from jax.scipy.optimize import minimize

from retrace.causes import Cause
from retrace.compare.programs import compare
from retrace.model.advice import FewSizes, JitAndPass, Library, ToArgument, ToArray
from retrace.plan.order import plan
from retrace.plan.step import Plan, Step
from retrace.present.plan_sizes import size_lines
from retrace.present.plan_words import sentence
from retrace.reason import program
from tests.recording.conftest import JudgeAll
from tests.recording.test_eager import library, module

Planned = Callable[[Callable[[], object]], Plan]


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


@pytest.fixture
def planned(judge_all: JudgeAll) -> Planned:
    return lambda program: plan(*judge_all(program))


def calls(found: Plan) -> list[Step]:
    """The steps about calls of jitted functions."""
    return [step for step in found.steps if not step.proposal.code.startswith("eager")]


@pytest.mark.parametrize(
    ("function", "sure"),
    [
        (lambda x, n: x * n, "clear"),
        (lambda x, n: jnp.clip(x, -n, n), "clear"),
        (lambda x, n: jax.nn.leaky_relu(x, n / 10), "clear"),
        (lambda x, n: jnp.where(jnp.arange(6) < n, x, 0), "clear"),
        (lambda x, n: x.at[n].set(0), "clear"),
        (lambda x, n: jnp.round(x, n), "ask"),
        (lambda x, n: jnp.triu(x, n), "ask"),
        (lambda x, n: x.at[n : n + 2].set(0), "ask"),
        pytest.param(
            lambda x, n: x * jnp.arange(n, n + 6),
            "ask",
            marks=pytest.mark.skipif(
                jax.__version_info__ < (0, 10), reason="this JAX computes it with NumPy"
            ),
        ),
    ],
    ids=("product", "clip", "slope", "rows", "index", "round", "triu", "window", "arange"),
)
def test_a_number_that_jax_takes_from_python_alone_is_asked_about(
    judge_all: JudgeAll, function: Callable[[Any, Any], Any], sure: str
) -> None:
    """As an array it raises an error: where it is static in a function of JAX, or a bound."""
    static = jax.jit(function, static_argnums=1)
    _, verdicts = judge_all(lambda: [static(ones(6, 6), n) for n in (1, 2, 3)])
    told = verdicts[-1].fix
    assert isinstance(told, ToArgument)
    assert told.sure == sure
    if sure == "clear":
        np.testing.assert_allclose(jax.jit(function)(ones(6, 6), 3), static(ones(6, 6), 3))
    else:
        with pytest.raises((TypeError, ValueError, IndexError)):
            jax.jit(function)(ones(6, 6), 3)


class Scale:
    """An object whose method reads a number of its own."""

    def __init__(self, number: int) -> None:
        self.number = number

    def loss(self, x: Any) -> Any:
        return (x * self.number).sum()


def test_methods_that_read_other_numbers_are_not_one_function(judge_all: JudgeAll) -> None:
    """One jitted method would keep the number of the first object for all of them."""

    def program() -> None:
        for size in (2, 3, 4, 5):
            jax.jit(Scale(size).loss)(ones(size))

    recording, verdicts = judge_all(program)
    told = verdicts[-1].fix
    assert told is not None
    assert (told.remade, told.reading, told.sure) == ("loss", ("self.number",), "ask")
    assert calls(plan(recording, verdicts)) == []


def test_a_mask_is_padded_with_false(planned: Planned) -> None:
    @jax.jit
    def loss(x: Any, mask: Any) -> Any:
        return jnp.sum(jnp.where(mask, x, 0)) / mask.sum()

    (step,) = calls(planned(lambda: [loss(ones(n), ones(n) > 0) for n in (20, 24, 29, 31)]))
    assert step.proposal.sizes is not None and step.proposal.sizes.masks == ("mask",)
    code = [line.strip() for line in size_lines(1, step, 80) if line.startswith("        ")]
    given: dict[str, Any] = {"np": np, "x": ones(20) > 0}
    exec("\n".join(code), given)
    assert given["x"].sum() == 20 < len(given["x"])
    given["x"] = ones(20)
    exec("\n".join(code), given)
    assert given["x"].all()


class Model(eqx.Module):
    """A layer with an activation that is created again, and a number."""

    weights: Any
    act: Callable[[Any], Any] = eqx.field(static=True)
    power: float = eqx.field(static=True)


def test_what_looks_as_before_is_not_why_a_program_differs(judge_all: JudgeAll) -> None:
    @jax.jit
    def loss(model: Model, x: Any) -> Any:
        return (model.act(x @ model.weights) * model.power).sum()

    def program() -> None:
        for power in (1.5, 2.5, 3.5):
            loss(Model(ones(4, 2), lambda x: jnp.tanh(x), power), ones(3, 4))

    told = judge_all(program)[1][-1].fix
    assert isinstance(told, ToArray)
    assert told.paths == ("model.power",)
    assert [path for path, _ in told.others] == ["model.act"]


def test_another_type_beside_a_number_decides_nothing(planned: Planned) -> None:
    """The rate became an array meanwhile: the programs differ for that, not for the number."""
    step = jax.jit(lambda x, rate, keep: x * rate * keep, static_argnames="keep")

    def program() -> None:
        rate: Any = 0.5
        for index, keep in enumerate((0.1, 0.2, 0.3, 0.4, 0.6)):
            step(ones(4), rate, keep=keep)
            if index == 2:
                rate = jnp.float32(rate)

    found = calls(planned(program))
    told = [one.proposal.advice for one in found]
    assert isinstance(told[0], ToArgument) and told[0].paths == ("keep",)
    assert sum(one.gone.calls.low for one in found) == 4


class Settings(eqx.Module):
    """Settings of a solver, which are part of the key."""

    rate: float


def test_other_settings_are_not_another_way_to_pass_them(planned: Planned) -> None:
    @eqx.filter_jit
    def solve(y: Any, settings: Settings | None = None) -> Any:
        return y * 2 if settings is None else jnp.tanh(y) * settings.rate

    def program() -> None:
        solve(ones(3))
        for rate in (0.1, 0.2, 0.3):
            solve(ones(3), Settings(rate))

    (step,) = calls(planned(program))
    assert [change.family for change in step.proposal.changes] == ["static"]
    assert step.gone.calls == (2, 2)


def test_settings_that_one_call_omits_are_others(planned: Planned) -> None:
    @eqx.filter_jit
    def solve(y: Any, settings: Settings | None = None) -> Any:
        return y * 2 if settings is None else jnp.tanh(y) * settings.rate

    found = planned(lambda: (solve(ones(3)), solve(ones(3), Settings(0.5))))
    assert calls(found) == []


def test_parameters_are_no_data_where_the_optimizer_is_another_too(planned: Planned) -> None:
    def step(state: Any, x: Any) -> Any:
        loss = jax.grad(
            lambda p: jnp.mean((jnp.tanh(x @ p["a"]["kernel"]) @ p["b"]["kernel"]) ** 2)
        )
        return state.apply_gradients(grads=loss(state.params))

    def program() -> None:
        run = jax.jit(step)
        for width in (4, 8, 16):
            parameters = {"a": {"kernel": ones(3, width)}, "b": {"kernel": ones(width, 1)}}
            run(
                TrainState.create(apply_fn=step, params=parameters, tx=optax.adam(0.1 / width)),
                ones(5, 3),
            )

    found = planned(program)
    assert all(one.proposal.sizes is None for one in calls(found))


def test_what_a_library_makes_of_a_function_is_made_inside(judge_all: JudgeAll) -> None:
    made = library("def kernel(density, rate):\n    return lambda x: density(x) * rate\n")

    def program() -> None:
        for number in (1.0, 2.0, 3.0):
            data = ones(3) * number

            def density(x: Any) -> Any:
                return (x * data).sum()

            jax.jit(made.kernel(density, number))(ones(3))

    told = [one.fix for one in judge_all(program)[1] if one.cause is not Cause.EAGER_OP][-1]
    assert isinstance(told, JitAndPass)
    assert (told.maker, told.sure) == ("kernel", "ask")


def test_a_function_given_to_a_library_of_modules_is_not_jitted_itself(planned: Planned) -> None:
    """It takes its parameters from the library, which refuses a jitted function."""
    lines = "\n".join(f"    x = {each}" for each in ARRAYS)
    made = library(
        "def transform(f):\n    def apply_fn(x): return f(x)\n    return apply_fn\n", "haiku"
    )
    own = module(
        f"def net(x):\n{lines}\n    return x\ndef main(apply, x):\n    return apply(x)\n"
    )
    found = planned(lambda: own.main(made.transform(own.net), ones(7)))
    (step,) = found.steps
    assert step.proposal.changes[0].family == "eager"
    assert (step.proposal.changes[0].functions, step.proposal.line) == ((), len(ARRAYS) + 4)


ARRAYS = (
    *("jnp.sin(x)", "jnp.cos(x)", "jnp.exp(x)", "jnp.tanh(x)", "jnp.cumsum(x)", "jnp.sort(x)"),
    *("jnp.abs(x)", "jnp.log1p(x)", "jnp.sqrt(x)", "jnp.floor(x)", "jnp.flip(x)", "-x", "x / 2"),
)


def test_numpy_is_no_way_out_of_a_loop(planned: Planned) -> None:
    """Its body reads the array, which NumPy cannot index with a traced number."""
    own = module("""
def filtered(y):
    def body(total, t):
        return total * 0.9 + y[t], total
    return jax.lax.scan(body, 0.0, jnp.arange(len(y)))[0]
def grow(y):
    for size in range(5, 12):
        filtered(y[:size])
""")
    found = planned(lambda: own.grow(jnp.asarray(ones(20))))
    sized = [one for one in found.steps if one.proposal.changes[0].family == "eager-sizes"]
    assert sized
    for step in sized:
        assert "NumPy" not in sentence(step.proposal)
        assert step.sure == "ask"


def test_one_call_that_compiles_long_is_pointed_out(judge_all: JudgeAll) -> None:
    from retrace.present.plan_text import slowest
    from retrace.present.view import View

    def told(seconds: float) -> str:
        recording, verdicts = judge_all(lambda: jax.jit(lambda x: x * seconds)(ones(3)))
        miss = verdicts[-1].miss
        miss.stages = dict.fromkeys(miss.stages, seconds)
        return " ".join(slowest(View(recording, verdicts), 80))

    assert told(0.1) == ""
    assert "retrace slow" in told(9.0)


def test_what_a_line_joins_in_ever_other_numbers_is_not_told_to_be_jitted(
    judge_all: JudgeAll,
) -> None:
    """One jitted function would compile for each number of arrays as well."""
    own = module("""
def stacked(arrays):
    return jnp.stack(arrays)
def roll():
    for length in range(3, 9):
        stacked([jnp.zeros(4)] * length), stacked([jnp.zeros(())] * length)
""")
    verdicts = judge_all(own.roll)[1]
    told = [one.fix for one in verdicts if one.miss.function.jax_name in ("stack", "concatenate")]
    assert sum(isinstance(one, FewSizes) and one.joined for one in told) >= 4


def test_arrays_in_place_of_each_other_are_not_padded_together(planned: Planned) -> None:
    @jax.jit
    def predict(data: Any) -> Any:
        return jnp.tanh(data[0] if isinstance(data, tuple) else data)

    def program() -> None:
        for size in (1, 2, 3, 5, 8, 13):
            predict(ones(size))
            predict((ones(size),))

    assert all(step.proposal.pairs is None for step in planned(program).steps)


def test_a_method_that_a_library_jits_again_is_not_one_of_a_new_object(
    judge_all: JudgeAll,
) -> None:
    made = library("""
class Model:
    def step(self, x):
        return x * 2
    def compile(self):
        self.run = jax.jit(self.step)
    def fit(self, x):
        self.run(x)
""")

    def program() -> None:
        model = made.Model()
        for _ in range(3):
            model.compile()
            model.fit(ones(3))

    told = judge_all(program)[1][-1].fix
    assert isinstance(told, Library)
    assert told.rejits and not told.holder


def test_a_loop_over_a_function_that_is_new_at_each_call_is_not_jitted_once_for_it(
    planned: Planned,
) -> None:
    own = module("""
def search(f, x):
    df = jax.grad(f)
    return jax.lax.while_loop(lambda s: abs(f(s)) > 1e-3, lambda s: s - f(s) / df(s), x)
def run():
    global number
    for number in (2.0, 3.0, 5.0, 7.0):
        search(lambda x: x**2 - number, 9.0)
""")
    found = planned(own.run)
    assert not any(one.proposal.changes[0].family == "bodies" for one in found.steps)


def test_sizes_are_judged_without_comparing_every_program(
    judge_all: JudgeAll, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report of a thousand misses took twice as long when a rule asked for all of them."""
    compared: list[object] = []

    def counted(*given: Any) -> Any:
        compared.append(given)
        return compare(*given)

    monkeypatch.setattr(program, "compare", counted)
    f = jax.jit(lambda x: (x * 2).sum())
    verdicts = judge_all(lambda: [f(ones(size)) for size in range(3, 23)])[1]
    assert len(verdicts) == 20
    assert len(compared) <= 5


def test_one_size_does_not_serve_a_loop_whose_body_is_new(judge_all: JudgeAll) -> None:
    def loss(theta: Any, x: Any, mask: Any) -> Any:
        return jnp.sum(jnp.where(mask, (jnp.tanh(x * theta[0]) * theta[1] - x) ** 2, 0))

    def program(*, padded: bool) -> None:
        theta = jnp.ones(2)
        for size in (5, 6, 7, 8):
            x, mask = ones(9 if padded else size), np.arange(9 if padded else size) < size
            theta = minimize(
                lambda theta: loss(theta, x, mask),
                theta,
                method="BFGS",
                options={"maxiter": 2},
            ).x

    recording, verdicts = judge_all(lambda: program(padded=False))
    (sizes, *_) = plan(recording, verdicts).steps
    assert sizes.proposal.code == "eager-sizes"
    first, *loops = [one.miss.id for one in verdicts if one.miss.bodies]
    assert len(loops) == 3 and first not in loops
    assert not {*loops} & {*sizes.misses}
    _, both = judge_all(lambda: program(padded=True))
    assert any(one.miss.bodies for one in both[len(verdicts) :])

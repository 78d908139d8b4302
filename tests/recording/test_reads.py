"""What a function reads from outside, and what is said of it when its program changed."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.capture.function_reads import Reads
from retrace.capture.tokens import Tokens
from retrace.causes import Cause
from retrace.present.advice import advised
from retrace.present.detail import detail
from retrace.present.report_json import miss_report
from retrace.present.view import View
from tests.recording.conftest import JudgeAll

ones = np.ones(3, np.float32)


class Settings:
    """As a program keeps them: a number in an object that nobody passes on."""

    limit = 3
    __slots__ = ("__dict__", "scale")

    def __init__(self) -> None:
        self.scale = 2.0
        self.table: dict[str, object] = {"rate": 0.1}

    @property
    def dangerous(self) -> float:
        raise AssertionError

    def __getattr__(self, name: str) -> object:
        raise AssertionError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    def __hash__(self) -> int:
        raise AssertionError

    def scaled(self, x: Any) -> Any:
        return x * self.scale


temperature = 1.0
settings = Settings()
flag = False
layers = 2
weights = jnp.arange(3.0)
table = np.arange(3.0, dtype=np.float32)
activation: Any = jnp.tanh
module = types.ModuleType("settings_of_a_test")
module.__file__ = __file__
module.__dict__["rate"] = 0.1
runs = 0


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    kept = dict(globals())
    yield
    globals().update(kept)
    settings.__init__()
    module.__dict__["rate"] = 0.1


def helper(x: Any) -> Any:
    return x * temperature


@jax.jit
def jitted_helper(x: Any) -> Any:
    return helper(x)


def set_global(name: str, value: object) -> Callable[[], None]:
    return lambda: globals().__setitem__(name, value)


def divided(x: Any) -> Any:
    return x / temperature


def branch(x: Any) -> Any:
    return jnp.sin(x) if flag else jnp.cos(x)


def unrolled(x: Any) -> Any:
    for _ in range(layers):
        x = jnp.sin(x)
    return x


def through_helpers(x: Any) -> Any:
    return jitted_helper(x) + sum([helper(x) for _ in range(2)])


def of_object(x: Any) -> Any:
    return x * settings.scale + settings.limit


def of_method(x: Any) -> Any:
    return settings.scaled(x)


def of_item(x: Any) -> Any:
    return x * settings.table["rate"]


def of_module(x: Any) -> Any:
    return x * module.rate


def of_numpy(x: Any) -> Any:
    return x + table


def of_function(x: Any) -> Any:
    return activation(x)


def counts(x: Any) -> Any:
    global runs
    runs += 1
    return x * temperature


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[], object], str, str]] = {
    "a number": (divided, set_global("temperature", 0.5), "temperature", "1.0 -> 0.5"),
    "a flag": (branch, set_global("flag", True), "flag", "False -> True"),
    "a depth": (unrolled, set_global("layers", 4), "layers", "2 -> 4"),
    "a helper's": (
        through_helpers,
        set_global("temperature", 0.5),
        "temperature",
        "1.0 -> 0.5",
    ),
    "a slot": (
        of_object,
        lambda: setattr(settings, "scale", 4.0),
        "settings.scale",
        "2.0 -> 4.0",
    ),
    "a method's": (
        of_method,
        lambda: setattr(settings, "scale", 4.0),
        "settings.scale",
        "2.0 -> 4.0",
    ),
    "an item": (
        of_item,
        lambda: settings.table.update(rate=0.2),
        "settings.table['rate']",
        "0.1 -> 0.2",
    ),
    "a module's": (
        of_module,
        lambda: module.__dict__.update(rate=0.2),
        "module.rate",
        "0.1 -> 0.2",
    ),
    "an array": (
        of_numpy,
        lambda: table.__setitem__(0, 9.0),
        "table",
        ": float32[3]",
    ),
    "a function": (of_function, set_global("activation", jnp.sin), "activation", ""),
    "its own counter": (counts, set_global("temperature", 0.5), "temperature", "1.0 -> 0.5"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_read_and_changed_is_named(name: str, judge_all: JudgeAll) -> None:
    function, change, path, said = CASES[name]
    jitted = jax.jit(function)

    def program() -> None:
        jitted(ones)
        change()
        jax.clear_caches()
        jitted(ones)

    recording, verdicts = judge_all(program)
    last = next(v for v in reversed(verdicts) if v.miss.function.name == function.__name__)
    assert last.cause is Cause.JAXPR_CHANGED
    first = last.reads[0]
    assert first.path == path
    assert detail(first).endswith(said)
    assert last.fix is not None and f"`{path}`" in advised(last.fix)
    assert ("static" in advised(last.fix)) == (last.program_change != "constants-only")
    fields = miss_report(View(recording, verdicts, ""), last)
    assert fields["reads"][0]["path"] == path
    assert f"`{path}`" in fields["explanation"]
    # Evidence, and no part of the key.
    assert all(change["path"] != path for change in fields["changes"])
    assert last.nearest is not None and last.nearest.key == last.miss.key


def test_attributes_of_the_receiver(judge_all: JudgeAll) -> None:
    class Model:
        def __init__(self) -> None:
            self.rate = 0.1

        def __call__(self, x: Any) -> Any:
            return jax.lax.map(lambda y: y * self.rate, self.inner(x))

        def inner(self, x: Any) -> Any:
            return x + self.rate

    model = Model()
    method, instance = jax.jit(model.inner), jax.jit(model)

    def program() -> None:
        for rate in (0.1, 0.2):
            model.rate = rate
            jax.clear_caches()
            method(ones)
            instance(ones)

    _, verdicts = judge_all(program)
    changed = [v for v in verdicts if v.cause is Cause.JAXPR_CHANGED]
    assert [[(c.path, detail(c)) for c in v.reads] for v in changed] == [
        [("self.rate", "0.1 -> 0.2")]
    ] * 2


def test_a_cell_that_changed_is_among_the_changes(judge_all: JudgeAll) -> None:
    rate = 0.1

    @jax.jit
    def decay(x: Any) -> Any:
        return x * rate

    def program() -> None:
        nonlocal rate
        decay(ones)
        rate = 0.2
        jax.clear_caches()
        decay(ones)

    _, verdicts = judge_all(program)
    last = verdicts[-1]
    assert last.cause is Cause.JAXPR_CHANGED
    assert [c.path for c in last.changes if c.component.value == "closure"] == ["rate"]
    assert last.reads == ()
    assert last.fix is not None and advised(last.fix) == "pass `rate` to `decay` as an argument."


def test_a_clock_is_not_named(judge_all: JudgeAll) -> None:
    @jax.jit
    def clock(x: Any) -> Any:
        return x * time.perf_counter()

    _, verdicts = judge_all(lambda: [clock(ones), jax.clear_caches(), clock(ones)])
    assert verdicts[-1].cause is Cause.JAXPR_CHANGED
    assert verdicts[-1].reads == ()


def test_what_is_read_tells_why_a_function_made_again_differs(judge_all: JudgeAll) -> None:
    def program() -> None:
        for value in (1.0, 0.5):
            globals()["temperature"] = value
            jax.jit(lambda x: x * temperature)(ones)

    _, verdicts = judge_all(program)
    assert verdicts[-1].cause is Cause.LAMBDA_RECREATED
    assert [c.path for c in verdicts[-1].reads] == ["temperature"]


def test_what_did_not_change_is_not_told(judge_all: JudgeAll) -> None:
    def program() -> None:
        jitted = jax.jit(divided)
        jitted(ones)
        globals()["runs"] = 7  # not read
        jax.clear_caches()
        jitted(ones)

    _, verdicts = judge_all(program)
    assert verdicts[-1].cause is Cause.CACHE_CLEARED
    assert verdicts[-1].reads == ()


def reads_of(function: Any, *receivers: Any) -> dict[str, Any]:
    return {name: v.text for name, v in Reads(Tokens().number).of(function, *receivers)}


def test_nothing_of_the_users_runs() -> None:
    def reader(x: Any) -> Any:
        return x * settings.dangerous + settings.missing

    assert reads_of(reader)["settings"].startswith("Settings(")
    assert reads_of(of_method) == {"settings.scale": "2.0"}


class Proxy:
    __slots__ = ("inner",)

    @property
    def __dict__(self) -> dict[str, object]:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise AssertionError


class Foreign:
    number: Any = vars(Proxy)["inner"]  # a slot of another class


proxy, foreign = Proxy(), Foreign()


def test_odd_attributes_are_left_alone() -> None:
    def reader(x: Any) -> Any:
        return x * proxy.rate * foreign.number  # pyright: ignore[reportAttributeAccessIssue]

    assert reads_of(reader).keys() == {"proxy", "foreign"}


def test_an_attribute_is_told_in_a_function_of_many_names() -> None:
    names: dict[str, Any] = {"settings": settings}
    lines = [f"    name{index}" for index in range(300)]
    source = "\n".join(["def many(x):", *lines, "    return x * settings.scale"])
    exec(compile(source, __file__, "exec"), names)
    assert reads_of(names["many"])["settings.scale"] == "2.0"


def test_of_what_is_no_constant_none_is_named(judge_all: JudgeAll) -> None:
    @jax.jit
    def clock(x: Any) -> Any:
        globals()["runs"] += 1
        return x * time.perf_counter() + (runs - runs)

    _, verdicts = judge_all(lambda: [clock(ones), jax.clear_caches(), clock(ones)])
    fix = verdicts[-1].fix
    assert [change.path for change in verdicts[-1].reads] == ["runs"]
    assert fix is not None and "`runs`" not in advised(fix)


def test_it_is_bounded() -> None:
    names = {f"name{index}": index for index in range(500)}
    names["large"] = list(range(100_000))  # pyright: ignore[reportArgumentType]
    source = f"def many(x): return x + large[0] + len(large) + {' + '.join(names)}"
    exec(compile(source, __file__, "exec"), names)
    found = Reads(Tokens().number).of(names["many"])  # pyright: ignore[reportArgumentType]
    assert len(found) == 32
    assert sum(len(value.text) for _, value in found) < 2000


def test_a_function_that_calls_itself_ends() -> None:
    assert reads_of(_recursive) == {"temperature": "1.0"}


def _recursive(x: Any) -> Any:
    return _recursive(x) * temperature


def test_libraries_are_not_looked_into() -> None:
    assert reads_of(lambda x: jnp.sin(x) * np.pi) == {}
    assert reads_of(jnp.zeros_like) == {}

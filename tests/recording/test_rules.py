"""Programs with custom rules go in; whether the rules hold the same comes out."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrace.model import Recording, Verdict
from retrace.reason.verdict import judge
from retrace.store.redaction import Redaction
from tests.recording.conftest import JudgeAll

Make = Callable[[Any], Callable[..., Any]]


def _vjp(backward: Callable[..., Any]) -> Callable[..., Any]:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), backward)
    return f


def _closure(k: Any) -> Callable[..., Any]:
    return _vjp(lambda _, g: (g * k,))


def _forward(k: Any) -> Callable[..., Any]:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x * k), lambda r, g: (g * r,))
    return f


def _jvp(k: Any) -> Callable[..., Any]:
    @jax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defjvp(lambda g, answer, x: g * k)
    return f


def _not_differentiated(k: Any) -> Callable[..., Any]:
    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def f(x: Any, n: Any) -> Any:
        return jnp.sin(x)

    f.defvjp(lambda x, n: (f(x, n), x), lambda n, r, g: (g * n,))
    return lambda x: f(x, k)


def _default(k: Any) -> Callable[..., Any]:
    return _vjp(lambda _, g, k=k: (g * k,))


def _partial(k: Any) -> Callable[..., Any]:
    return _vjp(functools.partial(lambda _, g, k: (g * k,), k=k))


class Scaled:
    def __init__(self, k: Any) -> None:
        self.k = k

    def backward(self, _: Any, g: Any) -> Any:
        return (g * self.k,)


def _method(k: Any) -> Callable[..., Any]:
    return _vjp(Scaled(k).backward)


def _helper(k: Any) -> Callable[..., Any]:
    helper = jax.jit(lambda g: g * k)
    return _vjp(lambda _, g: (helper(g),))


def _code(k: Any) -> Callable[..., Any]:
    return _vjp((lambda _, g: (g * 2,)) if k == 2 else (lambda _, g: (g * 3,)))


def _array(k: Any) -> Callable[..., Any]:
    return _closure(np.full(3, k, np.float32))


def _config(k: Any) -> Callable[..., Any]:
    return _closure({"scale": (k, "x")}["scale"][0])


def _ring(k: Any) -> Callable[..., Any]:
    def one(g: Any, again: bool = False) -> Any:
        return other(g) if again else g * k

    def other(g: Any) -> Any:
        return one(g)

    return _vjp(lambda _, g: (other(g),))


TOLD: tuple[Make, ...] = (
    *(_closure, _forward, _jvp, _not_differentiated, _default, _partial, _method, _helper),
    *(_code, _array, _config, _ring),
)


class Opaque:
    """Nothing of it is plain, but for its identity."""

    def __init__(self, k: Any) -> None:
        self.k = k
        self.lock = object()


def _opaque(k: Any) -> Callable[..., Any]:
    held = Opaque(k)
    return _vjp(lambda _, g: (g * held.k,))


def _on_device(k: Any) -> Callable[..., Any]:
    held = jnp.full(3, k)
    return _vjp(lambda _, g: (g * held,))


UNTOLD: tuple[Make, ...] = (_opaque, _on_device)


def _each(makers: tuple[Make, ...], *constants: int) -> Callable[[], object]:
    def program() -> None:
        for make in makers:
            for k in constants:
                f = make(k)
                jax.jit(lambda x, f=f: f(x))(np.ones(3, np.float32))

    return program


def _pairs(found: tuple[Recording, list[Verdict]]) -> list[tuple[Verdict, Verdict]]:
    own = [one for one in found[1] if one.miss.function.kind != "op"]
    return list(zip(own[::2], own[1::2], strict=True))


def _hashes(pair: tuple[Verdict, Verdict]) -> set[str]:
    return {one.miss.program.hash for one in pair if one.miss.program is not None}


def test_a_rule_that_holds_another_constant_makes_another_program(judge_all: JudgeAll) -> None:
    found = judge_all(_each(TOLD, 2, 3))
    pairs = _pairs(found)
    for make, pair in zip(TOLD, pairs, strict=True):
        assert len(_hashes(pair)) == 2, make
        assert pair[1].program_change == "different", make
        assert pair[1].avoidable == "maybe", make
    hidden = judge(Redaction([]).recording(found[0]))
    for make, pair in zip(TOLD, _pairs((found[0], hidden)), strict=True):
        assert pair[1].program_change == "different", make


def test_a_rule_that_holds_the_same_makes_the_same_program(judge_all: JudgeAll) -> None:
    makers = (*TOLD, lambda _: jax.nn.relu, lambda _: jax.nn.logsumexp)
    for make, pair in zip(makers, _pairs(judge_all(_each(makers, 2, 2))), strict=True):
        assert len(_hashes(pair)) == 1, make
        assert pair[1].program_change == "identical", make
        assert pair[1].avoidable == "yes", make


def test_what_a_rule_holds_and_cannot_be_told_is_not_called_the_same(judge_all: JudgeAll) -> None:
    for make, pair in zip(UNTOLD, _pairs(judge_all(_each(UNTOLD, 2, 3))), strict=True):
        assert pair[1].program_change != "identical", make
        assert pair[1].avoidable == "maybe", make


def test_differentiating_in_between_changes_no_program(judge_all: JudgeAll) -> None:
    def program() -> None:
        f = _closure(2)
        for _ in range(2):
            jax.jit(lambda x: f(x).sum())(np.ones(3, np.float32))
            jax.grad(lambda x: f(x).sum())(np.ones(3, np.float32))

    named = [one for one in judge_all(program)[1] if one.miss.function.name == "<lambda>"]
    assert len({one.miss.program.hash for one in named if one.miss.program is not None}) == 1


def test_no_code_of_the_program_runs(judge_all: JudgeAll) -> None:
    class Evil:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

        def __repr__(self) -> str:
            raise AssertionError("repr")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("eq")

        __hash__ = None  # pyright: ignore[reportAssignmentType]

    evil = Evil()
    recording, _ = judge_all(lambda: jax.jit(_vjp(lambda _, g: (g, evil)[:1]))(1.0))
    assert [one for one in recording.misses if one.program is None] == []


def test_a_constant_that_a_rule_holds_as_well_may_be_passed(judge_all: JudgeAll) -> None:
    @functools.partial(jax.jit, static_argnames=("scale", "slope"))
    def step(x: Any, scale: float, slope: float) -> Any:
        @jax.custom_jvp
        def wave(x: Any) -> Any:
            return jnp.sin(x * scale)

        wave.defjvps(lambda g, answer, x: g * slope * scale)
        return wave(x)

    def program() -> None:
        x = np.ones(3, np.float32)
        step(x, scale=2.0, slope=1.0)
        step(x, scale=3.0, slope=1.0)
        step(x, scale=3.0, slope=4.0)

    _, verdicts = judge_all(program)
    told = [
        (v.program_change, v.avoidable, v.fix and (v.fix.code, v.fix.paths))
        for v in verdicts
        if v.miss.function.name == "step" and v.cause != "first-trace"
    ]
    assert told[0] == ("constants-only", "maybe", ("static-to-dynamic", ("scale",)))
    # Nothing but the rule differs, and what the rule does with it is not known.
    assert told[1][:2] == ("different", "no")

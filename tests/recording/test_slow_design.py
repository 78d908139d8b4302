"""What is dear by the way a program is written, told from the program alone, and followed."""

from __future__ import annotations

import ast
import gc
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrace.capture.programs import transcript
from retrace.compare.size import unrolled
from retrace.costs.account import Account
from retrace.costs.heavy import heavy
from retrace.costs.independent import WAYS, way
from retrace.costs.nested import nest
from retrace.costs.repeated import repeated
from retrace.model import Listing, Recording
from retrace.model.slow import Compiling, Kernel, Part, Pass
from retrace.present.slow_design import heavy as heavy_told
from retrace.present.view import View
from tests.recording.own_stack import seen_here
from tests.recording.test_slow import sampled
from tests.recording.test_slow_lines import Of, of

__all__ = ["of"]
HERE = __file__


def line_of(mark: str) -> int:
    lines = Path(HERE).read_text(encoding="utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))


def program(function: Callable[..., Any], *args: Any) -> tuple[Listing, dict[str, Listing]]:
    found = transcript(jax.make_jaxpr(function)(*args))
    listings = {one.id: one for one in found.listings}
    return listings[found.program.listing or ""], listings


class Calls:
    """A program that calls one function several times, from lines of their own."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.times = draw.randrange(3, 7)
        self.rounds = draw.randrange(6, 14)
        self.gradient = draw.random() < 0.5
        self.ran = 0

    def block(self, x: Any, weight: Any) -> Any:  # block
        self.ran += 1
        for number in range(self.rounds):
            x = jnp.tanh(x @ weight) + jnp.cumsum(x, axis=0) * number
        return x

    def function(self, block: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def calls(x: Any, weight: Any) -> Any:
            x = block(x, weight) + 1
            x = jnp.sort(block(x, weight), axis=0)
            x = jnp.flip(block(x, weight))
            if self.times > 3:
                x = block(x, weight) / 2
            if self.times > 4:
                x = block(x.T, weight) - x
            if self.times > 5:
                x = block(x, weight) * x
            return x.sum()

        return jax.grad(calls) if self.gradient else calls


@pytest.mark.drawn
@pytest.mark.parametrize("seed", range(8))
def test_a_function_that_is_traced_again_and_again_is_traced_once_when_jitted(seed: int) -> None:
    one = Calls(seed)
    given = np.random.RandomState(seed).rand(4, 4).astype(np.float32), np.eye(4, dtype=np.float32)
    plain = one.function(one.block)
    (told, *_) = repeated(*program(plain, *given))
    assert (told.frame.file, told.frame.line) == (HERE, line_of("block"))
    assert told.times == one.ran == one.times
    # As it is advised: the function is jitted, and its callers stay as they are.
    before, one.ran = jax.jit(plain)(*given), 0
    jitted = one.function(jax.jit(one.block))
    after = jax.jit(jitted)(*given)
    assert one.ran == 1
    np.testing.assert_allclose(before, after, rtol=1e-4)
    assert repeated(*program(jitted, *given)) == []


def test_calls_that_differ_are_none_that_are_alike() -> None:
    def scaled(x: Any, by: float) -> Any:
        for _ in range(12):
            x = jnp.sin(x) * by
        return x

    def program_of(x: Any) -> Any:
        return scaled(scaled(scaled(x, 2.0) + 1, 3.0) + 1, 4.0)

    assert repeated(*program(program_of, np.ones(3))) == []


def varied(x: Any) -> Any:
    draw = random.Random(0)
    for _ in range(250):
        x = draw.choice((jnp.sin, jnp.cos, jnp.tanh, jnp.cumsum, jnp.sort, jnp.flip))(x)
    return x


@sampled
def test_to_jit_is_advised_where_tracing_is_what_takes_long(of: Of) -> None:
    def calls(x: Any) -> Any:
        x = varied(x) + 1
        x = varied(x * 2)
        x = varied(x) - x
        return varied(x).sum()

    found = of(lambda: jax.jit(calls).lower(np.ones(4)), "calls")
    advice = next(one for one in found.advice if one.code == "jit")
    assert advice.times == 4 and not any(one.code == "scan" for one in found.advice)
    assert advice.before == 4 * advice.after
    assert advice.seconds == pytest.approx(found.miss.seconds * 3 / 4, rel=0.1)


def deep(levels: int, x: Any) -> Any:
    if not levels:
        return jax.lax.sort((x, x * 2, x * 3), num_keys=3)[0]  # sorts
    below = [lambda x, n=n: deep(levels - 1, x * n) for n in range(2)]
    return jax.lax.switch(x.sum().astype(int), below, x)  # switches


@pytest.mark.parametrize("levels", [3, 4, 6])
def test_branches_inside_branches(levels: int) -> None:
    found = nest(*program(lambda x: jax.jit(deep, static_argnums=0)(levels, x), np.ones(3)))
    if levels < 4:
        assert found is None
        return
    assert found is not None and found.frame is not None
    assert (found.primitive, found.depth, found.frame.line) == (
        "cond",
        levels,
        line_of("switches"),
    )
    assert found.equations >= 2**levels


def test_operations_that_are_slow_to_compile() -> None:
    (first, *_) = heavy(*program(lambda x: deep(5, x), np.ones(3)))
    assert first.frame is not None and first.frame.line == line_of("sorts")
    assert (first.primitive, first.number, first.arrays) == ("sort", 2**5, 3)


def test_what_a_vmap_made_huge_is_told_with_its_size(of: Of) -> None:
    def ranks(x: Any) -> Any:
        return jax.vmap(jnp.sort)(x).sum()  # ranks

    given = jax.ShapeDtypeStruct((100_000, 64), np.float32)
    account = of(lambda: jax.jit(ranks).lower(given), "ranks")
    (row,) = account.heavy
    assert (row.largest, row.bytes) == ("f32[100000,64]", 100_000 * 64 * 4)
    assert row.frame is not None and row.frame.line == line_of("ranks")
    view = View(Recording([], [account.miss]), [])
    code = Pass("JitCompiler::Compile", 1.0, 1, "code")
    kernel = Kernel(HERE, line_of("ranks"), "ranks", 1, 1, 0.5)
    known = account._replace(compiling=Compiling((code,), (kernel,)))
    for one in (account, known):  # also where the seconds of its line are known
        (said,) = heavy_told(view, one)
        assert "sort (1, up to f32[100000,64], 26 MB) at" in said
    small = known._replace(heavy=(row._replace(largest="f32[64]"),))
    assert list(heavy_told(view, small)) == []


def test_what_is_done_for_the_whole_is_told_on_the_line_of_nearly_all(of: Of) -> None:
    def small(x: Any) -> Any:
        return x + 1

    passes = (
        Pass("CpuCompiler::CompileCpuExecutable", 6.0, 1, "other"),
        Pass("JitCompiler::Compile", 2.0, 1, "code"),
        Pass("fusion", 3.0, 1, "pass"),
    )
    many, few = Kernel("a.py", 1, "f", 900, 900, 0.5), Kernel("a.py", 2, "f", 100, 10, 1.5)

    account = of(lambda: jax.jit(small).lower(1.0), "small")

    def told(*kernels: Kernel) -> Account:
        own = frozenset((one.file, one.line) for one in kernels)
        return account._replace(compiling=Compiling(passes, kernels), own=own)

    one = told(few, many)
    assert one.rest == 6.0 and sum(step.seconds for step in one.code) == 2.0
    assert [(line.line, line.seconds) for line in one.lines] == [(1, 0.5 + 0.9 * 9), (2, 1.5)]
    # JAX 0.8 knows the function of a line of another program as well.
    assert not one.foreign
    assert one._replace(own=frozenset((("a.py", 1),))).foreign == [few]
    # Where it is nobody's, it is on no line.
    one = told(few._replace(instructions=400), many)
    assert one.whole is None and sum(line.seconds for line in one.lines) == 2.0


@sampled
def test_functions_of_jax_that_another_program_called_first(of: Of) -> None:
    def calls_first(x: Any) -> Any:
        return jnp.cumsum(jnp.sort(jnp.linalg.det(x.reshape(5, 5)) * x))

    def calls(x: Any) -> Any:
        y = jnp.linalg.det(x.reshape(5, 5)) * x  # called
        for _ in range(40):
            y = jnp.sort(jnp.sin(y))  # called
        return y

    jax.jit(calls_first).lower(np.ones(25)).compile()
    found = of(lambda: jax.jit(calls)(np.ones(25)), "calls")
    lines = Path(HERE).read_text(encoding="utf-8").splitlines()
    assert found.lines
    assert all(lines[one.line - 1].endswith("# called") for one in found.lines)
    assert bool(found.foreign) is (jax.__version_info__ < (0, 9))


def test_garbage_that_is_collected_in_a_trace_is_told_as_that() -> None:
    seen: list[Any] = []

    def told(phase: str, info: dict[str, int]) -> None:
        seen.append(seen_here())

    def collects(x: Any) -> Any:
        gc.collect()  # collects
        return x

    gc.callbacks.append(told)
    try:
        jax.jit(collects).trace(np.float32(1))
    finally:
        gc.callbacks.remove(told)
    inside = [one for one in seen if one is not None and one[0]]
    assert [(one[0][0][1], one[1]) for one in inside] == 2 * [
        (line_of("collects"), Part.COLLECTION)
    ]


class Loop(NamedTuple):
    """A function with a Python loop, and the same as it is advised to be written."""

    source: str
    code: str
    rounds: int


def loop(seed: int) -> Loop:
    draw = random.Random(seed)
    value = "jnp.sin(x[i])"
    for _ in range(draw.randrange(1, 5)):
        operand = draw.choice(("x[i + 1]", "y[i]", "x[i] * 2.5", "y.sum()"))
        value = draw.choice((f"jnp.tanh({value} + {operand})", f"({value}) * {operand}"))
    code = draw.choice(("vmap", "set", "add"))
    n, m = draw.randrange(9, 14), draw.randrange(9, 14)
    if code == "vmap":
        number = n * m
        body = f"    return jnp.stack([{value} for i in range({number})])\n"
        return Loop(f"def loops(x, y):\n{body}", code, number)
    two = draw.random() < 0.5
    shape, index = (f"({n}, {m})", "i, j") if two else (f"({n * m},)", "i")
    if two:
        value = f"{value} + x[j]"
    if code == "add":
        index = "0, j" if two else f"i % {m}"
    lines = [
        "def loops(x, y):",
        f"    out = jnp.zeros({shape})",
        f"    for i in range({n if two else n * m}):",
        *([f"        for j in range({m}):"] if two else []),
        f"{' ' * (12 if two else 8)}out = out.at[{index}].{code}({value})",
        "    return out",
    ]
    return Loop("\n".join(lines) + "\n", code, n * m)


class Vectorised(ast.NodeTransformer):
    """What is advised, done to a source."""

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        loops, inner = [node], node.body[0]
        while isinstance(inner, ast.For):
            loops.append(inner)
            inner = inner.body[0]
        store = cast(ast.Call, cast(ast.Assign, inner).value)
        method = cast(ast.Attribute, store.func)
        at = cast(ast.Subscript, method.value)
        names = ", ".join(ast.unparse(one.target) for one in loops)
        sizes = ", ".join(ast.unparse(cast(ast.Call, one.iter).args[0]) for one in loops)
        return ast.parse(
            f"{names}, = (each.ravel() for each in jnp.indices(({sizes},)))\n"
            f"out = {ast.unparse(at.value)}[{ast.unparse(at.slice)}].{method.attr}("
            f"jax.vmap(lambda {names}: {ast.unparse(store.args[0])})({names}))"
        ).body

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) != "jnp.stack":
            return node
        rounds = cast(ast.ListComp, node.args[0])
        over = ast.unparse(cast(ast.Call, rounds.generators[0].iter).args[0])
        return ast.parse(
            f"jax.vmap(lambda i: {ast.unparse(rounds.elt)})(jnp.arange({over}))", mode="eval"
        ).body


def compiled(source: str, folder: Path) -> Callable[..., Any]:
    file = folder / f"loops{len(list(folder.iterdir()))}.py"
    file.write_text(source, encoding="utf-8")
    names: dict[str, Any] = {"jax": jax, "jnp": jnp}
    exec(compile(source, str(file), "exec"), names)
    return names["loops"]


@pytest.mark.drawn
@pytest.mark.parametrize("seed", range(9))
def test_rounds_that_need_no_other_are_done_at_once(seed: int, of: Of, tmp_path: Path) -> None:
    one = loop(seed)
    given = [np.random.RandomState(seed).rand(300).astype(np.float32) for _ in range(2)]
    spent: list[float] = []
    results: list[Any] = []

    def run(function: Callable[..., Any]) -> None:
        began = time.process_time()
        results.append(jax.jit(function)(*given))
        spent.append(time.process_time() - began)

    plain = compiled(one.source, tmp_path)
    account = of(lambda: run(plain), "loops")
    (advice,) = [each for each in account.advice if each.after]
    assert (advice.code, advice.times) == (one.code, one.rounds)
    edited = ast.unparse(ast.fix_missing_locations(Vectorised().visit(ast.parse(one.source))))
    again = of(lambda: run(compiled(edited, tmp_path)), "loops")
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)
    assert not any(each.code in WAYS for each in again.advice)
    assert again.miss.program is not None
    # Indices that are arrays take equations of their own.
    assert again.miss.program.equations <= 4 * advice.after
    assert spent[1] < spent[0] / 2


def test_rounds_that_begin_with_equal_equations() -> None:
    def distances(x: Any) -> Any:
        out = jnp.zeros((9, 9))
        for i in range(9):
            for j in range(9):
                out = out.at[i, j].set(jnp.exp(x[i] - x[j]) + jnp.sin(x[i]))
        return out

    # `x[i]` and `x[j]` are two rounds of a shorter block, and what is found begins after them.
    listing, listings = program(distances, np.ones(9, np.float32))
    (most, *_) = unrolled([listing], listings)
    assert most.times == 80 and most.primitives[0] == "sub"
    assert way([most], listings) == "set"


def last_counts(x: Any) -> Any:
    for i in range(30):
        x = x.at[i // 2].set(i * 0.5)
    return x


def windows_overlap(x: Any) -> Any:
    for i in range(28):
        x = x.at[i : i + 2].set(i * 0.5)
    return x


def indices_are_data(x: Any) -> Any:
    indices = jnp.arange(30) % 7
    for i in range(30):
        x = x.at[indices[i]].set(jnp.sin(i * 0.5))
    return x


def is_read_between(x: Any) -> Any:
    out, total = jnp.zeros(30), 0.0
    for i in range(30):
        out = out.at[i].set(x[i] * 2)
        total = total + out.sum()
    return out, total


def is_kept_between(x: Any) -> Any:
    out, kept = jnp.zeros(30), list[Any]()
    for i in range(30):
        out = out.at[i].set(x[i] * 2)
        kept.append(out)
    return kept


def follows(x: Any) -> Any:
    for i in range(1, 30):
        x = x.at[i].set(x[i - 1] * 0.5 + jnp.sin(x[i]))
    return x


def adds_up(x: Any) -> Any:
    total = jnp.zeros(())
    for i in range(30):
        total = total + jnp.sin(x[i]) * i
    return total


def prints(x: Any) -> Any:
    found: list[Any] = []
    for i in range(30):
        jax.debug.print("{}", x[i])
        found.append(jnp.sin(x[i]) * 2)
    return jnp.stack(found)


def branches(x: Any) -> Any:
    rounds = range(30)
    return jnp.stack([jax.lax.cond(x[i] > 0, jnp.sin, jnp.cos, x[i] * 2) for i in rounds])


@pytest.mark.parametrize(
    "function",
    [
        *(last_counts, windows_overlap, indices_are_data, is_read_between, is_kept_between),
        *(follows, adds_up, prints, branches),
    ],
)
def test_rounds_that_may_need_another_are_not(function: Callable[[Any], Any]) -> None:
    listing, listings = program(function, np.ones(31, np.float32))
    (most, *_) = unrolled([listing], listings)
    assert most.times > 25 and way([most], listings) == "scan"

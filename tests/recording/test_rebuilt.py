"""StableHLO that `--slow` keeps: none of the program's data, and what can be made of it again."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from retrace.capture.module import LEFT_OUT, module
from retrace.capture.session import begin_memory, session
from retrace.errors import UsageError
from retrace.jax_internals import alone
from retrace.jax_internals.executable import Given
from retrace.jax_internals.modules import Modules, Part
from retrace.model import Miss, Recording
from retrace.model.slow import Cut, Halved, Module, Slow
from retrace.rebuilt import halving
from retrace.rebuilt.asking import halved
from retrace.rebuilt.process import compile_alone
from retrace.rebuilt.script import Recorded, script, stand_ins, timed, without_locations
from retrace.store.reader import read_lines
from retrace.store.slow import decode_slow, encode_slow, unpack

SECRET = 1234567
DTYPES = [
    *("float32", "float16", "int32", "uint8", "int16", "bool", "complex64"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    *(ml_dtypes.int4, ml_dtypes.uint4),
]


def recorded(program: Callable[[], object], name: str) -> tuple[Recording, Miss]:
    recorder = session().recorder
    recorder.observe_slow(0.01)
    writer, sink = begin_memory()
    try:
        program()
    finally:
        session().detach(writer)
        recorder.slow = None
    recording = read_lines(sink.lines)
    assert recording.runs[0].losses == {}
    return recording, next(m for m in recording.misses if m.function.name == name)


def kept(miss: Miss) -> Module:
    assert miss.slow is not None and miss.slow.module is not None
    return miss.slow.module


def given(function: Callable[..., Any], *args: Any) -> Given:
    lowered: Any = jax.jit(function).lower(*args).compiler_ir("stablehlo")
    text = lowered.operation.get_asm(large_elements_limit=4096, enable_debug_info=True)
    return Given(text, 1, 1, (), "cpu", "cpu")


def elements(text: str) -> list[Any]:
    """The numbers of each constant that is written out as a list."""
    lists = [
        line.split("dense<")[1].split(">")[0] for line in text.splitlines() if "dense<[" in line
    ]
    return [
        ast.literal_eval(one.replace("true", "True").replace("false", "False")) for one in lists
    ]


def test_no_content_of_a_constant_is_kept() -> None:
    small = np.array([SECRET, SECRET + 1, SECRET + 2], np.int32)
    list_ = np.arange(SECRET, SECRET + 50, dtype=np.int32).reshape(5, 10)
    large = np.arange(SECRET, SECRET + 9000, dtype=np.int32)
    flags = np.arange(200) % 3 == 0

    def captures(x: Any) -> Any:
        held = (list_ * x).sum() + (large * x).sum() + (small * x).sum()
        return held + jnp.where(flags, x, 2).sum() + jnp.sort(jnp.full(9, x))[0]

    recording, miss = recorded(lambda: jax.jit(captures)(np.int32(2)), "captures")
    found = kept(miss)
    text = unpack(found)
    assert len(text) == found.size
    assert found.constants == stand_ins(text) == 3
    for type_ in ("tensor<5x10xi32>", "tensor<9000xi32>", "tensor<200xi1>"):
        assert f"stablehlo.constant {LEFT_OUT} : {type_}" in text
    # Twelve bytes stay, as in the text of programs; nothing longer does.
    assert elements(text) == [small.tolist()]
    written = [text, str(miss.slow)]
    for number in (list_[1, 3], large[5000]):
        hexed = number.tobytes().hex().upper()
        assert not any(str(number) in one or hexed in one for one in written)
    assert recording.misses


@pytest.mark.parametrize("limit", [4, 4096])
def test_each_dtype_has_a_stand_in_that_compiles(limit: int) -> None:
    arrays = [np.resize(np.arange(40) % 5, (6, 40)).astype(dtype) for dtype in DTYPES]

    def holds(x: Any) -> Any:
        return [jnp.asarray(array)[::2] + jnp.asarray(x).astype(array.dtype) for array in arrays]

    lowered: Any = jax.jit(holds).lower(np.float32(1)).compiler_ir("stablehlo")
    asm = lowered.operation.get_asm(large_elements_limit=limit)
    found = module(Given(asm, 1, 1, (), "cpu", "cpu"))
    assert found.constants == len(DTYPES)
    filled, number = alone.filled(unpack(found))
    assert number == len(DTYPES) and LEFT_OUT not in filled
    for numbers in elements(filled):
        assert len({str(one) for row in numbers for one in row}) > 1
        if not isinstance(numbers[0][0], bool):
            assert 0 not in np.array(numbers)
    packed = re.findall(r'dense<"0x(\w+)"> : tensor<6x40x\D+(\d+)', filled)
    assert len(packed) == len(DTYPES) - 3
    for content, bits in packed:
        data, size = bytes.fromhex(content), int(bits) // 8
        cells = {data[at : at + size] for at in range(0, len(data), size)}
        assert len(cells) > 1 and bytes(size) not in cells
    assert alone.compiled(filled).seconds > 0


def test_what_cannot_be_left_out_is_not_kept() -> None:
    text = f'"x.y"() {{table = {LEFT_OUT} : tensor<9xi64>}} : () -> ()\n'
    assert module(Given(text, 1, 1, (), "cpu", "cpu")).unkept == "data"
    resources = '%0 = stablehlo.sine %1 : tensor<f32>\n{-# dialect_resources: { a: "0x40" } #-}'
    assert module(Given(resources, 1, 1, (), "cpu", "cpu")).unkept == "data"
    assert module(Given("x" * (1 << 25) + "x", 1, 1, (), "cpu", "cpu")).unkept == "size"


def test_a_redacted_recording_keeps_no_module() -> None:
    slow = Slow(module=module(given(lambda x: x + SECRET, np.float32(1))))
    told = decode_slow(encode_slow(slow, lambda frame: frame), None)
    assert told.module is not None
    assert (told.module.unkept, told.module.packed) == ("redacted", "")
    assert decode_slow(encode_slow(slow), None) == slow


def nested(x: Any, n: Any) -> Any:
    for index in range(6):
        x = jnp.sin(x) * index
    x = jnp.sort(x)
    x = jax.lax.scan(lambda c, _: (jnp.sort(c) * x, c.sum()), x, None, length=4)[0]
    table = np.linspace(1, 2, 40, dtype=np.float32)
    chosen = jax.lax.cond(n > 0, lambda x: (table * x).sum(), lambda x: x.max(), x)
    return chosen + jax.random.uniform(jax.random.key(0), (3,)).sum()  # draws


def test_each_part_of_a_module_can_be_compiled_alone() -> None:
    modules = Modules(unpack(module(given(nested, np.ones(40, np.float32), 3))))
    whole = modules.whole()
    inside: list[str] = []

    def go(part: Part, depth: int) -> None:
        half = (part.first + part.end) // 2
        pieces = [part._replace(end=half), part._replace(first=half)]
        if depth == 0:
            pieces += [
                part._replace(first=at, end=at + 1) for at in range(part.first, part.end, 3)
            ]
        for piece in pieces:
            if piece.end > piece.first:
                assert alone.compiled(alone.filled(modules.text(piece))[0]).seconds > 0
        for at in range(part.first, part.end):
            one = part._replace(first=at, end=at + 1)
            inside.extend(modules.operations(one)[0].name for _ in modules.inside(one))
            if depth < 2:
                for within in modules.inside(one):
                    go(within, depth + 1)

    go(whole, 0)
    assert {"stablehlo.while", "stablehlo.case", "func.call"} <= set(inside)


@jax.jit
def sorts(x: Any) -> Any:
    return jnp.sort(x) * 2  # inside


@pytest.mark.parametrize("planted", ["planted", "inside"])
def test_the_part_that_stays_slow_is_found(monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    # What a part costs is told here by what is in it: no clock decides.
    def cost(text: str, *_: Any) -> alone.Compiled:
        spent = 0.01 * text.count("\n") + 10 * ("<40xf32>" in text and "stablehlo.sort" in text)
        return alone.Compiled(spent, spent)

    def program(x: Any, n: Any) -> Any:
        for index in range(40):
            x = jnp.sin(x) * index
        if planted == "inside":
            below = sorts(x)
        else:
            below = jax.lax.fori_loop(0, n, lambda i, c: jnp.sort(c * i), x)  # planted
        for index in range(30):
            below = jnp.cos(below) + index
        return below

    # Its trace is kept, and with it on older releases the lines of who called it first.
    jax.jit(lambda x: jnp.sort(sorts(x))).lower(np.ones(40, np.float32))
    monkeypatch.setattr(halving, "compiled", cost)
    found = module(given(program, np.ones(40, np.float32), 3))
    answer = halving.Halving({"text": unpack(found), "options": (1, 1, (), "cpu")}).answer()
    assert "stablehlo.sort" in answer["text"]
    # Inside the loop, and inside the function that its body calls.
    assert answer["part"]["operations"] == 1
    assert answer["kinds"] == [("sort", 1)]
    file, line, _ = answer["lines"][0]
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert (file, lines[line - 1].endswith(f"# {planted}")) == (__file__, True)
    assert len(answer["steps"]) < 30


def test_nothing_is_compiled_for_another_platform() -> None:
    recording, miss = recorded(lambda: jax.jit(sorts)(np.ones(4, np.float32)), "sorts")
    found = kept(miss)
    assert found.platform == jax.default_backend() and found.device
    assert decode_slow(encode_slow(Slow(module=found)), None).module == found
    here = Recorded("sorts #1", unpack(found), found, recording.runs[0], miss)
    assert compile_alone(script(here)).seconds > 0
    elsewhere = here._replace(module=found._replace(platform="tpu", device="TPU v5 lite"))
    assert "for tpu (TPU v5 lite)" in script(elsewhere)
    for ask in (lambda: compile_alone(script(elsewhere)), lambda: halved(elsewhere)):
        with pytest.raises(UsageError, match=rf"compiled for tpu,.* {found.platform} "):
            ask()
    # Recordings of earlier versions only have the platform of the process.
    before = here._replace(module=found._replace(platform="", device=""))
    assert before.platform == recording.runs[0].backend == found.platform


def test_a_script_says_what_is_made_up_and_names_no_file() -> None:
    recording, miss = recorded(
        lambda: jax.jit(nested)(np.ones(40, np.float32), 3), nested.__name__
    )
    found = kept(miss)
    it = Recorded("nested #1", unpack(found), found, recording.runs[0], miss)
    text = script(it)
    assert "test_rebuilt" in it.text and "test_rebuilt" not in text
    assert found.constants == 1 and "stand-in" in text
    compile(text, "alone.py", "exec")
    part = Halved(Cut(9, 2.0), Cut(1, 1.5), (), (), (), "module {\n}\n")
    said = ast.get_docstring(ast.parse(script(it, part)))
    assert said is not None and "1.500 s of the 2.000 s" in said
    assert "all constants" in said
    assert timed("noise\ncompiled in 1.500 s (2.250 s of processors) by jax") == (1.5, 2.25)
    assert timed("Traceback") is None


def test_a_module_is_written_without_any_location() -> None:
    text = (
        '  func.func private @sum(%arg0: tensor<3xf32> loc(callsite("f"("a.py":1:2 to :9) at '
        '#loc14))) -> tensor<3xf32> {\n    %0 = "x"(%arg0) {say = "(" } '
        'loc(fused[#loc1, "g"(#loc2)])\n  } loc(#loc)\n#loc1 = loc("a.py":1:2)\n'
    )
    assert without_locations(text) == (
        "func.func private @sum(%arg0: tensor<3xf32>) -> tensor<3xf32> {\n"
        '    %0 = "x"(%arg0) {say = "(" }\n  }\n'
    )

"""A program with large values goes in; what is recorded of each is bounded, as the docs say."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from retrace.capture import definition, place, snapshot
from retrace.model import Recording, Value
from retrace.store.reader import read

ROOT = Path(__file__).parents[2]
PROGRAM = f"""
import functools, threading
import jax, jax.numpy as jnp, numpy as np

LONG, MANY = "y" * 10_000, tuple(range(100_000, 110_000))
FITS = "z" * 1500

@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["long"])
class State:
    def __init__(self, w, long):
        self.w, self.long = w, long

def long(x, static=None, default=LONG):
    # {"c" * 5000}
    return x + len(LONG)

kept = [jax.jit(long, static_argnames=["static", "default"])]
step = kept[0]
x = np.full(3, 48151624.0, np.float32)
step(x, static=LONG)
step(x, static=MANY)
step(x, static=FITS)
step(State(x, LONG).w); jax.eval_shape(lambda s: s.w * 2, State(x, LONG))
jax.jit(functools.partial(long, static=LONG))(x)
jax.jit(lambda x, held=LONG: x)(x)
small, large = np.array([1.5, 2.5], np.float32), np.array([42108096.0] * 5, np.float32)
kept.append(jax.jit(lambda x: x[:2] + small))
kept[-1](x)
kept.append(jax.jit(lambda x: x[0] + large))
kept[-1](x)
jax.jit(lambda x: x, compiler_options={{"xla_dump_to": "w" * 10_000}}).lower(x)
jax.jit(lambda x: x + 3)(x)  # {"l" * 500}
threading.Thread(target=step, args=(x[:2],), name="t" * 300).start()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("bounds")
    (home / "program.py").write_text(PROGRAM)
    subprocess.run(
        [sys.executable, "-m", "retrace", "run", "--out", "rec", "program.py", "a" * 5000],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        timeout=300,
    )
    return home / "rec"


def values(recording: Recording) -> Iterable[Value]:
    for miss in recording.misses:
        function, key = miss.function, miss.key
        rows = (function.closure, function.defaults, function.bound, function.reads)
        meta = [node.meta for node in key.tree]
        for row in (*rows, key.static, key.options, key.config, *meta):
            yield from (value for _, value in row)


def test_the_bounds_are_those_of_the_docs() -> None:
    told = (ROOT / "docs" / "reliability.md").read_text()
    text, plain = snapshot._MAX_TEXT, snapshot._MAX_DATA
    assert f"{text} characters of text, {plain:,} of plain content |" in told
    assert f" of a function | {definition._MAX_SOURCE_LENGTH:,} characters |" in told
    assert f"| the line that called | {place._MAX_SOURCE_CHARACTERS} characters |" in told


def test_values_are_bounded(recorded: Path) -> None:
    found = list(values(read([recorded])))
    assert max(len(value.text) for value in found) == 200
    assert max(len(str(value.data)) for value in found) == 1500
    long = [value.text[1] for value in found if len(value.text) == 200]
    assert {*long} >= {"y", "1", "z"} and any("w" * 100 in value.text for value in found)


def test_source_is_bounded(recorded: Path) -> None:
    misses = read([recorded]).misses
    assert max(len(miss.function.source or "") for miss in misses) == 4000
    lines = [miss.call_site.source or "" for miss in misses if miss.call_site is not None]
    assert max(map(len, lines)) == 200


def test_of_arrays_there_is_no_data(recorded: Path) -> None:
    recording = read([recorded])
    programs = repr([recording.listings[id_] for id_ in recording.listings])
    texts = "".join(path.read_text() for path in recorded.iterdir())
    assert "(1.5,2.5)" in programs, "a constant of 16 bytes at most is told"
    assert "float32[5]" in programs or "f32[5]" in programs
    # Whole, so that no duration contains them; a float32 holds both exactly.
    for number in ("42108096", "48151624"):
        assert number not in programs and number not in texts


def test_the_command_line_and_threads_are_whole(recorded: Path) -> None:
    recording = read([recorded])
    assert recording.runs[0].argv == ["program.py", "a" * 5000]
    assert "t" * 300 in {miss.thread for miss in recording.misses}

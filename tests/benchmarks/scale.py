"""A report of a million misses in 64 processes, compared with one of a quarter of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.measure import Ratio

_EACH = 15_625
"""Misses per process: with 64 processes, a million."""
_PROGRAM = """
import functools, sys
import jax
import retrace

def shape(*sizes):
    return jax.ShapeDtypeStruct(sizes, "float32")

@jax.jit
def step(parameters, batch):
    return jax.tree.map(lambda p: p * 2, parameters), batch.sum()

@functools.partial(jax.jit, static_argnames="depth")
def deep(x, depth):
    for _ in range(depth % 7):
        x = x + 1
    return x

parameters = {f"w{index}": shape(4, 4) for index in range(4)}
with retrace.recording(sys.argv[1]):
    for index in range(0, int(sys.argv[2]), 5):
        step.trace(parameters, shape(index + 1, 4))
        deep.trace(shape(8), depth=index)
        jax.jit(lambda x: x * 2).trace(shape(3))
        jax.jit(lambda x: x * 3).trace(shape(3 + index % 50))
        step.trace({**parameters, "b": shape(index)}, shape(16, 4))
"""
_REPORT = """
import resource, runpy, sys
sys.argv = ["retrace", "report", *sys.argv[1:]]
try:
    runpy.run_module("retrace", run_name="__main__")
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""


class _Cost(NamedTuple):
    seconds: float
    """Of processor time."""
    memory: int
    """Peak bytes."""


def reporting() -> Iterator[Ratio]:
    """One real process, copied under other names, compared with a quarter as many copies."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = Path(folder, "one")
        subprocess.run([sys.executable, "-c", _PROGRAM, recorded, str(_EACH)], check=True)
        whole = {
            number: _copies(recorded, Path(folder, str(number)), number) for number in (4, 16, 64)
        }
        for form, processes in (("json", 16), ("text", 64)):
            a, b = _report(whole[processes // 4], form), _report(whole[processes], form)
            name = (
                f"a report of {_EACH * processes:,} misses in {processes} processes ({form}), "
                "compared with one of a quarter of them"
            )
            ratio = b.seconds / a.seconds
            yield Ratio(name, a.seconds, b.seconds, ratio, (ratio, ratio), 4.4)
            ratio = b.memory / a.memory
            name = f"{name}, peak memory"
            yield Ratio(name, a.memory / 1e6, b.memory / 1e6, ratio, (ratio, ratio), 1.3, "MB")


def _copies(recorded: Path, into: Path, number: int) -> Path:
    into.mkdir()
    (file,) = recorded.glob("*.jsonl")
    first, rest = file.read_text().split("\n", 1)
    header = json.loads(first)
    for index in range(number):
        header["run"] |= {"id": f"p{index:02}", "process_index": index}
        (into / f"p{index:02}.jsonl").write_text(f"{json.dumps(header, separators=(',', ':'))}\n")
        with (into / f"p{index:02}.jsonl").open("a") as copy:
            copy.write(rest)
        os.link(file.with_suffix(".programs"), into / f"p{index:02}.programs")
    return into


def _report(recordings: Path, form: str) -> _Cost:
    done = subprocess.run(
        [sys.executable, "-c", _REPORT, recordings, "--format", form],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    seconds, memory = done.stderr.split()[-2:]
    return _Cost(float(seconds), int(memory) * 1024)

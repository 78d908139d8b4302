"""`retrace run --count`: every call is counted, exactly, and nothing else changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.drawn

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
f = jax.jit(lambda x: x * 2)
g = jax.jit(lambda x, n: x * n, static_argnums=1)
k = jax.jit(lambda x: jax.debug.callback(lambda x: None, x[0]) or f(x))
x = np.ones(4, np.float32)
for _ in range(300): f(x)
for n in (1, 2, 2, 3, 3, 3): g(x, n)
for size in (5, 6, 6, 7, 7, 7): f(np.ones(size, np.float32))
for _ in range(3): k(x)
for _ in range(4): jnp.sin(x)
slope = jax.jit(jax.grad(lambda x: f(x).sum()))
for _ in range(9): slope(x)
made = [jax.jit(lambda x: x + n)(x) for n in range(3)]
try: f("text")
except TypeError: pass
print(float(f(x).sum()), slope._cache_size())
"""


def run(folder: Path, *options: str) -> tuple[str, list[dict[str, Any]]]:
    (folder / "program.py").write_text(PROGRAM)
    out = folder / ("counted" if options else "plain")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "retrace", "run", "--quiet", *options),
            *("--out", str(out), "program.py"),
        ],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert done.stderr == ""
    told = subprocess.run(
        [sys.executable, "-m", "retrace", "report", str(out), "--format", "json"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    report = json.loads(told.stdout)
    assert report["runs"][0]["losses"] == {}
    return done.stdout, report["misses"]


def test_every_call_is_counted_and_nothing_else_changes(tmp_path: Path) -> None:
    plain_out, plain = run(tmp_path)
    out, counted = run(tmp_path, "--count")
    assert out == plain_out
    # The same misses, in the same stages: what is off the fast path is compiled no more often.
    stages = [
        [(miss["function"], miss["cause"], sorted(k for k, v in miss["stages"].items() if v))]
        for misses in (plain, counted)
        for miss in misses
    ]
    assert stages[: len(plain)] == stages[len(plain) :]
    assert {miss["calls"] for miss in plain} == {None}
    own = [miss for miss in counted if miss["parent"] is None and miss["raised"] is None]
    by_line: dict[object, Counter[object]] = {}
    for miss in own:
        site = miss["call_site"]
        assert isinstance(site, dict)
        by_line.setdefault(site["line"], Counter())[miss["calls"]] += 1
    # 300 and the last line's; one program for each of three values, and of three sizes.
    assert by_line[7] == {301: 1}
    assert by_line[8] == by_line[9] == {1: 1, 2: 1, 3: 1}
    assert by_line[10] == {3: 1}
    assert by_line[11] == {4: 1}
    assert by_line[13] == {9: 1}
    assert by_line[14] == {1: 3}

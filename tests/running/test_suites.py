"""The comparison of other projects' test suites passes on a small one, and can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.drawn(of=4)  # the comparison is a development tool

ROOT = Path(__file__).resolve().parents[2]

SOUND = """
import jax, jax.numpy as jnp, pytest

def test_passes():
    f = jax.jit(lambda x: jnp.sin(x) + 1)
    f(1.0), f(2.0), f(jnp.ones(3))
    jax.grad(lambda x: f(x) ** 2)(1.0)

@pytest.mark.parametrize("n", [1, 2])
def test_fails(n):
    jax.jit(lambda x: x @ x)(jnp.ones((n, 3)))

def test_is_skipped():
    pytest.skip("here")
"""
SEES_US = "import sys\ndef test_alone(): assert 'retrace.capture' not in sys.modules\n"
STOPS_US = """
import sys, jax

def test_unseen():
    if "retrace" in sys.modules:
        import retrace
        retrace.uninstall()
        from retrace.capture.session import stop
        stop(None)
    jax.jit(lambda x: x + 1)(1.0)
"""
ROUNDS_OTHERWISE = """
import sys, jax, jax.numpy as jnp

def test_last_bit():
    x = jax.jit(jnp.sin)(jnp.ones(3))
    if "retrace.capture" in sys.modules:
        x = jnp.nextafter(x, 2.0)
    else:
        jnp.nextafter(x, 2.0)
    assert jnp.allclose(x, 0.84147098)
"""
OTHER_KEYS = """
import sys, jax, numpy as np

def test_compiles():
    options = {"xla_cpu_enable_fast_math": "retrace.capture" in sys.modules}
    jax.jit(lambda x: x + 1).lower(np.ones(3)).compile(compiler_options=options)
"""


def run(project: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    (project / "test_it.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "tests.suites", str(project), *options, "--", "test_it.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        # The project's suite needs none of the installed plugins.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )


def test_what_recording_costs_a_suite(tmp_path: Path) -> None:
    done = run(tmp_path, SOUND, "--pairs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    head, *_, by_clock, by_processor = done.stdout.splitlines()
    assert head.startswith("2 failed, 1 passed, 1 skipped, ")
    for name, row in (("seconds", by_clock), ("processor seconds", by_processor)):
        told, plain, recorded, ratio, low, high = row.strip("| ").split(" | ")
        assert told == name
        assert float(low) <= float(ratio) <= float(high)
        assert float(plain) > 0 < float(recorded)


def test_a_suite_that_recording_does_not_change(tmp_path: Path) -> None:
    done = run(tmp_path, SOUND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "| tests | 2 failed, 1 passed, 1 skipped | 2 failed, 1 passed, 1 skipped |" in done.stdout
    )
    assert "| compile | 0 | 0 |" not in done.stdout


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (SEES_US, "Different under recording"),
        (STOPS_US, "Recorded otherwise than JAX counts"),
        pytest.param(
            ROUNDS_OTHERWISE,
            "arrays of test_last_bit: 1, then 1, not the same bits",
            marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="no sys.monitoring"),
        ),
    ],
)
def test_a_suite_that_recording_changes_or_misses(source: str, told: str, tmp_path: Path) -> None:
    done = run(tmp_path, source)
    assert done.returncode == 1 and told in done.stdout, done.stdout + done.stderr


def test_a_cache_that_serves_both_ways(tmp_path: Path) -> None:
    done = run(tmp_path, SOUND, "--cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 more when run") == 2
    assert "Cache filled plain: 0 programs" not in done.stdout


def test_a_cache_that_serves_neither_way(tmp_path: Path) -> None:
    done = run(tmp_path, OTHER_KEYS, "--cache")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 programs, 1 more when run recorded" in done.stdout
    assert "1 programs, 1 more when run plain" in done.stdout
    assert done.stdout.count("1 not among them") == 2

"""What must never happen to a program because it is recorded."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import numpy as np
import pytest

import retrace
from retrace.capture import misses as beginnings
from retrace.store.reader import read

pytestmark = pytest.mark.drawn

PROGRAMS = Path(__file__).parent / "programs"
ADDRESS = re.compile("0x[0-9a-f]+")


def run(directory: Path, *arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("RETRACE")
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=200,
        env={
            **environment,
            "PYTHONPATH": os.pathsep.join(sys.path),
            **options,
        },
        check=False,
    )


def test_a_program_sees_the_same_with_and_without(tmp_path: Path) -> None:
    program = str(PROGRAMS / "neutral.py")
    plain = run(tmp_path, program)
    assert (plain.returncode, plain.stderr) == (0, "")
    # Nearly every trace is looked at where misses count as slow from there on.
    for options in ([], ["--slow-over", "0.01", "--out", "slow"]):
        recorded = run(tmp_path, "-m", "retrace", "run", "-q", *options, program)
        assert recorded.stdout == plain.stdout
        assert (recorded.returncode, recorded.stderr) == (0, "")
    observed = [miss.slow for miss in read([tmp_path / "slow"]).misses if miss.slow]
    assert any(slow.tracing for slow in observed) and any(slow.compiling for slow in observed)


RAISING = """
import traceback
import jax, jax.numpy as jnp, numpy as np

def inner(x):
    raise LookupError('of the program', x.shape)

def outer(x):
    return jax.jit(inner)(x) + 1

def compiled_with_nonsense():
    jax.jit(jnp.sin).lower(1.0).compile({'no such option': '1'})

CASES = (
    lambda: jax.jit(outer)(np.ones(3)),
    lambda: jax.grad(jax.jit(lambda x: outer(x).sum()))(np.ones(3)),
    lambda: jax.lax.scan(lambda c, x: (outer(x), c), 0.0, np.ones(3)),
    lambda: jax.jit(lambda x: bool(x.sum()))(np.ones(3)),
    lambda: jax.jit(outer)(object()),
    compiled_with_nonsense,
)
for case in CASES:
    try:
        case()
    except Exception:
        traceback.print_exc()
"""


@pytest.mark.parametrize("filtering", ["auto", "remove_frames", "off"])
def test_tracebacks_are_printed_as_without(filtering: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(RAISING)
    options = {"JAX_TRACEBACK_FILTERING": filtering}
    plain = run(tmp_path, "program.py", **options)
    recorded = run(tmp_path, "-m", "retrace", "run", "-q", "program.py", **options)
    assert plain.returncode == recorded.returncode == 0
    assert plain.stderr.count("in outer\n") >= 3 and plain.stderr.count("Error") >= 6
    # XLA ends a line of its own with a blank or without one, as it pleases.
    told, expected = (
        ADDRESS.sub("0x", done.stderr).replace(" \n", "\n") for done in (recorded, plain)
    )
    assert told == expected


@pytest.mark.parametrize("metadata", ["false", "true"])
def test_a_cache_filled_with_or_without_has_the_same_keys(metadata: str, tmp_path: Path) -> None:
    # With metadata in the key, the places of the frames around a program count too.
    program = tmp_path / "program.py"
    program.write_text(
        "import jax, jax.numpy as jnp\n"
        "def main():\n"
        "    jax.jit(jax.grad(jax.jit(lambda x: jnp.sin(x) + 1)))(1.0)\n"
        "    jax.lax.scan(lambda c, x: (c + x, c), 0.0, jnp.ones(3))\n"
        "    jax.jit(lambda x: jnp.cos(x)).lower(1.0).compile()\n"
        "main()\n"
    )
    cache = tmp_path / "cache"
    options = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_COMPILATION_CACHE_INCLUDE_METADATA_IN_KEY": metadata,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    filled: list[set[str]] = []
    for how in ((), ("-m", "retrace", "run", "-q")):
        run(tmp_path, *how, str(program), **options)
        filled.append({file.name for file in cache.iterdir()})
        shutil.rmtree(cache)  # its place is part of the key before jax 0.7
    assert filled[0] and filled[0] == filled[1]


def test_a_signal_that_comes_while_we_work_reaches_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class TimeIsUpError(Exception):
        pass

    def handler(number: int, frame: FrameType | None) -> None:
        raise TimeIsUpError

    original = beginnings.stack_of

    def interrupted(frame: FrameType | None) -> Any:
        signal.raise_signal(signal.SIGALRM)
        return original(frame)

    monkeypatch.setattr(beginnings, "stack_of", interrupted)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with retrace.recording(), pytest.raises(TimeIsUpError):
            jax.jit(lambda x: x)(1.0)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_metadata_that_cannot_be_compared_to_anything_else_is_recorded() -> None:
    class Node:
        pass

    metadata: Any = np.ones(3)
    jax.tree_util.register_pytree_node(
        Node, lambda _: ((1.0,), metadata), lambda metadata, children: Node()
    )
    with retrace.recording() as recorded:
        jax.eval_shape(lambda node: 1.0, Node())
    assert len(recorded.misses) == 1


def test_listeners_that_the_program_clears_are_counted_and_set_again() -> None:
    from jax._src import monitoring

    with retrace.recording() as recorded:
        monitoring.clear_event_listeners()
        jax.jit(lambda x: x + 1).lower(np.ones(3))
        (miss,) = recorded.misses
        losses = recorded._read().runs[0].losses  # pyright: ignore[reportPrivateUsage]
    assert miss.stages.lower is not None
    ((name, times),) = losses.items()
    assert "listeners" in name and times == 1


def test_what_fails_at_every_miss_is_told_once_and_counted_each_time(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import jax\n"
        "from retrace.capture import misses\n"
        "def unpack(call): raise LookupError\n"
        "misses.unpack = unpack\n"
        "for number in range(4): print(jax.jit(lambda x: x + number)(1.0))\n"
    )
    done = run(tmp_path, "-m", "retrace", "run", "-q", "--out", "here", "program.py")
    assert (done.returncode, done.stdout) == (0, "1.0\n2.0\n3.0\n4.0\n")
    assert done.stderr.count("retrace:") == done.stderr.count("\nLookupError\n") == 1
    losses = read([tmp_path / "here"]).runs[0].losses
    assert losses["LookupError while recording"] >= 4


@pytest.mark.parametrize("how", ["import", "jit"])
def test_where_nothing_can_be_written_the_program_goes_on(how: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    jit = "jax" if how == "import" else "retrace"
    program = f"import retrace, jax; print({jit}.jit(lambda x: x + 1)(1.0))"
    options = {"RETRACE": "1"} if how == "import" else {}
    done = run(tmp_path, "-c", program, RETRACE_DIR="file", **options)
    assert (done.returncode, done.stdout) == (0, "2.0\n")
    assert done.stderr.count("retrace:") == 1 and "file is a file" in done.stderr
    assert "Traceback" not in done.stderr


STEP = """
import retrace
@retrace.jit
def step(x):
    return x + 1
step(1.0), step(1)
print(len(retrace.misses(step)))
retrace.explain(step)
"""


def test_a_recording_of_retrace_jit_is_complete(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text(STEP)
    done = run(tmp_path, "step.py", RETRACE_DIR="here")
    assert done.returncode == 0 and done.stdout.startswith("2\n"), done.stderr
    (process,) = read([tmp_path / "here"]).runs
    assert process.complete and process.backend == jax.default_backend()


def test_a_program_with_retrace_jit_can_be_run_under_retrace_or_with_it_off(
    tmp_path: Path,
) -> None:
    (tmp_path / "step.py").write_text(STEP)
    plain = run(tmp_path, "step.py")
    under = run(tmp_path, "-m", "retrace", "run", "-q", "step.py")
    assert (under.returncode, under.stderr) == (0, "")
    assert under.stdout.startswith("2\n") and plain.stdout.startswith("2\n")
    off = run(tmp_path, "step.py", RETRACE="0")
    assert (off.returncode, off.stderr) == (0, "") and off.stdout.startswith("0\n")


def test_a_window_leaves_the_misses_of_retrace_jit_where_they_are_looked_for(
    tmp_path: Path,
) -> None:
    program = (
        "import retrace\n"
        "double = retrace.jit(lambda x: 2 * x)\n"
        "with retrace.recording() as recorded: double(1.0)\n"
        "print(len(retrace.misses(double)), len(recorded.misses))\n"
    )
    done = run(tmp_path, "-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 1\n", "")

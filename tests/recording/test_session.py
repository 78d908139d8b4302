"""Recording in real processes: forked, killed, ended, switched on and off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax
import pytest

from retrace.capture.public import LOSS
from retrace.model import Miss, Recording, Stage
from retrace.store.reader import read

pytestmark = pytest.mark.drawn

START = """
import sys
from pathlib import Path
from retrace.capture.session import start
start(Path(sys.argv[1]))
import jax, jax.numpy as jnp, numpy as np
"""


def run(program: str, directory: Path, **options: str) -> Recording:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::UserWarning",
            "-c",
            START + textwrap.dedent(program),
            str(directory),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **options},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "retrace:" not in done.stderr, done.stderr
    return read([directory])


def functions(recording: Recording) -> list[Miss]:
    return [miss for miss in recording.misses if miss.function.kind != "op"]


def test_a_recording_says_where_it_was_made(tmp_path: Path) -> None:
    recording = run("jax.jit(lambda x: x)(1.0)", tmp_path)
    (process,) = recording.runs
    assert process.complete and process.losses == {}
    assert process.backend == jax.default_backend() and process.process_index == 0
    assert process.argv[0] == "-c"
    assert len(functions(recording)) == 1


def test_a_recording_without_a_call_touches_no_device(tmp_path: Path) -> None:
    recording = run(
        """
        from jax._src import xla_bridge
        from retrace.capture.session import stop
        stop()
        assert not xla_bridge.backends_are_initialized()
        """,
        tmp_path,
    )
    assert recording.runs[0].backend is None and recording.runs[0].complete


def test_a_forked_child_records_into_a_file_of_its_own(tmp_path: Path) -> None:
    recording = run(
        """
        import os, warnings
        warnings.simplefilter("ignore")
        child = os.fork()
        if child == 0:
            jax.jit(lambda x: x + 1)(1.0)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        jax.jit(lambda x: x + 2)(1.0)
        """,
        tmp_path,
    )
    assert len(recording.runs) == 2
    assert all(process.complete for process in recording.runs)
    assert {miss.run for miss in functions(recording)} == {p.id for p in recording.runs}


def test_children_of_multiprocessing_close_their_recordings(tmp_path: Path) -> None:
    recording = run(
        """
        import multiprocessing, warnings
        warnings.simplefilter("ignore")
        def work():
            jax.jit(lambda x: x + 1)(1.0)
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        assert child.exitcode == 0
        """,
        tmp_path,
    )
    assert len(recording.runs) == 2
    assert all(process.complete for process in recording.runs)


def test_a_program_killed_while_xla_compiles_leaves_what_it_was_doing(tmp_path: Path) -> None:
    program = """
    jax.jit(lambda x: x)(1.0)
    @jax.jit
    def long(x):
        for _ in range(400):
            x = jnp.sin(x) @ jnp.cos(x)
        return x
    long(np.ones((8, 8), np.float32))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", START + textwrap.dedent(program), str(tmp_path)],
        env=os.environ,
    )
    deadline = time.monotonic() + 100
    compiling = False
    while not compiling and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
        if list(tmp_path.glob("*.jsonl")):
            compiling = any(
                miss.function.name == "long" and Stage.LOWER in miss.stages
                for miss in read([tmp_path]).misses
            )
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert compiling, "the program was over before it could be killed"
    recording = read([tmp_path])
    assert not recording.runs[0].complete
    first, last = functions(recording)
    assert set(first.stages) == {Stage.TRACE, Stage.LOWER, Stage.COMPILE}
    assert last.function.name == "long" and Stage.COMPILE not in last.stages


@pytest.mark.parametrize("kind", ["missing", "read-only"])
def test_a_directory_that_cannot_be_written_is_reported_once(kind: str, tmp_path: Path) -> None:
    directory = tmp_path / "gone" if kind == "missing" else tmp_path / "file"
    if kind == "read-only":
        directory.write_text("a file, not a directory")
    done = subprocess.run(
        [sys.executable, "-c", START + "print(jax.jit(lambda x: x + 1)(1.0))", str(directory)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout == "2.0\n"
    assert done.stderr.count("retrace:") == 1
    assert "Traceback" not in done.stderr


def test_an_unknown_jax_is_recorded_with_public_events_alone(tmp_path: Path) -> None:
    recording = run(
        """
        for size in (2, 3):
            jax.jit(lambda x: x + 1)(np.ones(size))
        """,
        tmp_path,
        PYTHONPATH=os.pathsep.join([str(_unknown_jax(tmp_path)), *sys.path]),
    )
    assert recording.runs[0].complete
    (loss,) = recording.runs[0].losses
    assert loss.startswith(LOSS)
    # 0.6.0 tells not even names.
    misses = [miss for miss in recording.misses if Stage.COMPILE in miss.stages]
    assert len(misses) == 2
    assert {miss.function.name for miss in misses} <= {"<lambda>", "<unknown>"}
    assert all(miss.call_site is not None and not miss.call_site.in_library for miss in misses)


def _unknown_jax(tmp_path: Path) -> Path:
    """A folder for the path in which JAX's inside is not what retrace knows."""
    folder = tmp_path.parent / f"{tmp_path.name}-unknown"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "class Unknown:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'retrace.jax_internals.calls':\n"
        "            raise ImportError('cannot import pjit', name='jax._src')\n"
        "sys.meta_path.insert(0, Unknown())\n"
    )
    return folder

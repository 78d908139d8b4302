"""A program of several processes, each recorded, in one recording."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.drawn

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

port, index, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.config.update("jax_compilation_cache_dir", folder)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=index)
print(jax.process_index(), jax.process_count(), len(jax.devices()))

@jax.jit
def own(x):
    return x * 2

for size in ((2, 3), (4,))[index]:
    print(own(np.full(size, 3.0, np.float32)))

rows = NamedSharding(Mesh(np.array(jax.devices()), ("hosts",)), PartitionSpec("hosts"))
given = np.full((1, 2), index + 1.0, np.float32)

@jax.jit
def total(x):
    return x.sum()

print(total(jax.make_array_from_process_local_data(rows, given)))
jax.distributed.shutdown()
"""


def both(program: Path, cache: Path, *before: str) -> list[tuple[int, list[str]]]:
    """The exit status and the lines of each process."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, *before, str(program), str(port), str(index), str(cache)],
            cwd=program.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for index in (0, 1)
    ]
    found: list[tuple[int, list[str]]] = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            assert "retrace:" not in err
            # The collectives library writes to the same stream.
            lines = [line for line in out.splitlines() if not line.startswith("[Gloo]")]
            found.append((process.returncode, lines))
    finally:
        for process in processes:
            process.kill()
    return found


def test_two_processes_in_one_recording(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    plain = both(program, tmp_path / "cache")
    assert [lines[0] for _, lines in plain] == ["0 2 2", "1 2 2"]
    assert [lines[-1] for _, lines in plain] == ["6.0", "6.0"]
    run = ("-m", "retrace", "run", "--quiet", "--append", "--out", str(tmp_path / "out"))
    # Process 0 finds what it stored in the plain run; process 1 cannot use that.
    assert both(program, tmp_path / "cache", *run) == plain
    done = subprocess.run(
        [sys.executable, "-m", "retrace", "report", str(tmp_path / "out"), "--format", "json"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    report = json.loads(done.stdout)
    runs = {run["id"]: run for run in report["runs"]}
    assert sorted(run["process_index"] for run in runs.values()) == [0, 1]
    assert all(run["complete"] and run["losses"] == {} for run in runs.values())
    assert {run["backend"] for run in runs.values()} == {"cpu"}
    found = [
        (
            miss["function"]["name"],
            runs[miss["run"]]["process_index"],
            miss["cause"],
            [change["new"] for change in miss["changes"] if change["component"] == "shape"],
        )
        for miss in report["misses"]
        if miss["function"]["kind"] != "op"
    ]
    # The first call in a process is a first trace, whatever the other process did.
    assert sorted(found) == [
        ("own", 0, "first-trace", []),
        ("own", 0, "shape-changed", [[3]]),
        ("own", 1, "first-trace", []),
        ("total", 0, "first-trace", []),
        ("total", 1, "first-trace", []),
    ]
    assert report["summary"]["persistent_cache"]["not_stored"] == {"another-process": 2}
    [unserved] = report["summary"]["persistent_cache"]["unserved"]
    looked = [
        (runs[miss["run"]]["process_index"], miss["persistent_cache"]["outcome"])
        for miss in report["misses"]
        if miss["persistent_cache"] is not None
    ]
    assert {outcome for index, outcome in looked if index == 0} == {"hit"}
    assert [unserved["processes"], unserved["look_ups"]] == [[1], len(looked) - 3]
    # `own` has a different shape there, so process 0 never compiled it.
    assert unserved["why"]["another-key"] == unserved["why"]["alone"] == 1
    assert unserved["ingredients"] == ["accelerator_config"]
    nearest = {miss["id"]: miss["run"] for miss in report["misses"]}
    again = [miss for miss in report["misses"] if miss["nearest"]]
    assert again and all(nearest[miss["nearest"]] == miss["run"] for miss in again)

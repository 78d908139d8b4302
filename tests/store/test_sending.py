"""Recordings that are sent to object stores while they are written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from retrace.errors import UsageError
from retrace.store import sending
from retrace.store.attempts import Job
from retrace.store.processes import files_of
from retrace.store.remote import Store
from tests.process import retrace

STEP = """
import jax, numpy as np
step = jax.jit(lambda x: x * 2)
for size in range(1, 5):
    step(np.ones(size))
"""
SEEN = """
import os, sys, threading
assert threading.enumerate() == [threading.main_thread()]
assert not [name for name in sys.modules if name.partition(".")[0] in ("fsspec", "s3fs", "boto3")]
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    pass
else:
    raise SystemExit("a child of retrace")
"""


def names(address: str) -> list[str]:
    fsspec: Any = __import__("fsspec")
    store = fsspec.filesystem("s3", skip_instance_cache=True)
    return sorted(path.rpartition("/")[2] for path in store.find(address))


def test_a_program_is_recorded_to_a_store_and_does_not_see_it(
    bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SEEN + STEP + SEEN)
    done = retrace("run", "--out", f"{bucket}/run", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"sent to {bucket}/run" in done.stderr
    (own,) = (tmp_path / ".retrace").glob("2*")
    kept = sorted(file.name for file in own.iterdir())
    assert len(kept) == 2  # nothing is left of the sending itself
    assert [name for name in names(f"{bucket}/run") if not name.startswith(".")] == kept
    there = retrace("report", f"{bucket}/run", "--format", "json", cwd=tmp_path)
    here = retrace("report", own, "--format", "json", cwd=tmp_path)
    assert (there.returncode, there.stdout) == (0, here.stdout)
    assert len(json.loads(here.stdout)["misses"]) >= 4
    again = retrace("run", "-q", "--out", f"{bucket}/run", "train.py", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    reported = retrace("report", f"{bucket}/run", cwd=tmp_path)
    assert "1 earlier attempt" in reported.stderr
    compared = retrace("diff", f"{bucket}/run", cwd=tmp_path)
    assert (compared.returncode, compared.stderr) == (0, "")


def test_what_a_killed_program_had_recorded_is_sent(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        STEP + "print('ready', flush=True)\nimport time\ntime.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "retrace", "run", "--out", f"{bucket}/run", "train.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env=os.environ,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(1)  # by then, what was recorded is on disk
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not any(name.endswith(".jsonl") for name in names(f"{bucket}/run")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    reported = retrace("report", f"{bucket}/run", "--format", "json", cwd=tmp_path)
    assert len(json.loads(reported.stdout)["misses"]) >= 4
    (own,) = (tmp_path / ".retrace").glob("2*")
    while [file for file in own.iterdir() if file.name.startswith(".sending")]:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_store_that_cannot_be_written_is_reported_before_the_program_starts(
    bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("print('began')")
    for address in ("s3://no-such-bucket/run", "nonsense://bucket/run"):
        done = retrace("run", "--out", address, "train.py", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"cannot record to {address}" in done.stderr and "--out DIR" in done.stderr
        assert len(done.stderr.splitlines()) <= 3
        assert not list((tmp_path / ".retrace").glob("2*"))
    done = retrace("run", "--force", "--out", f"{bucket}/run", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and "--force" in done.stderr


def test_without_fsspec_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "find_spec", lambda name: None)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    with pytest.raises(UsageError, match=r"retrace-jax\[remote\]"):
        sending.begin("s3://bucket/run", tmp_path, Job(), append=False)


def sender(address: str, directory: Path, job: Job | None = None) -> sending.Sender:
    directory.mkdir(exist_ok=True)
    process = os.getpid()
    order = sending.Order(
        address, str(directory), process, time.time(), Job() if job is None else job, False
    )
    return sending.Sender(order)


def read(address: str) -> bytes:
    from retrace.store import remote

    remote._fetched.cache_clear()  # pyright: ignore[reportPrivateUsage]
    (file,) = files_of(Path(address))
    return file.read_bytes()


def test_a_growing_file_is_sent_in_parts_and_is_one_object_in_the_end(tmp_path: Path) -> None:
    fsspec: Any = __import__("fsspec")
    memory = fsspec.filesystem("memory")
    own = sender("memory://grown/run", tmp_path / "run")
    file = tmp_path / "run" / "a.jsonl"
    for part in range(1, 4):
        with file.open("ab") as grown:
            grown.write(b'{"retrace": 1}\n' * part)
        own.send_new(due=True)
        own.send_new(due=False)
        assert read("memory://grown/run") == file.read_bytes()
        assert len(memory.ls("/grown/run")) == part
    own.end()
    assert [one["name"] for one in memory.ls("/grown/run")] == ["/grown/run/a.jsonl"]
    assert read("memory://grown/run/a.jsonl") == file.read_bytes()
    # A child of the program continues.
    with file.open("ab") as grown:
        grown.write(b"more\n")
    own.send_new(due=True)
    assert read("memory://grown/run") == file.read_bytes()


def test_a_long_file_stays_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_MAX_WHOLE_BYTES", 10)
    own = sender("memory://long/run", tmp_path / "run")
    (tmp_path / "run" / "a.jsonl").write_bytes(bytes(range(65, 91)))
    own.end()
    assert read("memory://long/run") == bytes(range(65, 91))


def test_a_file_ends_at_the_first_missing_part() -> None:
    fsspec: Any = __import__("fsspec")
    memory = fsspec.filesystem("memory")
    for name in ("a.jsonl.0-3", "a.jsonl.2-6", "a.jsonl.8-9"):
        memory.pipe(f"/torn/run/{name}", b"0123456789"[int(name[8]) : int(name[-1])])
    assert read("memory://torn/run") == b"012345"


def test_processes_of_one_start_are_one_attempt_and_a_restart_is_the_next(tmp_path: Path) -> None:
    def join(rank: int) -> int:
        return sender("memory://job/run", tmp_path / "run", Job("slurm-7", rank, 2)).join()

    assert [join(0), join(1)] == [1, 1]
    assert [join(1), join(0)] == [2, 2]
    members = Store("memory://job/run").members()
    assert {number: len(found) for number, found in members.items()} == {1: 2, 2: 2}

"""Explains processes of recordings in parallel: locally, and on a real Dask cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from retrace.command import report, selection, workers
from retrace.command.explaining import explained
from retrace.command.selection import Selection
from retrace.errors import UnreadableError, UsageError
from retrace.store import redaction
from tests.reading.test_cli import COMMAND, environment
from tests.reading.test_scale import everything, several

ROOT = Path(__file__).parents[2]
# Two threads in one of two workers: explanations must not interfere with each other.
CLUSTER = """
import sys
from dask.distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("distributed")
    program = tmp_path_factory.mktemp("cluster") / "cluster.py"
    program.write_text(CLUSTER)
    with subprocess.Popen(
        [sys.executable, program],
        cwd=program.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        assert running.stdout is not None
        yield running.stdout.readline().strip()
        try:
            running.communicate(timeout=60)
        except subprocess.TimeoutExpired:  # on a busy machine its workers may never answer
            running.kill()


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
@pytest.mark.parametrize("held", [0, 1 << 24], ids=["large", "small"])
def test_all_give_the_same_result(
    cluster: str, redact: bool, held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selection, "_MAX_HELD", held)
    # Otherwise the key of each is drawn at random.
    monkeypatch.setattr(redaction.Redaction.__init__, "__defaults__", (bytes(32),))
    # A relative path means nothing to a worker in another folder.
    one, here, there = (
        everything(Selection([Path()], redact=redact, jobs=jobs, dask=dask))
        for jobs, dask in ((None, None), (2, None), (None, cluster))
    )
    assert here == one
    assert there == one


def test_the_command_works_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    several(tmp_path)
    said = [
        subprocess.run(
            [*COMMAND, "report", str(tmp_path), *options],
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        for options in ((), ("--dask", cluster))
    ]
    assert "misses in train.py" in said[0].stdout
    assert said[1].stdout == said[0].stdout
    assert said[1].stderr == said[0].stderr == ""


def test_a_cluster_without_retrace_is_reported(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "not_there.py").write_text("def work():\n    return 1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module = __import__("not_there")
    with (
        pytest.raises(UsageError, match="has no retrace"),
        workers.workers(None, cluster) as found,
    ):
        found.executor.submit(module.work).result()


def test_our_own_failure_is_not_blamed_on_the_cluster(cluster: str) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        workers.workers(None, cluster) as found,
    ):
        found.executor.submit(divmod, 1, 0).result()


def test_killed_workers_are_reported(cluster: str) -> None:
    for jobs, address in ((2, None), (None, cluster)):
        with (
            pytest.raises(UsageError, match="was killed"),
            workers.workers(jobs, address) as found,
        ):
            found.executor.submit(os._exit, 3).result()


def test_files_that_workers_cannot_see_are_reported(tmp_path: Path) -> None:
    several(tmp_path)

    class Elsewhere:
        def submit(self, *_: object) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(UnreadableError("cannot read p.jsonl: no such file"))
            return future

    there: Any = workers.Workers(Elsewhere(), 2, "tcp://there:1")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnreadableError, match="all workers can"):
        list(explained([tmp_path], None, there, None))


def test_without_dask_or_a_cluster_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several(tmp_path)
    address = "tcp://127.0.0.1:9"
    with pytest.raises(UsageError, match="pass only one"):
        report.report([tmp_path], jobs=2, dask=address)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "dask.distributed", None)
        with pytest.raises(UsageError, match=r"retrace-jax\[dask\]"):
            report.report([tmp_path], dask=address)
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "_CONNECT_TIMEOUT", 1)
    with pytest.raises(UsageError, match=f"cluster at {address}"):
        report.report([tmp_path], dask=address)

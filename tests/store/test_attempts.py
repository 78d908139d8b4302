"""Processes that start at the same time agree, without a lock, which of them belong together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from retrace.store.attempts import Attempt, Job, join, known_job

JOIN = """
import sys, time
from pathlib import Path
from retrace.store.attempts import Job, join
print(join(Path(sys.argv[1]), Job(sys.argv[2] or None, int(sys.argv[3]), 8)).number, flush=True)
sys.stdin.read()
"""


UNNUMBERED = """
import sys
from pathlib import Path
from retrace.store.attempts import Job, join
print(join(Path(sys.argv[1]), Job(sys.argv[2])).number, flush=True)
sys.stdin.read()
"""


def joined_together(folder: Path, job: str, ranks: range) -> list[str]:
    """The attempts of processes that all ran at the same time."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", JOIN, str(folder), job, str(rank)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in ranks
    ]
    found: list[str] = []
    for process in started:
        assert process.stdout is not None
        found.append(process.stdout.readline().strip())
    for process in started:
        process.communicate("")
    return found


@pytest.mark.parametrize("job", ["", "job"])
def test_processes_that_start_together_are_one_attempt(job: str, tmp_path: Path) -> None:
    assert joined_together(tmp_path, job, range(8)) == ["1"] * 8
    assert joined_together(tmp_path, job, range(8)) == ["2"] * 8
    assert sorted(os.listdir(tmp_path)) == [".attempt-1", ".attempt-2"]


def test_a_late_process_of_a_job_joins_but_a_restarted_one_does_not(
    tmp_path: Path,
) -> None:
    assert join(tmp_path, Job("a", 0, 3)) == Attempt(1, "a", 3)
    assert join(tmp_path, Job("a", 2, 3)).number == 1
    assert join(tmp_path, Job("a", 2, 3)).number == 2
    assert join(tmp_path, Job("a", 0, 3)).number == 2
    assert join(tmp_path, Job("b", 1, 3)).number == 3
    assert join(tmp_path, Job("c"), append=True).number == 3


def test_a_restart_counted_by_the_scheduler_is_the_next_attempt(tmp_path: Path) -> None:
    assert join(tmp_path, Job("a", 0, 3)).number == 1
    # This process did not exist at the first start.
    assert join(tmp_path, Job("a", 1, 3, 1)).number == 2
    assert join(tmp_path, Job("a", 0, 3, 1)).number == 2
    assert join(tmp_path, Job("a", 1, 3, 2)).number == 3


def test_a_restart_is_found_without_numbered_processes(tmp_path: Path) -> None:
    def started(*ranks: str, name: str = "job") -> list[str]:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", UNNUMBERED, str(tmp_path), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "LOCAL_RANK": rank},
            )
            for rank in ranks
        ]
        found = [(process.stdout or sys.stdin).readline().strip() for process in processes]
        for process in processes:
            process.communicate("")
        return found

    # One after the other, like hosts that come late.
    assert [*started("0"), *started("1"), *started("2")] == ["1", "1", "1"]
    # Restarted: all earlier processes have ended.
    assert started("0", "1", "2") == ["2", "2", "2"]
    # Nothing distinguishes these, except that they run at the same time.
    assert started("", "", name="equal") == ["3", "3"]
    assert started("", "", name="equal") == ["4", "4"]


def test_a_recording_older_than_attempts_is_the_first(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text("{}")
    assert join(tmp_path, Job()).number == 2


def test_an_invalid_attempt_file_is_another_attempt(tmp_path: Path) -> None:
    (tmp_path / ".attempt-4").write_bytes(b'\xff\n[1]\n{"pid": "x", "job": {}}\n{"pid": -1')
    assert join(tmp_path, Job()).number == 5


def test_a_child_joins_its_parents_attempt_despite_newer_ones(tmp_path: Path) -> None:
    for job in "abc":
        join(tmp_path, Job(job))
    inherited = {"RETRACE_DIR": str(tmp_path), "RETRACE_ATTEMPT": "2"}
    assert join(tmp_path, Job(), variables=inherited).number == 2


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({}, Job()),
        ({"SLURM_JOB_ID": "7"}, Job()),
        (
            {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_NTASKS": "8"},
            Job("slurm-7.0", 3, 8),
        ),
        (
            {"SLURM_JOB_ID": "7", "SLURM_PROCID": "3", "SLURM_RESTART_COUNT": "2"},
            Job("slurm-7", 3, None, 2),
        ),
        ({"JOB_COMPLETION_INDEX": "2", "HOSTNAME": "train-2"}, Job("kubernetes-train", 2)),
        ({"JOB_COMPLETION_INDEX": "2", "HOSTNAME": "train-2-x7k2p"}, Job("kubernetes-train", 2)),
        # With host networking, the name is that of the node.
        ({"JOB_COMPLETION_INDEX": "2", "HOSTNAME": "node-b-7"}, Job("kubernetes", 2)),
        (
            {
                "JOB_COMPLETION_INDEX": "1",
                "HOSTNAME": "node-b",
                "JAX_COORDINATOR_ADDRESS": "h:1",
                "JAX_NUM_PROCESSES": "4",
            },
            Job("at-h:1", 1, 4),
        ),
        ({"JAX_COORDINATOR_ADDRESS": "h:1", "JAX_PROCESS_ID": "x"}, Job("at-h:1")),
    ],
)
def test_the_job_comes_from_the_scheduler(variables: dict[str, str], job: Job) -> None:
    assert known_job(variables=variables) == job
    assert known_job("mine", variables) == job._replace(name="mine")

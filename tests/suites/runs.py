"""One run of a suite, plain or recorded, in a process of its own, and what was seen of it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path(__file__).resolve().parents[2]
_PLUGIN = Path(__file__).parent / "plugin"
_CACHE = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


class Test(NamedTuple):
    """What one test came to, and what JAX counted meanwhile."""

    name: str
    began: float
    """Seconds since the epoch."""
    ended: float
    events: Counter[str]
    names: Counter[str]
    """The same by the function's name: `compile: step`."""
    outcomes: list[list[str]]
    """Phase, outcome, and of a failure its message and its frames outside JAX."""
    warnings: list[str]
    arrays: dict[str, list[int]]
    """By function of the suite: how many arrays it held when it returned, and their digest."""


@dataclass
class Run:
    """A whole suite, run once."""

    seconds: float
    """By the clock."""
    busy: float
    """Of processor time."""
    status: int
    """The exit status; None of ours, pytest's."""
    tests: list[Test]
    tail: str
    """The last lines that it printed."""
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    """`retrace report --format json` of a recorded run."""
    recording: Path | None = None

    def total(self, event: str) -> int:
        return sum(test.events[event] for test in self.tests)

    def arrays(self) -> int:
        """How many arrays the suite's own functions held when they returned."""
        return sum(count for test in self.tests for count, _ in test.arrays.values())

    def outcomes(self) -> Counter[str]:
        """How many tests passed, failed, were skipped."""
        found: Counter[str] = Counter()
        for test in self.tests:
            kinds = {outcome[1] for outcome in test.outcomes}
            for kind in ("failed", "skipped", "passed"):
                if kind in kinds:
                    found[kind] += 1
                    break
        return found


class Suite(NamedTuple):
    """A checkout of another project, and the part of its tests that is run."""

    python: str
    checkout: Path
    selection: tuple[str, ...]
    """What is given to pytest."""
    limit: float
    """Seconds for each run."""
    over: float | None = None
    """From how many seconds on a miss is slow; None where that is not observed."""

    def run(self, scratch: Path, *, recorded: bool, cache: Path | None = None) -> Run:
        """Run it once; `scratch` is a directory that does not exist yet."""
        scratch.mkdir(parents=True)
        counts = scratch / "counts.jsonl"
        beside = laid_beside(scratch)
        recording = scratch / "recording"
        slow = () if self.over is None else ("--slow-over", str(self.over))
        through = ("-m", "retrace", "run", "-q", *slow, "--out", str(recording))
        command = [
            self.python,
            *(through if recorded else ()),
            *("-m", "pytest", "-q", "-rN", "--tb=short"),
            *("-p", "suite_counts", "-p", "suite_seeds"),
            *("-p", "no:cacheprovider", "-p", "no:xdist"),
            f"--basetemp={scratch / 'temporary'}",
            *self.selection,
        ]
        output = scratch / "output.txt"
        began, used = time.monotonic(), _processor_seconds()
        with output.open("wb") as file:
            try:
                status = subprocess.run(
                    command,
                    cwd=self.checkout,
                    env=environment_of(beside, counts, cache),
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    timeout=self.limit,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                status = 124
        seconds = time.monotonic() - began
        busy = _processor_seconds() - used
        tail = "\n".join(output.read_text(errors="replace").splitlines()[-15:])
        run = Run(seconds, busy, status, _tests(counts), tail)
        if recorded:
            run.recording = recording
            run.report = self._report(recording, beside)
        return run

    def _report(self, recording: Path, beside: Path) -> dict[str, Any]:
        done = subprocess.run(
            [self.python, "-m", "retrace", "report", str(recording), "--format", "json"],
            env={**os.environ, "PYTHONPATH": str(beside)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"retrace report failed on {recording}:\n{done.stderr}")
        (recording.parent / "report.json").write_text(done.stdout)
        return json.loads(done.stdout)


def _processor_seconds() -> float:
    """What the processes that ended here have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def laid_beside(scratch: Path) -> Path:
    """A folder that holds retrace and the plugins of these suites, and nothing else."""
    beside = scratch / "beside"
    beside.mkdir()
    # By itself, so that our own `tests` does not stand in the way of the project's.
    (beside / "retrace").symlink_to(_ROOT / "retrace")
    for file in _PLUGIN.glob("*.py"):
        (beside / file.name).symlink_to(file)
    return beside


def environment_of(beside: Path, counts: Path, cache: Path | None) -> dict[str, str]:
    """The variables of a run."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("RETRACE")}
    given.pop("JAX_COMPILATION_CACHE_DIR", None)
    if cache is not None:
        given |= {"JAX_COMPILATION_CACHE_DIR": str(cache), **_CACHE}
    return {
        "JAX_PLATFORMS": "cpu",
        **given,
        # Sets in one order, so that only recording can make a difference.
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(beside),
        "SUITE_COUNTS": str(counts),
    }


def _tests(counts: Path) -> list[Test]:
    if not counts.exists():
        return []
    lines = [json.loads(line) for line in counts.read_text().splitlines()]
    return [
        Test(
            line["test"],
            line["began"],
            line["ended"],
            Counter(line["events"]),
            Counter(line["names"]),
            line["outcomes"],
            line["warnings"],
            line["arrays"],
        )
        for line in lines
    ]


def programs(directory: Path) -> set[str]:
    """The keys of the programs that a persistent cache holds."""
    return {file.name for file in directory.iterdir() if file.name.endswith("-cache")}

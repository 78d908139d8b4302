"""Real processes of one job: which one diverges, where first, and how."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from retrace.command.hosts import hosts
from retrace.command.report import report
from retrace.model import Key
from tests.reading.story import TRAIN_STEP, Story, array, at, write
from tests.reading.test_present_schema import DIVERGENCE

pytestmark = pytest.mark.drawn

VALIDATOR: Any = Draft202012Validator(DIVERGENCE)
ROOT = Path(__file__).parents[2]
JOB = ROOT / "tests" / "recording" / "programs" / "job.py"
COUNT = 3
ODD = COUNT - 1
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings of all cases, run one after the other by each process."""
    out = tmp_path_factory.mktemp("job")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, str(JOB), str(port), str(index), str(COUNT), str(out)],
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(COUNT)
    ]
    try:
        wait_until_it_hangs(out, processes)
    finally:
        for process in processes:
            process.kill()
        said = [process.communicate()[1] for process in processes]
    assert not any("retrace:" in text for text in said), said
    return out


def wait_until_it_hangs(out: Path, processes: list[subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        texts = [path.read_text() for path in (out / "hangs").glob("*.jsonl")]
        compiled = [text.count('"stages":{"compile"') for text in texts]
        if len(texts) == COUNT and max(compiled) == 2 and min(compiled) == 1:
            return
        ended = [process.poll() for process in processes]
        assert set(ended) == {None}, [process.communicate()[1] for process in processes]
        time.sleep(0.05)
    raise AssertionError("the job did not come to its last case")


class Told:
    """Runs the command line in this process."""

    def __init__(self, recorded: Path, output: pytest.CaptureFixture[str]) -> None:
        self._recorded = recorded
        self._output = output

    def hosts(self, case: str, status: int) -> dict[str, Any]:
        assert hosts([self._recorded / case], "json") == status
        found = json.loads(self._output.readouterr().out)
        VALIDATOR.validate(found)
        assert found["processes"] == COUNT
        assert found["equal"] is (found["first"] is None) is (status == 0)
        return found

    def report(self, case: str) -> dict[str, Any]:
        assert report([self._recorded / case], "json") == 0
        return json.loads(self._output.readouterr().out)


@pytest.fixture
def told(recorded: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(recorded, capsys)


@pytest.mark.parametrize(
    "case", ["equal", "logs_more", "threads", "placed", "evicted"], ids=lambda case: case
)
def test_processes_that_do_the_same_give_no_alarm(told: Told, case: str) -> None:
    assert told.hosts(case, 0)["environment"] == []


@pytest.mark.parametrize(
    ("case", "how", "function", "occurrence", "spans", "changes", "reads"),
    [
        ("later_shape", "extra", "step", 2, None, [("shape", "batch['x']", [8, 4], [7, 4])], []),
        ("later_static", "extra", "step", 2, None, [("static", "n", "2", "5")], []),
        ("first_program", "other", "step", 1, COUNT, [], [("scale", "2.0", "3.0")]),
        ("first_shape", "other", "step", 1, None, [("shape", "x", [8, 4], [7, 4])], []),
        (
            "precision",
            "other",
            "step",
            1,
            None,
            [("config", "jax_default_matmul_precision", "None", "'highest'")],
            [],
        ),
        ("extra_call", "extra", "extra", 1, COUNT, [], []),
        ("hangs", "extra", "extra", 1, COUNT, [], []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_diverging_process_is_named(
    told: Told,
    case: str,
    how: str,
    function: str,
    occurrence: int,
    spans: int | None,
    changes: list[tuple[Any, ...]],
    reads: list[tuple[Any, ...]],
) -> None:
    found = told.hosts(case, 1)
    first = found["first"]
    assert first["minority"] == [ODD]
    assert (first["how"], first["function"], first["occurrence"]) == (how, function, occurrence)
    assert first["spans"] == spans
    assert [_sides(one) for one in first["changes"] if one["component"] != "program"] == changes
    assert [_sides(one)[1:] for one in first["reads"]] == reads
    sides = first["processes"]
    assert sorted(sides) == [str(number) for number in range(COUNT)]
    assert sides[str(ODD)]["miss"] is not None
    assert (sides["0"]["miss"] is None) is (how == "extra")
    assert {side["stopped"] for side in sides.values()} == {case == "hangs"}
    assert found["others"] == []


def _sides(change: dict[str, Any]) -> tuple[Any, ...]:
    return change["component"], change["path"], _text(change["old"]), _text(change["new"])


def _text(side: Any) -> Any:
    return side["text"] if isinstance(side, dict) else side  # pyright: ignore[reportUnknownVariableType]


def test_different_flags_are_reported_with_the_first_program_they_affect(told: Told) -> None:
    found = told.hosts("flags", 1)
    first = found["first"]
    assert (first["how"], first["minority"]) == ("environment", [ODD])
    assert [_sides(one) for one in first["changes"]] == [
        ("config", "XLA_FLAGS", "", "--xla_cpu_enable_fast_math=true")
    ]
    assert {side["miss"] is None for side in first["processes"].values()} == {False}
    assert [one["name"] for one in found["environment"] if one["matters"]] == ["XLA_FLAGS"]


def test_if_no_two_agree_all_but_the_first_are_named(told: Told) -> None:
    first = told.hosts("random_constant", 1)["first"]
    assert first["minority"] == list(range(1, COUNT))
    assert [change["path"] for change in first["changes"]][:1] == ["identity"]


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((8, 9, 10, 11), "float32[9] in process 1, float32[8] in process 0"),
        ((8, 8, 8, 9), "float32[9], the others float32[8]"),
        ((8, 9), "float32[9], the other one float32[8]"),
    ],
)
def test_each_side_names_its_processes(
    sizes: tuple[int, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for process, size in enumerate(sizes):
        story = Story(f"p{process}", process_index=process, process_count=len(sizes))
        key = Key((array("x", "float32", size),))
        story.miss(TRAIN_STEP, key, at(88, "step(x)"), (0.1, 0.1, 1.0))
        write(story, tmp_path)
    assert hosts([tmp_path], "text") == 1
    told = " ".join(capsys.readouterr().out.split())
    assert f"because shape x {said} called" in told


def test_a_report_shows_it_too(told: Told) -> None:
    assert told.report("equal")["divergence"] is None
    assert told.report("later_shape")["divergence"] == told.hosts("later_shape", 1)

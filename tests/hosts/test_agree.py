"""Processes of a job that agree on what they compile, and some that do not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import retrace
from retrace.guards import agree
from retrace.jax_internals import job
from retrace.jax_internals.job import Joined, Store
from retrace.model import Key
from tests.reading.story import TRAIN_STEP

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "recording" / "programs" / "agreeing.py"
COUNT = 4
LAST = COUNT - 1


class Ran(list[dict[str, dict[str, Any]]]):
    """The output of each process by case, and retrace's messages."""

    said: list[str]


@pytest.fixture(scope="module")
def ran() -> Ran:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(port), str(index), str(COUNT)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(COUNT)
    ]
    told = Ran()
    told.said = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=300)
            assert process.returncode == 0, err
            lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            told.append({line["case"]: line for line in lines})
            told.said.append("\n".join(x for x in err.splitlines() if x.startswith("retrace: ")))
    finally:
        for process in processes:
            process.kill()
    return told


@pytest.mark.drawn
@pytest.mark.parametrize("case", ["equal", "again", "alone", "late", "warned", "off"])
def test_agreement_raises_nowhere(ran: Ran, case: str) -> None:
    assert [process[case]["said"] for process in ran] == [None] * COUNT


@pytest.mark.drawn
@pytest.mark.parametrize(
    ("case", "function", "sides"),
    [
        ("other program", "other", ("scale: ", "2.0", "3.0")),
        ("other shape", "step", ("argument x: ", "float32[4,6]", "float32[4,7]")),
    ],
)
def test_every_process_reports_the_other_program(
    ran: Ran, case: str, function: str, sides: tuple[str, ...]
) -> None:
    for index, process in enumerate(ran):
        said = process[case]["said"]
        assert said.startswith("DisagreementError") and f" {function} (" in said, said
        assert all(side in said for side in sides), said
        assert (f"than process {LAST}" in said) is (index != LAST), said


@pytest.mark.drawn
def test_a_late_process_is_reported_with_its_last_program(ran: Ran) -> None:
    waited = [text for text in ran.said[:LAST] if f"process {LAST} (last seen at step (" in text]
    assert len(waited) == LAST, ran.said
    assert ran[LAST]["late"]["said"] is None


@pytest.mark.drawn
def test_warn_mode_reports_and_continues(ran: Ran) -> None:
    assert "<lambda>" in ran.said[LAST] or any("<lambda>" in text for text in ran.said[:LAST])


@pytest.mark.drawn
def test_256_processes_agree_through_the_same_store(ran: Ran) -> None:
    assert ran[0]["many"]["said"] is None


@pytest.mark.parametrize(("on", "timeout"), [("loud", 60.0), ("raise", 0.0), ("warn", -1.0)])
def test_invalid_arguments_are_refused(on: Any, timeout: float) -> None:
    with pytest.raises(retrace.RetraceError):
        retrace.agree(on, timeout)


def test_a_store_that_fails_costs_one_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("UNAVAILABLE: the coordinator is gone")

    joined = Joined("host:1", 0, Store(Gone()), 1)
    monkeypatch.setattr(job, "joined", lambda: joined)
    monkeypatch.setattr(agree, "_failed", False)
    here: Any = agree._Here(raises=True, timeout=1.0)  # pyright: ignore[reportPrivateUsage]
    for number in range(2):
        here.noted(number, TRAIN_STEP, Key(()), None)
        here.joint(number, "hash", (0, 1))
        assert here.stop() is None
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("retrace: agree: ") and "UNAVAILABLE: the coordinator is gone" in said


def test_without_a_job_nothing_is_compared() -> None:
    jnp: Any = import_module("jax.numpy")
    retrace.agree("raise", timeout=1.0)
    try:
        assert jnp.ones(3).tolist() == [1.0] * 3
    finally:
        retrace.agree("off")

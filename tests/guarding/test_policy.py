"""What a process does about misses, and what it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import retrace
from retrace.errors import MissError, UsageError


def ones(size: int) -> Any:
    return np.ones(size, np.float32)


def again(times: int) -> None:
    for _ in range(times):
        jax.jit(lambda x: x + 1)(ones(3))


def test_warn_reports_once_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with retrace.policy("warn", dear=0.0):
        again(12)
    said = capsys.readouterr().err
    assert said.count("retrace: ") == 2
    assert "<lambda> traced again" in said
    assert "lambda-recreated for the 10th time" in said
    again(2)
    assert capsys.readouterr().err == ""


def test_warn_ignores_cheap_and_unavoidable_misses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = jax.jit(lambda x: x * 2)
    with retrace.policy("warn", dear=1e6):
        again(3)
    with retrace.policy("warn", dear=0.0):
        step(ones(2))
        step(ones(7))
    assert capsys.readouterr().err == ""
    with retrace.policy("warn", dear=0.0, every=True):
        step(ones(8))
        step(ones(9))
    assert "float32[" in capsys.readouterr().err


def test_what_a_guard_judged_at_the_beginning_is_judged_again_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only then is it known that the program is an identical one."""
    frozen, told = retrace.freeze(warn=True), retrace.policy("warn", dear=0.0)
    with pytest.warns(retrace.RetraceWarning), frozen, told:
        again(2)
    assert "identical" in capsys.readouterr().err


def test_cheap_misses_are_reported_once_they_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    dear = 1.0  # of which no single miss takes that long, however loaded the machine is
    costs: list[float] = []
    with retrace.recording() as recorded, retrace.policy("warn", dear=dear):
        while not (said := capsys.readouterr().err):
            assert len(costs) < 1000
            again(1)
            costs = [
                sum(one["stages"].values())
                for one in recorded.misses
                if one["avoidable"] == "yes"
            ]
    assert "<lambda> traced again" in said
    assert {one["cause"] for one in recorded.misses if one["avoidable"] == "yes"} == {
        "lambda-recreated"
    }
    # Not before they were worth it, nor much later. What each had cost by the policy's count when
    # it was judged is not asked: on a loaded machine the message came some misses late.
    assert sum(costs[: len(costs) // 2]) < dear <= sum(costs)


def test_the_inner_policy_applies() -> None:
    with retrace.policy("raise"):
        with pytest.raises(MissError):
            again(1)
        with retrace.policy("off"):
            again(1)
        with pytest.raises(MissError):
            again(1)
    again(1)


def test_as_a_statement_and_as_a_decorator() -> None:
    policy = retrace.policy("raise")
    with pytest.raises(MissError):
        again(1)
    policy.end()
    with pytest.raises(MissError):
        retrace.policy("raise")(again)(1)
    again(1)


def test_record_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with retrace.policy("record"):
        again(1)
    assert any(miss.call_site.function == "again" for miss in retrace.misses("<lambda>"))


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean raise"):
        retrace.policy("rise")


@pytest.mark.drawn
@pytest.mark.parametrize(
    ("policy", "code", "said"), [("raise", 1, "MissError"), ("warm", 0, "did you mean warn")]
)
def test_the_environment_sets_it(policy: str, code: int, said: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import retrace, sys\nassert 'jax' not in sys.modules\nimport jax\n")
    with program.open("a") as file:
        file.write("jax.jit(lambda x: x + 1)(1.0)\n")
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "RETRACE_POLICY": policy, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == code and said in done.stderr, done.stderr

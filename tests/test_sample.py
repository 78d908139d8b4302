"""What CI leaves out of one run it runs in another; plain `pytest` leaves out nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import sample
from tests.process import environment

FILE = Path("tests", "recording", "test_names.py")
DRAWN = f"{FILE}::test_one_name_less_is_told_and_takes_nothing_else_with_it"


def collected(**part: str) -> list[str]:
    options = ("-q", "--collect-only", "-p", "no:xdist", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(FILE)],
        cwd=sample.ROOT,
        env=environment(**part),
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if line.startswith(str(FILE))]


def test_a_drawn_test_runs_in_one_part_of_three_and_every_other_test_in_each() -> None:
    whole = collected()
    assert DRAWN in whole and len(whole) > 1
    parts = [collected(**{sample.PART: part}) for part in ("0", "1", "2")]
    assert sorted(DRAWN in part for part in parts) == [False, False, True]
    for part in parts:
        assert [test for test in part if test != DRAWN] == [t for t in whole if t != DRAWN]


def test_each_number_is_drawn_about_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"test_{number}" for number in range(1000)]
    found: list[list[str]] = []
    for part in range(4):
        monkeypatch.setenv(sample.PART, str(part))
        found.append([name for name in names if sample.is_drawn(name, of=4)])
    assert sorted(name for part in found for name in part) == sorted(names)
    assert all(150 < len(part) < 350 for part in found)


def test_another_commit_draws_another_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"test_{number}" for number in range(1000)]
    here = sample.shuffled(names)
    assert sorted(here) == sorted(names) and sample.shuffled(reversed(names)) == here
    monkeypatch.setattr(sample, "commit", lambda: "another")
    assert sample.shuffled(names) != here

"""Damaged recordings: a clear error or a counted loss, in bounded time and memory."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from retrace.store import schema
from retrace.store.reader import read as read_recording
from tests.hostile import commands
from tests.hostile.__main__ import ids, record
from tests.hostile.mutations import BOMB, NAMED, Files, bomb, mutate

PROJECT = '[tool.retrace.budgets."*"]\ntraces = 1\n'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("hostile")
    record(home / "whole")
    (home / "pyproject.toml").write_text(PROJECT)
    return home


@pytest.fixture(scope="module")
def files(home: Path) -> Files:
    return commands.read(home / "whole")


def arguments(home: Path, files: Files) -> list[tuple[str, ...]]:
    """Every command that reads, on the damaged recording."""
    damaged = home / "damaged"
    found = commands.lines(
        damaged, home / "whole", home / "profile.pb.gz", home / "pyproject.toml"
    )
    found += [
        ("show", id_, str(damaged), "--format", how) for id_ in ids(files) for how in FORMATS
    ]
    return [*found, ("diff", *ids(files), "--recording", str(damaged))]


FORMATS = ("text", "json")


def test_every_command_reads_the_undamaged_recording(home: Path, files: Files) -> None:
    commands.write(files, home / "damaged")
    assert read_recording([home / "damaged"]).runs[0].losses == {}
    for line in arguments(home, files):
        ended = commands.run(*line)
        assert ended.status == (1 if line[0] == "check" else 0), ended
        assert commands.complaint(ended) is None


# For longer: python -m tests.hostile --seconds 600
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 1 << 32))
@example(seed=141)
def test_a_damaged_recording_is_an_error_or_a_loss(home: Path, seed: int) -> None:
    random, files = Random(seed), commands.read(home / "whole")
    commands.write(mutate(files, random), home / "damaged")
    for line in random.sample(arguments(home, files), 3):
        ended = commands.run(*line)
        assert commands.complaint(ended) is None, ended


@pytest.mark.parametrize("damage", NAMED)
def test_each_kind_of_damage(home: Path, files: Files, damage: Callable[..., None]) -> None:
    for seed in range(4):
        damaged = dict(files)
        damage(damaged, Random(seed))
        commands.write(damaged, home / "damaged")
        for line in (("report", str(home / "damaged")), ("programs", str(home / "damaged"))):
            ended = commands.run(*line)
            assert commands.complaint(ended) is None, ended


def test_what_cannot_be_read_is_counted(home: Path, files: Files) -> None:
    for intact, damage, reason in (
        (b'"kind":"leaves"', b'"kind":"lea\x00s"', schema.KEY_MISSING),
        (b'"kind":"leaves"', b'"kind":"lea\x00s"', "unreadable line"),
        (b'"texts":[', b'"texts":{', "unreadable programs"),
        (b'{"listings":["', b'{"listing:["', "unreadable programs"),
    ):
        damaged = {name: data.replace(intact, damage) for name, data in files.items()}
        assert damaged != files
        commands.write(damaged, home / "damaged")
        for how in FORMATS:
            ended = commands.run("report", str(home / "damaged"), "--format", how)
            assert ended.status == 0
            assert reason in " ".join(ended.out.split())


@pytest.mark.parametrize("seed", range(3))
def test_a_compressed_bomb_is_not_unpacked(home: Path, files: Files, seed: int) -> None:
    commands.write(bomb(files, Random(seed)), home / "damaged")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for line in (("report", str(home / "damaged")), ("programs", str(home / "damaged"))):
        ended = commands.run(*line)
        assert commands.complaint(ended) is None, ended
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # Its objects would need thirty times its unpacked size.
    assert grown * 1024 < 4 * BOMB, f"{grown >> 10} MiB"

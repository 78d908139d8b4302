"""A host that finds nothing in the disk cache is mentioned in every format of the report."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from retrace.hosts.stored import Unserved, Why
from retrace.model import Key, PersistentCache
from retrace.present.unserved import sentence
from tests.reading.story import TRAIN_STEP, Story, array, at, write
from tests.reading.test_cli import COMMAND, environment
from tests.reading.test_present import says

KEY, OTHER = "a" * 64, "b" * 64
MISSED, FOUND = PersistentCache("miss", KEY), PersistentCache("hit", KEY, saved=2.0)


def reported(
    tmp_path: Path, first: PersistentCache | None, theirs: PersistentCache, format: str = "text"
) -> str:
    """What a report says about two processes, by what the cache did for each one's program."""
    for number, cache in enumerate((first, theirs)):
        story = Story(f"p{number}", process_index=number, process_count=2)
        if cache is not None:
            story.miss(
                TRAIN_STEP,
                Key((array("x", "float32", 8),)),
                at(88, "step(x)"),
                (0.1, 0.1, 1.0),
                persistent_cache=cache,
            )
        else:  # it looked up another program
            story.miss(
                TRAIN_STEP,
                Key((array("x", "float32", 9),)),
                at(88, "step(x)"),
                (0.1, 0.1, 1.0),
                persistent_cache=PersistentCache("hit", OTHER),
            )
        write(story, tmp_path / story.run.id)
    said = subprocess.run(
        [*COMMAND, "report", str(tmp_path), "--format", format],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return " ".join(said.replace("<br>", " ").split())


def because(why: Why) -> str:
    """What is said about one program that process 1 looked up in vain."""
    return sentence(Unserved((1,), 1, 1.0, ((why, 1),), (), ()))


def test_every_reason_is_worded() -> None:
    says("unserved.txt", "".join(f"{because(why)}\n" for why in get_args(Why)))


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
@pytest.mark.parametrize(("theirs", "why"), [(KEY, "stored-now"), (OTHER, "another-key")])
def test_every_format_says_why(format: str, theirs: str, why: Why, tmp_path: Path) -> None:
    told = reported(tmp_path, MISSED, PersistentCache("not-stored", theirs, "other"), format)
    assert because(why) in told


@pytest.mark.parametrize(
    ("first", "theirs", "why"),
    [
        (MISSED, PersistentCache("not-stored", KEY, "other"), "stored-now"),
        (MISSED, PersistentCache("not-stored", OTHER, "other"), "another-key"),
        (FOUND, PersistentCache("not-stored", KEY, "other"), "elsewhere"),
        (
            PersistentCache("not-stored", KEY, "min-compile-time"),
            PersistentCache("not-stored", KEY, "other"),
            "not-stored",
        ),
        (None, PersistentCache("not-stored", KEY, "other"), "alone"),
        (MISSED, PersistentCache("not-stored", None, "other"), "unknown"),
    ],
)
def test_every_reason_is_found(
    first: PersistentCache | None, theirs: PersistentCache, why: Why, tmp_path: Path
) -> None:
    told = json.loads(reported(tmp_path, first, theirs, "json"))
    (one,) = told["summary"]["persistent_cache"]["unserved"]
    assert (one["processes"], one["look_ups"], one["why"]) == ([1], 1, {why: 1})


@pytest.mark.parametrize("first", [FOUND, MISSED])
def test_a_process_that_found_something_is_not_mentioned(
    first: PersistentCache, tmp_path: Path
) -> None:
    told = json.loads(reported(tmp_path, first, FOUND, "json"))
    assert told["summary"]["persistent_cache"]["unserved"] == []
    assert "process 1" not in reported(tmp_path, first, FOUND)

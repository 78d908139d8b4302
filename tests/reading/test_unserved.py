"""A host that finds nothing in the disk cache is mentioned in every format of the report."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from retrace.model import Key, PersistentCache
from tests.reading.story import TRAIN_STEP, Story, array, at, write
from tests.reading.test_cli import COMMAND, environment

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


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
@pytest.mark.parametrize(
    ("theirs", "why"),
    [(KEY, "during this start"), (OTHER, "in an unknown way")],
    ids=["stored-now", "another-key"],
)
def test_every_format_says_why(format: str, theirs: str, why: str, tmp_path: Path) -> None:
    told = reported(tmp_path, MISSED, PersistentCache("not-stored", theirs, "other"), format)
    assert "process 1 found nothing there" in told
    assert why in told


@pytest.mark.parametrize(
    ("first", "theirs", "why"),
    [
        (FOUND, PersistentCache("not-stored", KEY, "other"), "read different folders"),
        (
            PersistentCache("not-stored", KEY, "min-compile-time"),
            PersistentCache("not-stored", KEY, "other"),
            "process 0 did not store it either",
        ),
        (None, PersistentCache("not-stored", KEY, "other"), "process 0 did not compile it"),
        (MISSED, PersistentCache("not-stored", None, "other"), "the reason is unknown"),
    ],
    ids=["elsewhere", "not-stored", "alone", "unknown"],
)
def test_every_reason_is_worded(
    first: PersistentCache | None, theirs: PersistentCache, why: str, tmp_path: Path
) -> None:
    told = reported(tmp_path, first, theirs)
    assert "process 1 found nothing there, looked up 1 program and compiled for 1.00 s" in told
    assert why in told


@pytest.mark.parametrize("first", [FOUND, MISSED])
def test_a_process_that_found_something_is_not_mentioned(
    first: PersistentCache, tmp_path: Path
) -> None:
    assert "found nothing there" not in reported(tmp_path, first, FOUND)

"""A host that finds nothing in the disk cache is told of in every form of a report."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from retrace.model import Key, PersistentCache
from tests.reading.story import TRAIN_STEP, Story, array, at, write
from tests.reading.test_cli import COMMAND, environment


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
@pytest.mark.parametrize(
    ("theirs", "why"),
    [("a" * 64, "only in this start"), ("b" * 64, "by what is not known")],
    ids=["stored-now", "another-key"],
)
def test_every_format_tells_why(format: str, theirs: str, why: str, tmp_path: Path) -> None:
    for number, key in enumerate(("a" * 64, theirs)):
        story = Story(f"p{number}", process_index=number, process_count=2)
        cache = PersistentCache(
            "miss" if number == 0 else "not-stored", key, "other" if number else None
        )
        story.miss(
            TRAIN_STEP,
            Key((array("x", "float32", 8),)),
            at(88, "step(x)"),
            (0.1, 0.1, 1.0),
            persistent_cache=cache,
        )
        write(story, tmp_path / story.run.id)
    said = subprocess.run(
        [*COMMAND, "report", str(tmp_path), "--format", format],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    told = " ".join(said.replace("<br>", " ").split())
    assert "process 1 found nothing there" in told
    assert why in told

"""The wording of `retrace diff`, using stored recordings of one program on two releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retrace.model import Key
from retrace.present import runs
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.runs.difference import difference
from retrace.runs.sides import Side
from retrace.store.reader import read
from tests.process import retrace
from tests.reading.story import TRAIN_STEP, Story, array, at, training, write
from tests.reading.test_present import says

STORED = Path(__file__).parent / "recordings"


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("jax-0.6-python-3.11", "jax-0.12-python-3.13", "diff"),
        ("jax-0.12-python-3.12", "jax-0.12-python-3.13", "diff-equal"),
    ],
)
def test_the_wording_of_a_difference(old: str, new: str, name: str) -> None:
    views = [_view(STORED / old), _view(STORED / new)]
    sides = [Side(view.recording, view.verdicts) for view in views]
    found = runs.report(difference(sides[0], sides[1]), views[0], views[1])
    says(f"{name}.txt", runs.text(found, 80))
    says(f"{name}.md", runs.markdown(found))


def _view(directory: Path) -> View:
    recording = read([directory])
    return View(recording, judge(recording))


@pytest.mark.parametrize(
    ("ratios", "slower"),
    [
        ([2.0] * 12, True),
        ([0.4] * 12, True),
        ([3.0] * 10 + [0.9, 1.0], True),
        ([1.3] * 12, False),  # a shared machine
        ([0.7] * 12, False),
        ([2.0] * 5, False),  # momentary load
        ([1.1, 1.2, 1.3, 2.0, 2.2, 2.4] * 2, False),  # all slower, but not alike
    ],
    ids=str,
)
def test_a_machine_is_called_slower_only_beyond_noise(ratios: list[float], slower: bool) -> None:
    old, new = Story("old"), Story("new")
    for rows, ratio in enumerate(ratios):
        for story, spent in ((old, 0.1), (new, 0.1 * ratio)):
            key = Key((array("x", "float32", rows),))
            story.miss(TRAIN_STEP, key, at(88, "step(x)"), (spent, spent, spent))
    sides = [Side(story.recording(), judge(story.recording())) for story in (old, new)]
    assert (difference(*sides).seconds.slower is not None) is slower


def test_settings_are_compared_without_numpy_and_pandas(tmp_path: Path) -> None:
    first, second = training(), training()
    second.run = replace(second.run, jax="0.0.1")
    sides = write(first, tmp_path / "old"), write(second, tmp_path / "new")
    done = retrace("diff", *sides, PYTHONPROFILEIMPORTTIME="1")
    assert "0.0.1" in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "deepdiff" in loaded
    # For a blocked package, only the attempt is listed, and nothing inside it.
    assert not [name for name in loaded if name.startswith(("numpy.", "pandas.", "polars."))]

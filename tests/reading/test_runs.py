"""The wording of `retrace diff`, over stored recordings of one program on two releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrace.present import runs
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.runs.difference import difference
from retrace.runs.sides import Side
from retrace.store.reader import read
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
    told = runs.told(difference(sides[0], sides[1]), views[0], views[1])
    says(f"{name}.txt", runs.text(told, 80))
    says(f"{name}.md", runs.markdown(told))


def _view(directory: Path) -> View:
    recording = read([directory])
    return View(recording, judge(recording))

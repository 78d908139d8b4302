"""The pages of docs/causes are test cases: their programs run, and do what the page says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retrace.causes import Cause
from retrace.present.layout import message
from retrace.present.view import View
from retrace.reason.verdict import judge
from tests import cause_pages as pages
from tests.reading.story import HOME, training

CAUSES = sorted(
    (cause for cause in Cause if cause is not Cause.UNKNOWN),
    # It takes longest, so it starts first while the other worker does the rest.
    key=lambda cause: cause is not Cause.CACHE_EVICTED,
)


@pytest.mark.drawn
@pytest.mark.parametrize("cause", CAUSES, ids=str)
def test_the_program_of_a_page_has_the_marked_misses_and_the_fixed_one_has_none(
    cause: Cause, tmp_path: Path
) -> None:
    page = pages.page(cause)
    assert len(page.programs) == 2
    misses, fixed = pages.record(page.programs, tmp_path)

    report = misses.report()
    marked = pages.marked(page.programs[0])
    assert pages.reported(page, report) == marked
    assert cause.value in {code for _, code, _ in marked}
    assert [run["losses"] for run in report["runs"]] == [{}]
    own = [miss for miss in report["misses"] if miss["cause"] == cause.value]
    assert {miss["fix"]["code"] for miss in own if miss["fix"] is not None} == page.advice
    assert pages.plain(misses.message(cause)) == pages.plain(page.message)

    # Only what the page marks remains, which are first traces.
    assert pages.reported(page, fixed.report()) == pages.marked(page.programs[1])
    assert {code for _, code, _ in pages.marked(page.programs[1])} <= {Cause.FIRST_TRACE.value}


def test_each_cause_has_a_page_and_a_sentence_in_the_index() -> None:
    codes = {cause.value for cause in Cause}
    assert {path.stem for path in pages.FOLDER.glob("*.md")} == codes | {"README"}
    index = (pages.FOLDER / "README.md").read_text()
    assert pages.index(index) == index


def test_an_unknown_cause_is_worded_as_on_its_page() -> None:
    page = pages.page(Cause.UNKNOWN)
    assert (page.programs, page.advice) == ((), frozenset())
    recording = training().recording()
    verdicts = judge(recording)
    step = [verdict for verdict in verdicts if verdict.miss.function.name == "train_step"][1]
    verdict = replace(step, cause=Cause.UNKNOWN, changes=(), fix=None, detail=None, pattern=None)
    text = message(View(recording, verdicts, HOME), verdict)
    assert pages.plain(text) == pages.plain(page.message)

"""Limited output, for readers with little room: `--tokens`, `--top`, `--sort`, `--open`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retrace.errors import UsageError
from retrace.plan.order import plan
from retrace.present import extract, terminal
from retrace.present.report_json import encode
from retrace.present.tally import Tally
from tests.process import retrace
from tests.reading.story import hostile, killed, training, write


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return write(training(), tmp_path / "rec")


def report_of(*arguments: str | Path) -> dict[str, Any]:
    done = retrace("report", "--format", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("story", [training, killed, hostile])
def test_an_extract_is_never_longer_than_it_may_be(story: Any) -> None:
    view = story().view()
    tally = Tally.of(view)
    steps = plan(view.recording, view.verdicts)
    tally.follow(view, steps)
    whole = extract.extract(view, tally, steps, 10**6)
    most = extract.counted(whole)
    assert whole["left_out"] == {"steps": max(0, len(steps.steps) - 5), "causes": 0}
    causes = 0
    for tokens in range(1, most + 50, 23):
        try:
            found = extract.extract(view, tally, steps, tokens)
        except UsageError:
            assert not causes
            continue
        assert len(encode(found)) <= 3 * tokens
        assert found["tokens"]["counted"] <= tokens
        assert found["losses"] == whole["losses"]
        # Items are whole and in the same order, and what is left out is counted.
        assert found["causes"] == whole["causes"][: len(found["causes"])]
        assert found["plan"] == whole["plan"][: len(found["plan"])]
        assert len(found["causes"]) + found["left_out"]["causes"] == len(whole["causes"])
        causes = max(causes, len(found["causes"]))
    assert causes == len(whole["causes"])


def test_an_extract_by_the_command(recorded: Path) -> None:
    found = report_of(recorded, "--tokens", "2000", "--top", "1")
    assert found["schema"] == "retrace-extract/1"
    assert len(found["causes"]) == 1
    assert found["causes"][0]["cause"] in {
        miss["cause"] for miss in report_of(recorded)["misses"]
    }
    few = retrace("report", recorded, "--format", "json", "--tokens", "20")
    assert (few.returncode, few.stdout) == (2, "")
    assert "--tokens 20 is too few" in few.stderr
    text = retrace("report", recorded, "--tokens", "2000")
    assert text.returncode == 2


def test_saving_follows_the_plan() -> None:
    view = training().view()
    steps = plan(view.recording, view.verdicts)
    tally = Tally.of(view)
    tally.follow(view, steps)
    first = steps.steps[0].misses
    groups = tally.groups("saving")
    assert groups[0] is tally.group_of(view.by_id[first[0]])
    taken = {name for step in steps.steps for name in step.misses}
    saves = [any(tally.group_of(view.by_id[name]) is group for name in taken) for group in groups]
    assert saves == sorted(saves, reverse=True)
    assert {id(group) for group in groups} == {id(group) for group in tally.groups()}


def spent(miss: dict[str, Any]) -> Any:
    return -sum(filter(None, miss["stages"].values()))


def began(miss: dict[str, Any]) -> Any:
    return miss["time"]


def test_only_the_first_misses(recorded: Path) -> None:
    whole = report_of(recorded)
    for sort, key in (("seconds", spent), ("time", began)):
        found = report_of(recorded, "--top", "3", "--sort", sort)
        assert [key(miss) for miss in found["misses"]] == sorted(map(key, whole["misses"]))[:3]
        assert found["summary"] == whole["summary"]
        assert found["left_off"] == len(whole["misses"]) - 3
    plan_ = json.loads(retrace("plan", recorded, "--format", "json").stdout)
    saving = report_of(recorded, "--top", "1", "--sort", "saving")["misses"]
    assert saving[0]["id"] in plan_["steps"][0]["misses"]


def test_a_part_says_of_how_many(recorded: Path) -> None:
    for form, says in (("text", "retrace: {} of 20 misses"), ("markdown", "**{} of 20 misses**")):
        part = retrace(
            "report", recorded, "--format", form, "--function", "train_step"
        ).stdout.replace("\n", " ")
        number = len(report_of(recorded, "--function", "train_step")["misses"])
        assert says.format(number) in part
        assert " of 20 misses" not in retrace("report", recorded, "--format", form).stdout


def test_top_limits_the_causes_in_each_format(recorded: Path) -> None:
    for form, mark in (("markdown", "- more: "), ("html", '<details class="message')):
        whole = retrace("report", recorded, "--format", form).stdout
        few = retrace("report", recorded, "--format", form, "--top", "1").stdout
        assert whole.count(mark) > 1
        assert few.count(mark) == 1
        assert "more cause" in few


def test_each_cause_leads_to_its_page() -> None:
    view = training().view()
    text = terminal.report(view)
    assert "\n  cause     shape-changed\n" in text
    assert "about each cause: https://" in text


def test_the_page_is_opened(recorded: Path, tmp_path: Path) -> None:
    page, asked = tmp_path / "page.html", tmp_path / "asked"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {asked}\n')
    browser.chmod(0o755)
    done = retrace("report", recorded, "--open", "--output", page, BROWSER=str(browser))
    assert done.returncode == 0
    assert asked.read_text().strip() == page.as_uri()
    assert page.read_text().startswith("<!doctype html>")
    none = retrace("report", recorded, "--open", DISPLAY="", WAYLAND_DISPLAY="", BROWSER="")
    assert none.returncode == 0
    assert "no browser; " in none.stderr
    lies = Path(none.stderr.rpartition(" is ")[2].strip())
    assert not lies.parent.stat().st_mode & 0o077
    lies.unlink()
    lies.parent.rmdir()
    assert retrace("report", recorded, "--open", "--format", "json").returncode == 2

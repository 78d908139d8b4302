"""What every room must do with a part of the key that it never heard of.

`tests/test_parts.py` runs this in a copy of the package whose key also has `hints`, which are
settings, and `labels`, which are arguments of the call.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retrace.causes import Cause
from retrace.command.plan import plan
from retrace.command.report import report
from retrace.command.show import show
from retrace.compare.keys import changes
from retrace.compare.nearest import Index, distance
from retrace.compare.replay import apply
from retrace.guards import agree, suite
from retrace.hosts.neutral import neutral
from retrace.hosts.trail import Trails
from retrace.model import Component, Key, Miss, Passing
from retrace.model.parts import BY_COMPONENT
from retrace.runs.functions import Same
from retrace.runs.misses import matched
from retrace.runs.sides import Neutral, Side
from retrace.store.reader import read
from retrace.store.redaction import Redaction
from tests.reading.story import TRAIN_STEP, Story, array, at, plain, write

HINTS = BY_COMPONENT[Component("hints")]
LABELS = BY_COMPONENT[Component("labels")]


def story(*depths: int, host: str = "a") -> Story:
    """A miss for each hint `depth`; the hint `host` names the process."""
    told = Story(complete=True)
    for depth in depths:
        hints: Any = (("depth", plain(depth)), ("host", plain(host)))
        key = Key(leaves=(array("x", "float32", 3),))._replace(**{HINTS.name: hints})
        told.miss(TRAIN_STEP, key, at(88, "train_step(x)"))
    return told


def misses(*depths: int, host: str = "a") -> list[Miss]:
    return story(*depths, host=host).misses


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return write(story(1, 2, 3), tmp_path / "recording")


def test_it_is_written_and_read(recorded: Path) -> None:
    assert [miss.key for miss in read([recorded]).misses] == [m.key for m in misses(1, 2, 3)]


def test_it_is_compared_and_replayed() -> None:
    old, new = misses(1, 2)
    (change,) = found = changes(old, new)
    assert (change.component, change.path, change.exact) == (HINTS.component, "depth", True)
    assert apply(found, old).key == new.key
    assert distance(found) == (0, 1)


def test_it_decides_which_key_is_nearest() -> None:
    index = Index()
    one, two, three, again = misses(1, 2, 3, 2)
    for miss in (one, two, three):
        index.add(miss)
    near = index.nearest(again)
    assert near is not None and near.miss is two and near.distance == (0, 0)


def test_its_values_are_redacted() -> None:
    (miss,) = misses(4711)
    hidden = HINTS.of(Redaction([]).miss(miss).key)
    assert [name for name, _ in hidden] == ["depth", "host"]
    assert "4711" not in repr(hidden)


def test_what_is_of_a_process_is_left_out_when_processes_are_compared() -> None:
    (here,), (there,), (other,) = misses(1), misses(1, host="b"), misses(2, host="b")
    assert [name for name, _ in HINTS.of(neutral(here).key)] == ["depth"]
    assert not changes(neutral(here), neutral(there))
    assert changes(neutral(here), neutral(other))
    trails = Trails()
    for miss in (here, there, other):
        trails.add(story().run, [miss])
    first, second, third = (trail.steps[0].identity for trail in trails.all)
    assert first == second != third


def test_it_matches_misses_of_two_recordings() -> None:
    old, new = (Side(one.recording(), one.view().verdicts) for one in (story(1, 2), story(2, 1)))
    found = matched([Same(old.groups[0], new.groups[0], ())], Neutral(old, new))
    assert [HINTS.of(pair.new.miss.key)[0][1].text for pair in found.pairs] == ["2", "1"]
    assert not any(pair.changes for pair in found.pairs)


def test_it_is_part_of_what_tests_and_guards_compare() -> None:
    one, two = misses(1, 2)
    assert suite._digest(one) != suite._digest(two)  # pyright: ignore[reportPrivateUsage]
    described = agree._described("program", one.function, one.key, None)  # pyright: ignore[reportPrivateUsage]
    assert described.inputs[HINTS.one] == [("depth", "1")]


def test_its_changes_have_a_cause_and_advice() -> None:
    _, second, _ = story(1, 2, 3).view().verdicts
    assert second.cause is Cause.JIT_OPTIONS_CHANGED
    assert second.fix is not None and second.fix.paths == ("depth",)


def labelled(*labels: int | None) -> Story:
    """A miss for each `label`, the default of which is 3; None if the call omits it."""
    told = Story(complete=True)
    function = TRAIN_STEP._replace(defaults=(("label", plain(3)),))
    for label in labels:
        key = Key(leaves=(array("x", "float32", 3),))
        if label is not None:
            own: Any = (("label", plain(label)),)
            key = key._replace(signature=(("label", Passing.KEYWORD),), **{LABELS.name: own})
        told.miss(function, key, at(88, "train_step(x)"))
    return told


def test_an_argument_has_the_cause_and_advice_of_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = labelled(1, 2, 4)
    causes = [
        (verdict.cause, verdict.fix and verdict.fix.paths) for verdict in told.view().verdicts
    ]
    assert causes[1:] == [(Cause.STATIC_ARGUMENT_CHANGED, ("label",))] * 2
    assert plan([write(told, tmp_path / "recording")]) == 0
    assert "label" in capsys.readouterr().out


def test_an_argument_that_is_its_default_may_be_omitted() -> None:
    _, second = labelled(None, 3).view().verdicts
    assert second.cause is Cause.CALL_SIGNATURE_CHANGED
    _, second = labelled(None, 4).view().verdicts
    assert second.cause is Cause.STATIC_ARGUMENT_CHANGED


@pytest.mark.parametrize("form", ["text", "markdown", "html", "github"])
def test_it_is_in_the_report(form: Any, recorded: Path, tmp_path: Path) -> None:
    page = tmp_path / "page"
    assert report([recorded], form, output=page) == 0
    assert "depth" in page.read_text()


def test_it_is_in_the_json(recorded: Path, tmp_path: Path) -> None:
    page = tmp_path / "page"
    assert report([recorded], "json", output=page, keys=True) == 0
    second = json.loads(page.read_text())["misses"][1]
    assert second["key"][HINTS.name]["depth"]["text"] == "2"
    assert second["changes"][0]["component"] == HINTS.component.value
    assert second["changes"][0]["detail"] == "1 -> 2"


def test_it_is_shown(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(misses(1, 2)[1].id, recorded) == 0
    text = capsys.readouterr().out
    assert f"    {HINTS.title}: 1 setting as before\n      depth = 1 -> 2\n" in text
    assert f"{HINTS.component.value} " in text


def test_the_plan_asks_for_one_value(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan([recorded]) == 0
    assert "one setting of `depth`" in capsys.readouterr().out

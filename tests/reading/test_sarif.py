"""The SARIF log, for code scanning and editors, is valid by the standard's own schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator

from retrace.causes import Cause
from retrace.present import sarif
from retrace.present.tally import Tally
from tests.reading.story import Story, hostile, killed, training

# Of OASIS, sarif-spec at sarif-2.1/schema/sarif-schema-2.1.0.json, without its line breaks.
SCHEMA = json.loads((Path(__file__).parent / "sarif-2.1.0.schema.json").read_text())
VALIDATOR: Any = Draft4Validator(SCHEMA)


def log(story: Story) -> dict[str, Any]:
    view = story.view()
    return json.loads(json.dumps(sarif.report(view, Tally.of(view), "1.2.3")))


@pytest.mark.parametrize("story", [training, hostile, killed, Story])
def test_every_recording_gives_a_valid_log(story: Any) -> None:
    VALIDATOR.validate(log(story()))


def test_each_group_is_a_result_on_its_line() -> None:
    (run,) = log(training())["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [*map(str, Cause)]
    assert run["results"]
    for result in run["results"]:
        assert result["ruleId"] != "first-trace"
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        (place,) = result["locations"]
        assert place["physicalLocation"]["region"]["startLine"] > 0
        assert result["level"] == (
            "warning" if result["properties"]["avoidable"] == "yes" else "note"
        )


def test_paths_are_those_of_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = log(training())["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    base = Path(training().view().bases[0])
    assert place["uriBaseId"] == "SRCROOT" and str(base) not in json.dumps(run)
    # A checkout above the folder that the program ran in.
    monkeypatch.setenv("GITHUB_WORKSPACE", str(base.parent))
    (run,) = log(training())["runs"]
    moved = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert moved["uri"] == f"{base.name}/{place['uri']}"


def test_a_result_stays_the_same_when_lines_are_added_above() -> None:
    def prints(by: int) -> list[str]:
        story = training()
        for miss in story.misses:
            if miss.call_site is not None:
                line = miss.call_site.line + by
                miss.call_site = miss.call_site._replace(line=line)
        results = log(story)["runs"][0]["results"]
        return sorted(one["partialFingerprints"]["retrace/1"] for one in results)

    assert prints(0) == prints(7)
    assert len({*prints(0)}) == len(prints(0))

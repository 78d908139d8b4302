"""A program runs under `jax.profiler` and under recording; both agree on when its calls were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import retrace
from retrace.command.report import report
from retrace.errors import UsageError
from retrace.model import Stage
from retrace.present import perfetto
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.store import profile
from retrace.store.reader import read

SLACK = 1000.0
"""Microseconds by which both clocks may differ."""


def traced(folder: Path) -> None:
    step: Any = jax.jit(lambda x: (x @ x).sum())
    step(np.ones((2, 2)))  # before the profile begins
    with jax.profiler.trace(folder / "profile"):
        for size in (3, 4):
            step(np.ones((size, size)))
        step.lower(np.ones((5, 5))).compile()


def test_each_stage_lies_in_the_call_that_the_profile_shows(tmp_path: Path) -> None:
    with retrace.recording(tmp_path / "recorded"):
        traced(tmp_path)
    found = profile.read(tmp_path / "profile")
    recording = read([tmp_path / "recorded"])
    verdicts = judge(recording)
    view = View(recording, verdicts, "")
    told = json.loads("".join(perfetto.pieces(view, [verdicts], found)))
    events = [event for event in told["traceEvents"] if event.get("ph") == "X"]
    calls = [event for event in events if event["name"].startswith("PjitFunction(")]
    own = [event for event in events if event["pid"] > perfetto.BESIDE]
    misses = [event for event in own if event["cat"] == "miss"]
    assert len(misses) == len(recording.misses) >= 4
    ran: list[str] = []
    for miss in misses[1:3]:
        call = min((one for one in calls if _covers(one, miss)), key=lambda one: one["dur"])
        parts = [one for one in own if one["cat"] == "stage" and _covers(miss, one)]
        assert all(_covers(call, part) for part in parts)
        ran += [part["name"] for part in parts]
    assert {*ran} == {stage.value for stage in Stage}
    first, began = misses[0], found.started - told["otherData"]["epoch_us"]
    assert first["ts"] + first["dur"] < began + SLACK, "it was over when the profile began"
    assert all(event["ts"] >= 0 for event in events), "Perfetto drops what lies before zero"
    for miss in recording.misses:
        begun = [miss.began[stage] for stage in Stage if stage in miss.stages]
        assert begun == sorted(begun) and len(begun) == len(miss.stages)
        assert all(at >= miss.time - SLACK / 1e6 for at in begun)


def _covers(outer: dict[str, Any], inner: dict[str, Any]) -> bool:
    begin, end = inner["ts"], inner["ts"] + inner["dur"]
    return outer["ts"] - SLACK <= begin and end <= outer["ts"] + outer["dur"] + SLACK


def test_what_is_no_profile_is_one_line(tmp_path: Path) -> None:
    for name, data in (
        ("a.xplane.pb", b""),
        ("b.xplane.pb", b"\x0a\xff"),
        ("c.xplane.pb", b"\xff" * 20),
        ("d.xplane.pb", b"\x0a\x02\x12\x00"),
        ("e.xplane.pb", b"\x0a\x12\x12\x10Task Environment"),
        ("f.txt", b"nothing"),
    ):
        (tmp_path / name[0]).mkdir()
        (tmp_path / name[0] / name).write_bytes(data)
        for path in (tmp_path / name[0], tmp_path / name[0] / name):
            with pytest.raises(UsageError) as caught:
                profile.read(path)
            assert "\n" not in str(caught.value)
    with pytest.raises(UsageError):
        profile.read(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="--format perfetto"):
        report([tmp_path], with_=tmp_path)

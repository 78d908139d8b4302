"""The timelines for Perfetto and speedscope: valid, nested, and at the times of the recording."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from retrace.logs.importing import Importer
from retrace.model import Recording, Stage
from retrace.present import perfetto, speedscope
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.store.reader import read
from tests.reading.story import hostile, killed, training, write

ask: Any = import_module("duckdb")
messages: Any = import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
DOCS = Path(__file__).parents[2] / "docs" / "timelines.md"
LOG = Path(__file__).parents[1] / "logs" / "jax-0.6.0.log.gz"


def recordings(tmp_path: Path) -> list[Recording]:
    found = [
        read([write(story(), tmp_path / story.__name__)]) for story in (training, killed, hostile)
    ]
    (tmp_path / "log").mkdir()
    Importer(tmp_path / "log").take(LOG)
    return [*found, read([tmp_path / "log"])]


def test_perfetto_has_each_miss_and_stage_where_it_ran(tmp_path: Path) -> None:
    for recording in recordings(tmp_path):
        verdicts = judge(recording)
        view = View(recording, verdicts, "")
        told = json.loads("".join(perfetto.pieces(view, [verdicts])))
        start = told["otherData"]["epoch_us"]
        slices = [event for event in told["traceEvents"] if event["ph"] == "X"]
        misses = {e["args"]["id"]: e for e in slices if e["cat"] == "miss"}
        assert sorted(misses) == sorted(miss.id for miss in recording.misses)
        assert sum(e["cat"] == "stage" for e in slices) == sum(
            len(miss.stages) for miss in recording.misses
        )
        for verdict in verdicts:
            miss, event = verdict.miss, misses[verdict.miss.id]
            assert event["args"]["cause"] == verdict.cause
            page = event["args"]["link"].partition("/docs/")[2]
            assert verdict.cause in page and (DOCS.parent / page).is_file(), page
            if miss.parent is None:
                assert abs(start + event["ts"] - miss.time * 1e6) < 1000
                if "cut" not in event["args"]:
                    assert abs(event["dur"] - miss.seconds * 1e6) < 1
            elif miss.derived is None and miss.parent in misses:
                assert _covers(misses[miss.parent], event)
        _never_across(slices)
        starts, ends = (
            {e["id"] for e in told["traceEvents"] if e["ph"] == phase} for phase in "sf"
        )
        assert starts == ends


def test_the_query_in_the_docs_finds_the_miss_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (query,) = re.findall(r"```sql\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (asked,) = re.findall(r"'(2026[^']*)'", query)
    for recording in recordings(tmp_path):
        verdicts = judge(recording)
        text = "".join(perfetto.pieces(View(recording, verdicts, ""), [verdicts]))
        (tmp_path / "misses.json").write_text(text)
        for miss in recording.misses:
            if miss.parent is not None or not miss.stages:
                continue
            stage, seconds = next(iter(miss.stages.items()))
            begun = miss.began.get(stage, miss.time)
            at = datetime.fromtimestamp(begun + seconds / 2, UTC)
            found = ask.sql(query.replace(asked, at.strftime("%Y-%m-%d %H:%M:%S.%f"))).fetchall()
            assert miss.id in {row[0] for row in found}, (miss.function.name, at)
            assert [row[3] for row in found] == sorted(row[3] for row in found)


def test_slices_lie_inside_each_other_for_a_query(tmp_path: Path) -> None:
    for recording in recordings(tmp_path):
        verdicts = judge(recording)
        text = "".join(perfetto.pieces(View(recording, verdicts, ""), [verdicts]))
        (tmp_path / "misses.json").write_text(text)
        events = f"(SELECT unnest(traceEvents) e FROM read_json('{tmp_path}/misses.json'))"
        slices = f"(SELECT e.* FROM {events} WHERE e.ph = 'X')"
        across = ask.sql(
            f"""SELECT count(*) FROM {slices} a JOIN {slices} b USING (pid, tid)
            WHERE a.ts < b.ts - 0.01 AND b.ts < a.ts + a.dur - 0.01
            AND b.ts + b.dur > a.ts + a.dur + 0.01"""
        )
        assert across.fetchall() == [(0,)]


def test_perfetto_can_hold_all_of_it_in_its_own_format(tmp_path: Path) -> None:
    # What Perfetto converts Chrome's events into when it opens them; its messages reject
    # numbers out of range and invalid texts. Times before zero would be dropped.
    for recording in recordings(tmp_path):
        verdicts = judge(recording)
        text = "".join(perfetto.pieces(View(recording, verdicts, ""), [verdicts]))
        told = json.loads(text)
        trace = messages.Trace()
        for event in told["traceEvents"]:
            _tell(trace, event, told["otherData"]["epoch_us"])
        read_again = messages.Trace.FromString(trace.SerializeToString())
        assert read_again == trace
        tracks = {p.track_descriptor.uuid for p in trace.packet if p.HasField("track_descriptor")}
        events = [p.track_event for p in trace.packet if p.HasField("track_event")]
        assert {event.track_uuid for event in events} <= tracks
        begun = [event for event in events if event.type == messages.TrackEvent.TYPE_SLICE_BEGIN]
        stages = sum(len(miss.stages) for miss in recording.misses)
        assert len(begun) == len(recording.misses) + stages
        arrows = [flow for event in events for flow in event.flow_ids]
        assert len(set(arrows)) == len(arrows)
        assert sorted(arrows) == sorted(f for e in events for f in e.terminating_flow_ids)
        if (binary := which("trace_processor") or which("trace_processor_shell")) is not None:
            (tmp_path / "misses.json").write_text(text)
            assert _opened(binary, tmp_path / "misses.json") == len(begun)


def _tell(trace: Any, event: dict[str, Any], epoch: int) -> None:
    packet = trace.packet.add(trusted_packet_sequence_id=1)
    track = event["pid"] << 32 | event["tid"]
    if event["ph"] == "M":
        described = packet.track_descriptor
        described.uuid = track
        if event["name"] == "process_name":
            described.process.pid = event["pid"]
            described.process.process_name = event["args"]["name"]
        else:
            described.parent_uuid = event["pid"] << 32
            described.thread.pid, described.thread.tid = event["pid"], event["tid"]
            described.thread.thread_name = event["args"]["name"]
        return
    packet.timestamp = round(event["ts"] * 1000)
    told = packet.track_event
    told.track_uuid = track
    if event["ph"] == "X":
        told.type, told.name = messages.TrackEvent.TYPE_SLICE_BEGIN, event["name"]
        told.categories.append(event["cat"])
        for name, value in event["args"].items():
            told.debug_annotations.add(name=name, legacy_json_value=json.dumps(value))
        end = trace.packet.add(trusted_packet_sequence_id=1)
        end.timestamp = round((event["ts"] + event["dur"]) * 1000)
        end.track_event.type = messages.TrackEvent.TYPE_SLICE_END
        end.track_event.track_uuid = track
        assert epoch * 1000 + end.timestamp < 1 << 63
    else:
        told.type = messages.TrackEvent.TYPE_INSTANT
        (told.flow_ids if event["ph"] == "s" else told.terminating_flow_ids).append(event["id"])


def _opened(binary: str, path: Path) -> int:
    """The number of slices Perfetto's own reader finds; none may be dropped."""
    processor: Any = import_module("perfetto.trace_processor")
    config = processor.TraceProcessorConfig(bin_path=binary)
    with processor.TraceProcessor(trace=str(path), config=config) as opened:
        wrong = opened.query("SELECT name FROM stats WHERE severity = 'error' AND value > 0")
        assert [row.name for row in wrong] == []
        (found,) = opened.query("SELECT count(*) AS number FROM slice WHERE dur >= 0")
    return found.number


def _covers(outer: dict[str, Any], inner: dict[str, Any]) -> bool:
    begin, end = inner["ts"], inner["ts"] + inner["dur"]
    return outer["ts"] - 0.01 <= begin and end <= outer["ts"] + outer["dur"] + 0.01


def _never_across(slices: list[dict[str, Any]]) -> None:
    """Slices of one thread lie next to or inside each other, as viewers require."""
    by_track: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in slices:
        by_track.setdefault((event["pid"], event["tid"]), []).append(event)
    for events in by_track.values():
        stack: list[dict[str, Any]] = []
        for event in events:
            while stack and event["ts"] >= stack[-1]["ts"] + stack[-1]["dur"] - 0.01:
                stack.pop()
            assert not stack or _covers(stack[-1], event)
            stack.append(event)


def test_speedscope_opens_and_closes_each_frame_in_order(tmp_path: Path) -> None:
    for recording in recordings(tmp_path):
        verdicts = judge(recording)
        view = View(recording, verdicts, "")
        told = json.loads(speedscope.report(view, [verdicts]))
        frames = told["shared"]["frames"]
        opened = 0
        for profile in told["profiles"]:
            stack: list[int] = []
            last = profile["startValue"]
            for event in profile["events"]:
                assert event["at"] >= last - 1e-6
                last = event["at"]
                assert 0 <= event["frame"] < len(frames)
                if event["type"] == "O":
                    stack.append(event["frame"])
                    opened += 1
                else:
                    assert stack.pop() == event["frame"]
            assert not stack
        assert opened == len(recording.misses) + sum(len(m.stages) for m in recording.misses)
        if any(Stage.COMPILE in miss.stages for miss in recording.misses):
            assert "compile" in {frame["name"] for frame in frames}

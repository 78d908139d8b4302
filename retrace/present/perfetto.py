"""The timeline as Chrome trace events, for Perfetto, XProf and `chrome://tracing`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from retrace.model import Verdict
from retrace.present.report_json import encode
from retrace.present.slices import Slice, Track, facts, tracks
from retrace.present.view import View
from retrace.present.words import clean
from retrace.store.profile import Profile

SCHEMA = "retrace-perfetto/1"


BESIDE = 1_000_000
"""The first number of retrace's processes when they are added to a profile."""


def pieces(
    view: View, portions: Iterable[Sequence[Verdict]], profile: Profile | None = None
) -> Iterator[str]:
    """The timeline as text, track by track.

    Times are microseconds since the first run started, or since the start of an earlier profile:
    Perfetto drops anything before zero.

    Args:
        view: the whole recording.
        portions: the misses to include, those of one process in one portion.
        profile: a profile to add them to, on the same clock.
    """
    runs = (run.started for run in view.recording.runs)
    # The lines of a log may be in another order than the events they report.
    misses = (verdict.miss.time for verdict in view.verdicts)
    start = min((*runs, *misses), default=0.0) * 1e6
    if profile is not None:
        start = min(start, profile.started)
    head = {
        "schema": SCHEMA,
        "displayTimeUnit": "ms",
        "otherData": {
            "epoch_us": round(start),
            "stages": "where recorded; of older recordings and logs one after the other",
        },
    }
    yield encode(head)[:-2] + ', "traceEvents": ['
    events = _Events(view, start, 0 if profile is None else BESIDE)
    comma = "\n"
    if profile is not None:
        for event in profile.since(start):
            yield comma + encode(event).rstrip()
            comma = ",\n"
    for track in tracks(portions):
        for event in events.of(track):
            yield comma + encode(event).rstrip()
            comma = ",\n"
    yield "\n]}\n"


class _Events:
    def __init__(self, view: View, start: float, before: int) -> None:
        self._view = view
        self._start = start
        self._before = before
        """The number before that of the first process."""
        self._processes: dict[str, int] = {}
        self._threads: dict[str, int] = {}
        self._places: dict[str, tuple[int, int, float]] = {}
        """The slice of each miss, for the arrow to a later one."""
        self._flows = 0

    def of(self, track: Track) -> Iterator[dict[str, Any]]:
        """The names of a track, and its slices."""
        number = self._processes.get(track.run)
        if number is None:
            number = self._processes[track.run] = self._before + len(self._processes) + 1
            text = clean(" ".join(filter(None, self._view.process(track.run))))
            yield _named("process_name", number, 0, text)
        thread = self._threads[track.run] = self._threads.get(track.run, 0) + 1
        yield _named("thread_name", number, thread, clean(track.thread))
        for one in track.slices:
            yield from self._slice(one, number, thread)

    def _slice(self, one: Slice, process: int, thread: int) -> Iterator[dict[str, Any]]:
        at = self._micros(one.begin)
        miss = one.verdict.miss
        event: dict[str, Any] = {
            "name": one.title,
            "cat": "miss" if one.stage is None else "stage",
            "ph": "X",
            "pid": process,
            "tid": thread,
            "ts": at,
            "dur": max(0.0, round(self._micros(one.end) - at, 3)),
        }
        if one.stage is None:
            event["args"] = facts(self._view, one.verdict)
        else:
            event["args"] = dict[str, object](seconds=miss.stages[one.stage])
        if one.is_cut:
            event["args"]["cut"] = "it ran on while later misses came"
        yield event
        if one.stage is None:
            self._places[miss.id] = process, thread, at
            nearest = one.verdict.nearest
            if nearest is not None and (place := self._places.get(nearest.id)) is not None:
                self._flows += 1
                for phase, (pid, tid, time) in (("s", place), ("f", (process, thread, at))):
                    arrow = {"name": "nearest", "cat": "nearest", "ph": phase, "id": self._flows}
                    yield {**arrow, "pid": pid, "tid": tid, "ts": time, "bp": "e"}
        for part in one.inside:
            yield from self._slice(part, process, thread)

    def _micros(self, time: float) -> float:
        return round(time * 1e6 - self._start, 3)


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}

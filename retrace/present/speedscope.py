"""The timeline in the format of speedscope.app: one profile for each thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from retrace.model import Verdict
from retrace.present.report_json import encode
from retrace.present.slices import Slice, tracks
from retrace.present.view import View
from retrace.present.words import clean

_FORMAT = "https://www.speedscope.app/file-format-schema.json"
SCHEMA = "retrace-speedscope/1"


def report(view: View, portions: Iterable[Sequence[Verdict]]) -> str:
    """The timeline as text; times are seconds since the first run began."""
    start = min((run.started for run in view.recording.runs), default=0.0)
    frames: dict[tuple[str, str | None, int | None], int] = {}
    profiles: list[dict[str, Any]] = []
    for track in tracks(portions):
        events = [event for one in track.slices for event in _events(one, frames, start)]
        text = clean(" ".join([*filter(None, view.process(track.run)), track.thread]))
        profiles.append(
            {
                "type": "evented",
                "name": text,
                "unit": "seconds",
                "startValue": min((event["at"] for event in events), default=0.0),
                "endValue": max((event["at"] for event in events), default=0.0),
                "events": events,
            }
        )
    shared = [
        {"name": name, **({} if file is None else {"file": file, "line": line or 0})}
        for name, file, line in frames
    ]
    content = {
        "schema": SCHEMA,
        "$schema": _FORMAT,
        "exporter": "retrace",
        "shared": {"frames": shared},
        "profiles": profiles,
    }
    return encode(content)


def _events(
    one: Slice, frames: dict[tuple[str, str | None, int | None], int], start: float
) -> Iterator[dict[str, Any]]:
    function = one.verdict.miss.function
    where = (one.title, None, None)
    if one.stage is None:
        file = None if function.file is None else clean(function.file)
        where = (f"{one.title} ({one.verdict.cause.value})", file, function.line)
    frame = frames.setdefault(where, len(frames))
    yield {"type": "O", "frame": frame, "at": round(one.begin - start, 9)}
    for part in one.inside:
        yield from _events(part, frames, start)
    yield {"type": "C", "frame": frame, "at": round(one.end - start, 9)}

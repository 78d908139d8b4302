"""Misses as slices of time, one track for each thread of each process.

A recording tells when each stage of a miss started and how long it took. Recordings of older
versions, or of logs, only tell when the miss started: their stages are drawn one after another
from there, which is right except for what the program did in between. A slice that would reach
into the next miss of its thread (lowered now, compiled later) is cut there, and marked as cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from retrace.model import Miss, Stage, Verdict
from retrace.present.advice import advised
from retrace.present.detail import detail
from retrace.present.glossary import page
from retrace.present.sentences import explanation
from retrace.present.view import View
from retrace.present.words import clean, name, place


@dataclass(slots=True)
class Slice:
    """One miss, or one stage of it."""

    begin: float
    """Seconds since the epoch."""
    end: float
    title: str
    verdict: Verdict
    stage: Stage | None = None
    is_cut: bool = False
    inside: list[Slice] = field(default_factory=list["Slice"])


@dataclass(slots=True)
class Track:
    """One thread of one process."""

    run: str
    thread: str
    slices: list[Slice]


def tracks(portions: Iterable[Sequence[Verdict]]) -> Iterator[Track]:
    """The tracks of all processes.

    Args:
        portions: the misses, those of one process in one portion.
    """
    for portion in portions:
        threads: dict[tuple[str, str], list[Verdict]] = {}
        for verdict in portion:
            threads.setdefault((verdict.miss.run, verdict.miss.thread), []).append(verdict)
        for (run, thread), own in threads.items():
            yield Track(run, thread, _arranged(own))


def _arranged(verdicts: list[Verdict]) -> list[Slice]:
    """Slices that are next to or inside each other, but never overlap partially."""
    known = {verdict.miss.id for verdict in verdicts}
    inside: dict[str, list[Verdict]] = {}
    outer: list[Verdict] = []
    for verdict in sorted(verdicts, key=lambda verdict: (verdict.miss.time, verdict.miss.number)):
        miss = verdict.miss
        if miss.parent in known and miss.derived is None:
            inside.setdefault(miss.parent, []).append(verdict)
        else:
            outer.append(verdict)
    found: list[Slice] = []
    for index, verdict in enumerate(outer):
        last = outer[index + 1].miss.time if index + 1 < len(outer) else float("inf")
        found.append(_slice(verdict, verdict.miss.time, max(verdict.miss.time, last), inside))
    return found


def _slice(
    verdict: Verdict, begin: float, last: float, inside: dict[str, list[Verdict]]
) -> Slice:
    miss = verdict.miss
    wanted = max(
        [begin, *(miss.began.get(stage, begin) + spent for stage, spent in miss.stages.items())]
        if miss.began
        else [begin + miss.seconds]
    )
    end = min(wanted, last)
    whole = Slice(begin, end, clean(name(miss.function)), verdict, None, end < wanted)
    at = begin
    for stage in Stage:
        if stage not in miss.stages:
            continue
        at = min(max(miss.began.get(stage, at), at), end)
        until = min(at + miss.stages[stage], end)
        part = Slice(at, until, stage.value, verdict, stage, until < at + miss.stages[stage])
        if stage is Stage.TRACE:
            part.inside = list(_nested(inside.pop(miss.id, []), at, until, inside))
        whole.inside.append(part)
        at = until
    # Inside a miss whose own trace was not recorded.
    if rest := inside.pop(miss.id, []):
        first = whole.inside[0] if whole.inside else whole
        first.inside += _nested(rest, first.begin, first.end, inside)
    return whole


def _nested(
    verdicts: list[Verdict], begin: float, end: float, inside: dict[str, list[Verdict]]
) -> Iterator[Slice]:
    for verdict in verdicts:
        own = min(max(verdict.miss.time, begin), end)
        found = _slice(verdict, own, end, inside)
        yield found
        begin = found.end


def facts(view: View, verdict: Verdict) -> dict[str, object]:
    """The facts shown beside the slice of a miss."""
    miss: Miss = verdict.miss
    site = miss.call_site
    return {
        "id": miss.id,
        "label": view.label(miss),
        "cause": verdict.cause.value,
        "avoidable": verdict.avoidable,
        "explanation": explanation(view, verdict),
        "changes": [
            " ".join(filter(None, (change.component.value, change.path, detail(change))))
            for change in verdict.changes[:20]
        ],
        "function": view.place(miss),
        "called": None if site is None else place(site.file, site.line, view.bases),
        "fix": None if verdict.fix is None else advised(verdict.fix),
        "link": page(verdict.cause),
        "nearest": verdict.nearest and verdict.nearest.id,
    }

"""What a recording lacks: processes that were cut short, and what could not be recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from retrace.model import Run
from retrace.present.layout import Paint, wrapped
from retrace.present.view import View
from retrace.present.words import clean, count, listed

_MAX_LOSSES = 8


def warned(texts: Iterable[str], width: int, paint: Paint) -> Iterator[str]:
    """The same on a terminal."""
    for text in texts:
        for number, part in enumerate(wrapped(text, width, 2)):
            yield paint(part, "warm") if number == 0 else part


def cut_json(cut: Iterable[tuple[Run, str | None]]) -> list[dict[str, str | None]]:
    """The processes that were cut short, as JSON; `by` is null if one was killed."""
    return [{"run": run.id, "by": by} for run, by in cut]


def unfinished(view: View) -> Iterator[str]:
    """The processes that did not end their recording."""
    for run in view.recording.runs:
        if run.raised is not None:
            yield (
                f"process {run.pid} on {clean(run.host)} was ended by {clean(run.raised)}: "
                "later misses are not included"
            )
    for run, miss in view.unfinished():
        which = f"{run.pid} on {clean(run.host)}" if run.pid else clean(run.id)
        text = f"process {which} did not end its recording"
        text += " (killed, or still running)"
        if miss is not None and miss.in_flight is not None:
            text += f": it was in the {miss.in_flight.value} stage of {view.label(miss)}"
            text += f", {view.place(miss)}"
        yield text
    for parent, runs in view.ended_idle().items():
        host = clean(runs[0].host)
        their, were = ("its", "it was") if len(runs) == 1 else ("their", "they were")
        yield (
            f"{count(len(runs), 'process', 'processes')} that process {parent} on {host} started "
            f"did not end {their} recording; {were} in no recorded stage of JAX "
            "(a pool ends its workers like this)"
        )


def lost(view: View) -> Iterator[str]:
    """What could not be recorded or read."""
    losses = view.losses()
    if losses:
        named = [f"{clean(reason)} ({number:,})" for reason, number in losses.most_common()]
        yield f"not recorded or not readable: {listed(named, _MAX_LOSSES)}"

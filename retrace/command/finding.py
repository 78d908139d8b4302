"""Finds one miss among many processes, holding one process in memory at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from retrace.command import console
from retrace.command.selection import not_one

if TYPE_CHECKING:
    from retrace.model import Miss, Recording, Verdict
    from retrace.present.view import View

_MAX_IDS = 1000
"""At most this many ids are searched for a near match."""


def found_in(paths: list[Path], text: str, attempt: int | None = None) -> tuple[View, Verdict]:
    """The miss with this id or label, and its process, explained.

    Other processes are only read for their labels: explaining them would take most of the
    time, and holding them most of the memory.

    Args:
        paths: recordings.
        text: an id, a label, or the beginning of either.
        attempt: the attempt to read (default: the newest of each recording).

    Raises:
        UsageError: no miss matches, or several do.
    """
    from retrace.model import Recording
    from retrace.present.view import View
    from retrace.reason.verdict import judge
    from retrace.store.reader import read_each

    view = View(Recording([], []), [], console.here())
    recording = view.recording
    maybe: list[Miss] = []
    known: dict[str, None] = {}
    first: Recording | None = None
    for part in read_each(paths, attempt=attempt):
        recording.runs += part.runs
        recording.audits += part.audits
        recording.listings = part.listings
        view.count(part.misses)
        before = len(maybe)
        for miss in part.misses:
            known[view.short_label(miss)] = None
            if len(known) < _MAX_IDS:
                known[miss.id] = None
            if view.may_be_meant(text, miss):
                maybe.append(miss)
            else:
                del view.number[miss.id]
        if first is None and len(maybe) > before:
            first = part
    found = view.meant(text, maybe)
    if len(found) != 1:
        raise not_one(view, text, found, known)
    (miss,) = found
    if first is None or first.runs[0].id != miss.run:
        parts = read_each(paths, attempt=attempt)
        first = next(part for part in parts if part.runs[0].id == miss.run)
    recording.misses += first.misses
    view.add(judge(first))
    return view, view.by_id[miss.id]

"""What the comparison of two recordings says beside their misses and programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from retrace.present import stored
from retrace.present.words import clean, count, listed, seconds, times
from retrace.runs.difference import Difference
from retrace.runs.disk import FailedLookup


class Row(NamedTuple):
    """A subject, and what is said about it."""

    about: str
    said: tuple[str, ...]
    spent: float | None = None
    """Seconds of the misses it is about."""


class Section(NamedTuple):
    """Rows under a title."""

    title: str
    rows: list[Row]
    more: int = 0
    """The number of rows left out."""


def disk_rows(found: Difference) -> Iterator[Row]:
    """What the on-disk cache served, and why it did not serve the rest."""
    if found.disk.old.was_used or found.disk.new.was_used:
        yield Row("", (f"{stored.said(found.disk.old)} -> {stored.said(found.disk.new)}",))
    for vain, number in found.disk.failed:
        yield Row(clean(vain.name, 48), (f"{_why(vain)}, {times(number)}",))


def _why(vain: FailedLookup) -> str:
    match vain.why:
        case "not-stored":
            return f"not on disk, because it was not stored ({clean(vain.reason)})"
        case "corrupt":
            return "the same key, but its entry on disk cannot be read"
        case "gone":
            return "the same key, but it is not in this run's cache"
        case _:
            if not vain.ingredients:
                return "another key"
            by = "first differing in its" if vain.only_first else "differing in its"
            names = listed([clean(i) for i in vain.ingredients], 8)
            return f"another key, {by} {names}{stored.fields(vain.options)}"


def seconds_rows(found: Difference) -> Iterator[Row]:
    """What the misses took, by what became of them."""
    spent = found.seconds
    yield Row("", (f"{seconds(spent.old)} -> {seconds(spent.new)}",))
    parts = (("new misses took", spent.added), ("misses that are gone took", spent.gone))
    if texts := [f"{what} {seconds(took)}" for what, took in parts if took]:
        yield Row("", (", ".join(texts),))
    for what, (old, new) in (
        ("misses whose key, cause or program changed", spent.changed),
        ("equal misses found on disk in only one run", spent.stored),
    ):
        if old or new:
            yield Row(what, (f"{seconds(old)} -> {seconds(new)}",))
    old, new = spent.same
    if old or new:
        texts = f"{seconds(old)} -> {seconds(new)}"
        if spent.slower is None:
            yield Row("the same work", (f"{texts}, which is noise",))
        else:
            factor, than = spent.slower, "slower"
            if factor < 1:
                factor, than = 1 / factor, "faster"
            yield Row("the same work", (f"{texts}: {factor:.1f} times {than} for each miss",))


def unknown_rows(found: Difference) -> Iterator[Row]:
    """What was not recorded, on one side or on both."""
    if unknown := found.environment.unknown:
        yield Row("", (f"recorded on one side only: {listed(list(unknown), 9)}",))
    if found.unknown_programs:
        many = count(len(found.unknown_programs), "miss", "misses")
        yield Row("", (f"{many} whose program was not recorded on both sides",))
    if found.captured:
        many = count(found.captured, "program")
        yield Row("", (f"{many} captured arrays or objects, whose contents were not compared",))
    for side, run in found.cut:
        which = f"process {run.pid} of {clean(side.name, None)}"
        said = "did not end (killed, or still running): what it would have missed is not known"
        yield Row("", (f"{which} {said}",))
    for side in (found.old, found.new):
        losses: dict[str, int] = {}
        for run in side.runs:
            for reason, number in run.losses.items():
                losses[reason] = losses.get(reason, 0) + number
        if losses:
            texts = [f"{clean(reason)} ({number:,})" for reason, number in losses.items()]
            yield Row(f"not recorded in {clean(side.name, None)}", (listed(texts, 5),))

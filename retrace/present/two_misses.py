"""Two misses, of one recording or of two: what differs between their keys and programs."""

from __future__ import annotations

from typing import Any, NamedTuple

from retrace.compare.keys import changes
from retrace.compare.programs import Difference, compare
from retrace.model import Change, Component, Listing, Verdict
from retrace.present.changes import change_fields
from retrace.present.detail import detail
from retrace.present.difference import lines
from retrace.present.layout import Paint, plain, wrapped
from retrace.present.markdown import escaped
from retrace.present.program import difference_facts
from retrace.present.view import View
from retrace.present.words import clean, turned
from retrace.runs.programs import Texts
from retrace.runs.sides import Neutral, Side

_MAX_CHANGES = 12


class Compared(NamedTuple):
    """Two misses compared."""

    old: tuple[View, Verdict]
    new: tuple[View, Verdict]
    changes: tuple[Change, ...]
    equal: bool | None
    """Whether their programs are equal, or None if unknown."""
    difference: Difference | None
    listings: tuple[Listing, Listing] | None


def compared(old: tuple[View, Verdict], new: tuple[View, Verdict]) -> Compared:
    """What differs between two misses."""
    misses = [verdict.miss for _, verdict in (old, new)]
    if misses[0].run != misses[1].run:
        # Numbers and tokens are only valid within one process.
        neutral = Neutral(*(Side(view.recording, [verdict]) for view, verdict in (old, new)))
        misses = [neutral.of(miss) for miss in misses]
    found = changes(misses[0], misses[1])
    programs = [miss.program for miss in misses]
    if programs[0] is None or programs[1] is None:
        return Compared(old, new, found, None, None, None)
    texts = Texts(old[0].recording.listings, new[0].recording.listings)
    listings = [texts.get(program.listing or "") for program in programs if program is not None]
    equal = programs[0].hash == programs[1].hash
    if listings[0] is None or listings[1] is None:
        return Compared(old, new, found, equal, None, None)
    pair = listings[0], listings[1]
    return Compared(old, new, found, equal, compare(*pair, texts), pair)


def text(found: Compared, width: int, paint: Paint = plain) -> str:
    """The comparison for a terminal."""
    out = [_heading(found)]
    for change in found.changes:
        if change.component is not Component.PROGRAM:
            out += wrapped(f"  {_change(change)}", width, 6)
    out.append(f"  {_kind(found)}")
    for fact in _evidence(found):
        out += wrapped(f"    {fact}", width, 6)
    if found.listings is not None and not found.equal:
        out += ["", *lines(found.new[0], *found.listings, width, paint)]
    return "\n".join(out) + "\n"


def markdown(found: Compared) -> str:
    """The comparison for a pull request."""
    out = ["# retrace diff", "", f"{escaped(_heading(found))}", ""]
    out += [
        f"- {escaped(_change(change))}"
        for change in found.changes
        if change.component is not Component.PROGRAM
    ]
    out.append(f"- {escaped(_kind(found))}")
    out += [f"  - {escaped(fact)}" for fact in _evidence(found)]
    return "\n".join(out) + "\n"


def json(found: Compared) -> dict[str, Any]:
    """The comparison as JSON."""
    return {
        "schema": "retrace-diff-of-misses/1",
        "old": found.old[1].miss.id,
        "new": found.new[1].miss.id,
        "causes": [found.old[1].cause.value, found.new[1].cause.value],
        "changes": list(map(change_fields, found.changes)),
        "program": {
            "change": _change_of_program(found),
            "evidence": _evidence(found),
        },
    }


def _heading(found: Compared) -> str:
    return " -> ".join(view.label(verdict.miss) for view, verdict in (found.old, found.new))


def _change(change: Change) -> str:
    path = "" if change.path is None else f" {clean(change.path, 40)}"
    return f"{change.component.value.replace('_', ' ')}{path}: {turned(detail(change))}"


def _change_of_program(found: Compared) -> str | None:
    if found.equal is None:
        return None
    if found.equal:
        return "identical"
    return "different" if found.difference is None else found.difference.kind


def _kind(found: Compared) -> str:
    kind = _change_of_program(found)
    return f"the programs are {kind}" if kind else "their programs cannot be compared"


def _evidence(found: Compared) -> list[str]:
    if found.difference is None:
        return []
    return difference_facts(found.new[0], found.difference, found.changes, _MAX_CHANGES)

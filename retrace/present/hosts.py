"""Differences between the processes of a job, as text and JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

from retrace.causes import Cause
from retrace.hosts.divergence import Divergence, Parting, Setting, Stopped
from retrace.model import Change, Component, Listing, Miss, Recording, Verdict
from retrace.present import unserved
from retrace.present.changes import change_fields, sides
from retrace.present.detail import detail
from retrace.present.layout import Paint, plain, rows, wrapped
from retrace.present.message import Line
from retrace.present.program import evidence
from retrace.present.view import View
from retrace.present.words import clean, count, listed, name, place, seconds, turned
from retrace.reason.program import Comparison

_MAX_LISTED = 4
"""Maximum number of changes, settings, processes and further places that are listed."""
_LEAF = (Component.SHAPE, Component.DTYPE, Component.WEAK_TYPE)
_HIDDEN = (Component.FUNCTION, Component.PROGRAM)


class Sentence(NamedTuple):
    """A statement that stands on its own."""

    text: str
    style: Literal["", "loud", "warm"] = ""
    further: bool = False
    """Whether it adds to the first place."""


class DivergenceReport:
    """A divergence, ready to be shown.

    Args:
        found: what was found.
        listings: the texts of the programs, by id.
        here: the reader's directory.
    """

    def __init__(
        self, found: Divergence, listings: Mapping[str, Listing], here: str = ""
    ) -> None:
        self.found = found
        self._runs = found.runs
        self._view = View(Recording([], [], listings), [], here)
        first = found.first
        if first is not None and first.function.file:
            folder = os.path.dirname(first.function.file)
            self._view.bases = (here, folder if os.path.isabs(folder) else "")
        self._hosts = len({run.host for run in found.runs.values()}) > 1

    def report(self, width: int = 80, paint: Paint = plain) -> str:
        """The full report, as shown by `retrace hosts`."""
        found = self.found
        out = list(self.block(width, paint)) or list(self._equal(width, paint))
        out += ["", *self._costs(width)]
        if self.found.unserved:
            out += ["", *self.stored(width)]
        quiet = [one for one in found.environment if not one.matters]
        if quiet:
            out.append("")
            text = "these differ too, but usually do not change programs"
            out += wrapped(text, width, 2)
            for one in quiet[:_MAX_LISTED]:
                out += wrapped(f"  {self._setting(one)}", width, 4)
            if len(quiet) > _MAX_LISTED:
                out.append(f"  and {count(len(quiet) - _MAX_LISTED, 'more setting')}")
        return "\n".join(out) + "\n"

    def stored(self, width: int = 80) -> Iterator[str]:
        """Processes that find nothing in the on-disk cache, and why."""
        for text in self.unserved():
            yield from wrapped(text, width, 2)

    def unserved(self) -> Iterator[str]:
        """The same as sentences, one for each reason."""
        yield from map(unserved.sentence, self.found.unserved)

    def block(self, width: int = 80, paint: Paint = plain) -> Iterator[str]:
        """Where processes diverge; nothing if they do not and none stopped."""
        for part in self.parts():
            if isinstance(part, list):
                yield from rows(part, width, paint)
                continue
            before = "  " if part.further else ""
            first, *rest = wrapped(before + part.text, width, len(before) + 2)
            yield paint(first, part.style) if part.style else first
            yield from rest

    def parts(self) -> Iterator[Sentence | list[Line]]:
        """The same as sentences, and rows for the first place."""
        found, first = self.found, self.found.first
        if first is not None:
            heading = f"processes differ, first at {self._label(first)}: {self._who(first)}"
            yield Sentence(heading, "loud")
            yield list(self._lines(first))
            if len(found.partings) > 1:
                yield Sentence(self._further(), further=True)
        matters = [one for one in found.environment if one.matters]
        for one in matters[:_MAX_LISTED] if first is None or first.how != "environment" else ():
            yield Sentence(f"also differs: {self._setting(one)}", further=True)
        if first is not None or len(found.stopped) < len(found.processes):
            yield from self._stopped()
        if found.absent:
            who = self._named(found.absent)
            were = "was" if len(found.absent) == 1 else "were"
            yield Sentence(f"of {who} no recording {were} found")
        if found.incomparable:
            text = ""
            if found.equal:
                processes = count(len(found.processes), "process", "processes")
                text = f"{processes}, no differences in the types of arguments and in settings; "
            yield Sentence(
                f"{text}programs and values were not compared: each process was redacted under "
                "its own key (record with --redact-key FILE to compare them)"
            )

    def _equal(self, width: int, paint: Paint) -> Iterator[str]:
        if len(self.found.processes) < 2:
            yield from wrapped(
                "only 1 process was recorded: nothing to compare it with", width, 2
            )
            return
        processes = count(len(self.found.processes), "process", "processes")
        number = max(self.found.misses.values(), default=0)
        programs = count(number, "program")
        phrase = f"{processes}, no differences: each compiled the same {programs}"
        yield from (paint(text, "bold") for text in wrapped(phrase, width, 2))

    def _lines(self, first: Parting) -> Iterator[Line]:
        changes = [one for one in first.changes if one.component not in _HIDDEN]
        label = "because"
        for change in changes[:_MAX_LISTED]:
            yield Line(label, self._cells(first, change))
            label = ""
        if len(changes) > _MAX_LISTED:
            yield Line("", (f"and {count(len(changes) - _MAX_LISTED, 'more change')}",))
        if not changes and first.how == "other":
            yield Line(label, ("equal arguments, but a different program",))
        label = "reads"
        for change in first.reads[:_MAX_LISTED]:
            yield Line(label, (clean(change.path, 40), turned(detail(change), 160)))
            label = ""
        if texts := self._evidence(first):
            yield Line("program", tuple(texts))
        if (site := _shown(first).call_site) is not None:
            where = place(site.file, site.line, self._view.bases)
            source = f"   {clean(site.source)}" if site.source else ""
            yield Line("called", (f"{where}{source}",))
        yield Line("runs on", (self._runs_on(first),))
        yield Line("see", (self._misses(first),))

    def _evidence(self, parting: Parting) -> list[str]:
        """How the programs differ, unless they are hidden under different keys."""
        if self.found.incomparable:
            return []
        return evidence(self._view, self._verdict(parting))

    def _cells(self, first: Parting, change: Change) -> tuple[str, ...]:
        what = change.component.value.replace("_", " ")
        path = () if change.path is None else (clean(change.path, 40),)
        if change.component in _LEAF:
            old, new = sides(self._verdict(first), change)
            if first.groups > 2:  # the others differ too; show one of them
                return (what, *path, f"{new}{self._in(first.new)}, {old}{self._in(first.old)}")
            others = len(first.sides) - len(first.minority)
            return (what, *path, f"{new}, {_others(others)} {old}")
        return (what, *path, turned(detail(change), 160))

    def _in(self, miss: Miss | None) -> str:
        found = [i for i, run in self._runs.items() if miss is not None and run.id == miss.run]
        return "".join(f" in {self._named((process,))}" for process in found)

    def _verdict(self, first: Parting) -> Verdict:
        miss = _shown(first)
        comparison = None
        if first.old is not None and first.new is not None and first.old is not first.new:
            comparison = Comparison(
                first.old, first.new, first.changes, self._view.recording.listings
            )
        return Verdict(miss, Cause.UNKNOWN, first.old, first.changes, comparison, "maybe", None)

    def _label(self, parting: Parting) -> str:
        function = parting.function
        where = place(function.file, function.line, self._view.bases)
        return f"{name(function)} #{parting.occurrence} ({where})"

    def _who(self, parting: Parting) -> str:
        who = self._named(parting.minority)
        many = len(parting.minority) > 1
        number = len(parting.sides) - len(parting.minority)
        others = "the other one" if number == 1 else f"the {number:,} others"
        if parting.how == "environment":
            return f"{who} run{'' if many else 's'} it under different settings from {others}"
        if parting.groups > 2 and parting.groups == len(parting.sides):
            return "each process has a different program"
        if parting.how == "extra":
            return f"{who} compiled it, {others} did not"
        if parting.how == "missing":
            return f"{who} did not compile it, {others} did"
        has = "have" if many else "has"
        return f"{who} {has} a different program from {others}"

    def _named(self, processes: Sequence[int]) -> str:
        texts = [
            f"{one} on {clean(self._runs[one].host, 32)}"
            if self._hosts and one in self._runs and len(processes) <= _MAX_LISTED
            else str(one)
            for one in processes
        ]
        noun = "process" if len(texts) == 1 else "processes"
        return f"{noun} {listed(texts, _MAX_LISTED)}"

    def _runs_on(self, parting: Parting) -> str:
        if parting.spans is None:
            return "its own devices: no other process waits for it"
        stopped = [one for one in parting.sides if parting.sides[one].miss is None]
        wait = "which wait for each other here"
        if parting.how == "extra" and stopped:
            wait = "so it waits for processes that never get here"
        return f"{count(parting.spans, 'process', 'processes')}, {wait}"

    def _misses(self, parting: Parting) -> str:
        texts: list[str] = []
        usual = [one for one in parting.sides if one not in parting.minority]
        for one in (*parting.minority[:2], *usual[:1]):
            side = parting.sides[one]
            if side.miss is not None:
                texts.append(f"retrace show {side.miss} (process {one})")
        return ", ".join(texts)

    def _further(self) -> str:
        rest = self.found.partings[1:]
        texts = [f"{self._label(one)}, {self._named(one.minority)}" for one in rest[:_MAX_LISTED]]
        more = f"; and {len(rest) - _MAX_LISTED} more" if len(rest) > _MAX_LISTED else ""
        return f"then at {'; '.join(texts)}{more}"

    def _stopped(self) -> Iterator[Sentence]:
        stopped = self.found.stopped
        yield from (Sentence(self._stop(one), "warm") for one in stopped[:_MAX_LISTED])
        if len(stopped) > _MAX_LISTED:
            more = count(len(stopped) - _MAX_LISTED, "more process", "more processes")
            yield Sentence(f"{more} did not end their recording either")

    def _stop(self, one: Stopped) -> str:
        text = f"{self._named((one.process,))} did not end its recording"
        if one.at is not None and one.at.in_flight is not None:
            return f"{text}: it was in the {one.at.in_flight.value} stage of {self._at(one.at)}"
        if one.last is not None:
            return f"{text}: its last miss was {self._at(one.last)}"
        return f"{text}, and had no miss"

    def _at(self, miss: Miss) -> str:
        site = miss.call_site
        called = ""
        if site is not None:
            called = f", called from {place(site.file, site.line, self._view.bases)}"
        return f"{name(miss.function)}{called}"

    def _setting(self, one: Setting) -> str:
        groups: dict[str, list[int]] = {}
        for process, value in one.values.items():
            phrase = "not set" if value is None else clean(value)
            groups.setdefault(phrase, []).append(process)
        most, *others = sorted(groups.items(), key=lambda item: -len(item[1]))
        texts = [f"{phrase} ({self._named(who)})" for phrase, who in others[:_MAX_LISTED]]
        more = (
            f", and {len(others) - _MAX_LISTED} more values" if len(others) > _MAX_LISTED else ""
        )
        phrase, who = most
        rest = f"{phrase} ({self._named(who)})" if others[1:] else f"{_others(len(who))} {phrase}"
        return f"{clean(one.name)}: {', '.join(texts)}{more}; {rest}"

    def _costs(self, width: int) -> Iterator[str]:
        spent = self.found.seconds
        if len(spent) < 2:
            if spent:
                yield f"tracing, lowering and compiling took {seconds(sum(spent.values()))}"
            return
        slowest = max(spent, key=lambda one: spent[one])
        text = (
            f"tracing, lowering and compiling took {seconds(median(spent.values()))} in the "
            f"median process, {seconds(spent[slowest])} in the slowest ({slowest}); "
            f"{seconds(sum(spent.values()))} in all processes together"
        )
        yield from wrapped(text, width, 2)

    def explanation(self, parting: Parting) -> str:
        """A divergence explained in a sentence or two."""
        changes = [one for one in parting.changes if one.component not in _HIDDEN]
        text = f"{self._label(parting)}: {self._who(parting)}"
        if changes:
            cells = (self._cells(parting, change) for change in changes[:_MAX_LISTED])
            text += f": {'; '.join(' '.join(one[1:] or one) for one in cells)}"
        elif parting.reads:
            reads = [f"{clean(one.path, 40)} {turned(detail(one))}" for one in parting.reads]
            text += f": it reads {listed(reads, 2)}"
        elif facts := self._evidence(parting):
            text += f": {facts[0]}"
        return f"{text}. It runs on {self._runs_on(parting)}."

    def json(self) -> dict[str, Any]:
        """The same as data."""
        found, first = self.found, self.found.first
        return {
            "equal": found.equal,
            "processes": len(found.processes),
            "first": None if first is None else self._parting(first),
            "others": [self._parting(one) for one in found.partings[1:]],
            "environment": [
                {
                    "name": one.name,
                    "values": {str(process): value for process, value in one.values.items()},
                    "matters": one.matters,
                }
                for one in found.environment
            ],
            "stopped": [
                {
                    "process": one.process,
                    "stage": one.at and one.at.in_flight and one.at.in_flight.value,
                    "miss": one.at and one.at.id,
                    "last": one.last and one.last.id,
                }
                for one in found.stopped
            ],
            "absent": list(found.absent),
            "seconds": {str(process): spent for process, spent in found.seconds.items()},
            "misses": {str(process): number for process, number in found.misses.items()},
            "disk_cache": list(map(unserved.to_json, found.unserved)),
            "comparable": not found.incomparable,
        }

    def _parting(self, one: Parting) -> dict[str, Any]:
        site = _shown(one).call_site
        return {
            "function": one.function.name,
            "file": one.function.file,
            "line": one.function.line,
            "occurrence": one.occurrence,
            "how": one.how,
            "minority": list(one.minority),
            "processes": {
                str(process): {
                    "miss": side.miss,
                    "program": side.program,
                    "stopped": side.stopped,
                }
                for process, side in one.sides.items()
            },
            "spans": one.spans,
            "call_site": site and {"file": site.file, "line": site.line, "source": site.source},
            "changes": [change_fields(change) for change in one.changes if _tells(change)],
            "reads": [change_fields(change) for change in one.reads],
            "explanation": self.explanation(one),
        }


def _shown(parting: Parting) -> Miss:
    """The miss that represents a divergence: the minority's, if it had one."""
    found = parting.new or parting.old
    assert found is not None
    return found


def _tells(change: Change) -> bool:
    return change.component is not Component.FUNCTION


def _others(number: int) -> str:
    return "the other one" if number == 1 else "the others"

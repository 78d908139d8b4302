"""The comparison of two recordings in words: a heading, and sections of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from retrace.causes import Cause
from retrace.compare.keys import NOT_IN_KEY
from retrace.compare.programs import Constant
from retrace.model import JSON, Change, Verdict
from retrace.model.parts import OF_CONTEXT
from retrace.present.detail import detail
from retrace.present.layout import Paint, plain, wrapped
from retrace.present.markdown import escaped
from retrace.present.program import difference_facts
from retrace.present.runs_rows import Row, Section, disk_rows, seconds_rows, unknown_rows
from retrace.present.view import View
from retrace.present.words import clean, count, cut_apart, listed, name, seconds, times, turned
from retrace.runs.difference import Difference
from retrace.runs.environment import Fact
from retrace.runs.functions import Same
from retrace.runs.misses import Pair
from retrace.runs.programs import Changed

_MAX_ROWS = 12
"""Maximum number of rows in a section; the rest are counted."""
_MAX_CHANGES = 3
_MAX_LENGTH = 60


class Report(NamedTuple):
    heading: str
    sections: list[Section]


def report(found: Difference, old: View, new: View) -> Report:
    """What differs between two recordings, in words."""
    sections = [
        Section("environment", list(_environment(found))),
        _cut("misses", list(_misses(found, old, new))),
        _cut("programs", list(_programs(found, new))),
        _cut("functions", list(_functions(found.functions.both, old, new))),
        _cut("on-disk cache", list(disk_rows(found))),
        Section("seconds", list(seconds_rows(found))),
        Section("not known", list(unknown_rows(found))),
    ]
    return Report(_heading(found), [section for section in sections if section.rows])


def text(report: Report, width: int, paint: Paint = plain) -> str:
    """For a terminal."""
    out = list(wrapped(f"retrace: {report.heading}", width, 9))
    for section in report.sections:
        out += ["", paint(section.title, "bold")]
        for row in section.rows:
            first, *rest = row.said
            phrase = f"{row.about}: {first}" if row.about else first
            lead = "  " if row.spent is None else f"{seconds(row.spent):>12}   "
            out += wrapped(f"{lead}{phrase}", width, len(lead) + 4)
            for line in rest:
                out += wrapped(f"{' ' * len(lead)}  {line}", width, len(lead) + 4)
        if section.more:
            out.append(f"  and {section.more:,} more")
    return "\n".join(out) + "\n"


def markdown(report: Report) -> str:
    """For a pull request."""
    out = ["# retrace diff", "", f"{escaped(report.heading)}."]
    for section in report.sections:
        out += ["", f"## {section.title.capitalize()}", ""]
        for row in section.rows:
            about = f"**{escaped(row.about)}**: " if row.about else ""
            spent = "" if row.spent is None else f" ({seconds(row.spent)})"
            out.append(f"- {about}{escaped(row.said[0])}{spent}")
            out += [f"  - {escaped(line)}" for line in row.said[1:]]
        if section.more:
            out.append(f"- and {section.more:,} more")
    return "\n".join(out) + "\n"


def _cut(title: str, rows: list[Row]) -> Section:
    return Section(title, rows[:_MAX_ROWS], max(0, len(rows) - _MAX_ROWS))


def _heading(found: Difference) -> str:
    sides = (found.old.verdicts, found.seconds.old), (found.new.verdicts, found.seconds.new)
    sizes = [f"{count(len(own), 'miss', 'misses')}, {seconds(spent)}" for own, spent in sides]
    phrase = " -> ".join(sizes)
    if found.is_equal:
        spent = f"{seconds(found.seconds.old)} -> {seconds(found.seconds.new)}"
        many = count(len(found.pairs), "miss", "misses")
        where = ", in a different environment" if found.environment.facts else ""
        return f"equal: {many} with the same keys, causes and programs{where}; {spent}"
    parts = [
        (len(found.added), "new"),
        (len(found.gone), "gone"),
        (len(found.changed), "changed"),
    ]
    differing = [f"{number:,} {what}" for number, what in parts if number]
    if others := len(list(_outermost(found.programs))):
        differing.append(count(others, "other program"))
    if differing:
        return f"{phrase}: {listed(differing, 4)}"
    doubt = "what could not be compared" if found.unknown_programs else "what was not recorded"
    return f"{phrase}: no difference found, except for {doubt}"


def _environment(found: Difference) -> Iterator[Row]:
    for fact in found.environment.facts:
        yield Row(clean(fact.name, 48), (_fact(fact),))


def _fact(fact: Fact) -> str:
    if isinstance(fact.old, str | None) and isinstance(fact.new, str | None):
        flags = [list(dict.fromkeys((side or "").split())) for side in (fact.old, fact.new)]
        if any(flag.startswith("--") for side in flags for flag in side):
            gone = [f"without {clean(flag, 200)}" for flag in flags[0] if flag not in flags[1]]
            new = [f"with {clean(flag, 200)}" for flag in flags[1] if flag not in flags[0]]
            if gone or new:
                return ", ".join([*new, *gone])
            return "the same flags in another order"
    sides = _value(fact.old), _value(fact.new)
    if sides[0] == sides[1]:  # a text that looks like a number, say
        sides = clean(repr(fact.old), None), clean(repr(fact.new), None)
    old, new = cut_apart(*sides, _MAX_LENGTH)
    return f"{old} -> {new}"


def _value(value: JSON) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        return clean(value, None) or "''"
    return clean(repr(value), None)


def _misses(found: Difference, old: View, new: View) -> Iterator[Row]:
    """New, gone and changed misses, most expensive first; equal changes on a line share a row."""
    rows: dict[tuple[object, ...], tuple[list[float], Callable[[int], Row]]] = {}

    def add(key: tuple[object, ...], verdict: Verdict, row: Callable[[int], Row]) -> None:
        rows.setdefault(key, ([], row))[0].append(verdict.miss.seconds)

    for what, verdicts, view in (("new", found.added, new), ("gone", found.gone, old)):
        for one in verdicts:
            add((what, _about(one, view), one.cause), one, _one_sided(what, one, view))
    everywhere = _everywhere(found)
    for pair in found.changed:
        phrase = tuple(_changes(pair, everywhere))
        if phrase:
            site = pair.new.miss.function.site, pair.new.miss.derived
            add(("changed", *site, phrase), pair.new, _changed_row(pair, old, new, phrase))
        else:
            names = [clean(name, 48) for name in everywhere]
            add(("changed",), pair.new, _by_environment(names))
    made = [row(len(spent))._replace(spent=sum(spent)) for spent, row in rows.values()]
    yield from sorted(made, key=lambda row: -(row.spent or 0.0))


def _everywhere(found: Difference) -> list[str]:
    """Settings that differ in the environment, or in every key."""
    named = {fact.name for fact in found.environment.facts}
    changed = [
        {change.path or "" for change in pair.changes if change.component in OF_CONTEXT}
        for pair in found.changed
    ]
    if not changed:
        return []
    common = set[str].intersection(*changed) if len(changed) > 1 else set[str]()
    return sorted(set[str].union(*changed) & (named | common))


def _by_environment(names: Sequence[str]) -> Callable[[int], Row]:
    def row(number: int) -> Row:
        what = "1 miss" if number == 1 else f"{number:,} misses"
        return Row(f"changed {what}", (f"only in {listed(list(names), 4)}",))

    return row


def _about(verdict: Verdict, view: View) -> str:
    miss = verdict.miss
    if verdict.cause is Cause.EAGER_OP:
        return f"eager {name(miss.function)}, {view.caused_at(miss)}"
    derived = f" ({clean(miss.derived, 16)})" if miss.derived else ""
    return f"{name(miss.function)}{derived}, {view.place(miss)}"


def _one_sided(what: str, verdict: Verdict, view: View) -> Callable[[int], Row]:
    texts = [verdict.cause.value]
    texts += [
        _change(change)
        for change in verdict.changes[:1]
        if verdict.cause.value.startswith(change.component.value.replace("_", "-"))
    ]

    def row(number: int) -> Row:
        what_changed = ", ".join(texts) if number == 1 else f"{texts[0]}, {times(number)}"
        return Row(f"{what} {_about(verdict, view)}", (what_changed,))

    return row


def _changed_row(pair: Pair, old: View, new: View, texts: Sequence[str]) -> Callable[[int], Row]:
    labels = old.short_label(pair.old.miss), new.short_label(pair.new.miss)
    label = labels[0] if labels[0] == labels[1] else f"{labels[0]} -> {labels[1]}"

    def row(number: int) -> Row:
        if number == 1:
            return Row(f"changed {label}, {_where(pair.new, new)}", tuple(texts))
        about = f"changed {_about(pair.new, new)}, {times(number)}"
        return Row(about, tuple(texts))

    return row


def _where(verdict: Verdict, view: View) -> str:
    if verdict.cause is Cause.EAGER_OP:
        return view.caused_at(verdict.miss)
    return view.place(verdict.miss)


def _changes(pair: Pair, everywhere: Sequence[str]) -> Iterator[str]:
    key = [
        change
        for change in pair.changes
        if change.component not in NOT_IN_KEY
        and not (change.component in OF_CONTEXT and change.path in everywhere)
    ]
    for change in key[:_MAX_CHANGES]:
        yield _change(change)
    if len(key) > _MAX_CHANGES:
        yield f"and {count(len(key) - _MAX_CHANGES, 'more change')} of its key"
    if pair.old.cause is not pair.new.cause:
        yield f"its cause: {pair.old.cause.value} -> {pair.new.cause.value}"


def _change(change: Change) -> str:
    path = "" if change.path is None else f" `{clean(change.path, 40)}`"
    return f"{change.component.value.replace('_', ' ')}{path}: {turned(detail(change))}"


def _outermost(programs: Sequence[Changed]) -> Iterator[Changed]:
    """Drop programs nested in one that is shown."""
    shown = {pair.new.miss.id for one in programs for pair in one.pairs}
    for one in programs:
        if any(pair.new.miss.parent not in shown for pair in one.pairs):
            yield one


def _programs(found: Difference, new: View) -> Iterator[Row]:
    """The programs that differ; equal differences of one function share a row."""
    rows: dict[tuple[object, ...], list[Row]] = {}
    for one in _outermost(found.programs):
        row = _program(one, new)
        rows.setdefault((row.about, row.said), []).append(row)
    for alike in rows.values():
        again = f" ({len(alike):,} programs)" if len(alike) > 1 else ""
        spent = sum(row.spent or 0.0 for row in alike)
        yield alike[0]._replace(about=f"{alike[0].about}{again}", spent=spent)


def _program(one: Changed, view: View) -> Row:
    pair = one.pairs[0]
    texts = list(evidence(one, view))
    if one.is_shareable:
        names = list(dict.fromkeys(name for _, found in one.names for name in found[:1]))
        what = listed([f"`{clean(each, 40)}`" for each in names], 3) if names else "it"
        arguments = "arguments" if len(names) > 1 else "an argument"
        texts.append(f"make {what} {arguments}, and both runs share one program on disk")
    if not texts:
        texts = ["another program, whose text was not recorded"]
    return Row(_about(pair.new, view), tuple(texts), one.seconds[1])


def evidence(one: Changed, view: View) -> Iterator[str]:
    """How a program differs, one fact per item."""
    found = one.difference
    if found is None:
        return
    names = dict(one.names)

    def named(constant: Constant) -> str:
        held = names.get(constant, ())
        return f"`{clean(held[0], 40)}` " if held else ""

    pair = one.pairs[0]
    yield from difference_facts(view, found, pair.changes, named=named)


def _functions(both: Sequence[Same], old: View, new: View) -> Iterator[Row]:
    moved: list[Same] = []
    for same in both:
        if "name" in same.changed or "file" in same.changed:
            sides = [
                f"{name(group.function)} ({view.place(group.verdicts[0].miss)})"
                for group, view in ((same.old, old), (same.new, new))
            ]
            edited = ", and edited" if "source" in same.changed else ""
            what = "renamed" if "name" in same.changed else "moved to another file"
            yield Row(what, (f"{sides[0]} -> {sides[1]}{edited}",))
        elif "source" in same.changed:
            where = new.place(same.new.verdicts[0].miss)
            yield Row("edited", (f"{name(same.new.function)} ({where})",))
        elif "line" in same.changed:
            moved.append(same)
    if moved:
        texts = [
            f"{name(one.new.function)} {old.place(one.old.verdicts[0].miss)} -> "
            f"{one.new.function.line}"
            for one in moved
        ]
        yield Row("on another line", (listed(texts, 4),))

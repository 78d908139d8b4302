"""The report, one miss, and the closing summary of a run, as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TypeAlias

from retrace.causes import Cause
from retrace.model import Stage, Verdict
from retrace.present import difference
from retrace.present.group import Group
from retrace.present.message import Line, Message, eager_row, heading, origin, told, where
from retrace.present.sentences import explanation
from retrace.present.tally import Sort, Tally, worth_telling
from retrace.present.view import View
from retrace.present.words import clean, count, cut, listed, name, place, seconds
from retrace.reason.program import Comparison

Paint: TypeAlias = Callable[[str, str], str]
"""Takes a text and a style to the text in that style."""

_STYLES = {"loud": "1;31", "warm": "33", "bold": "1", "dim": "2", "fix": "32"}
_LABEL = 10
_INDENT = 2 + _LABEL
_LONGEST_LIST = 8
_DEAREST = 3
"""So many causes are named in the summary of a run."""


def colour(text: str, style: str) -> str:
    """Text in ANSI colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def plain(text: str, style: str) -> str:  # noqa: ARG001
    """Text as it is."""
    return text


def message(view: View, verdict: Verdict, width: int = 80, paint: Paint = plain) -> str:
    """One miss as a program that is still running tells it."""
    return group_message(view, Group.alone(verdict), width, paint)


def group_message(view: View, group: Group, width: int = 80, paint: Paint = plain) -> str:
    """The misses of one function and cause, as one miss is told."""
    return written(told(view, group), width, paint)


def written(message: Message, width: int = 80, paint: Paint = plain) -> str:
    """A message as text."""
    return "\n".join(_written(message, width, paint, "retrace: "))


def report(
    view: View,
    tally: Tally | None = None,
    *,
    sort: Sort = "seconds",
    keys: bool = False,
    width: int = 80,
    paint: Paint = plain,
    program: str | None = None,
) -> str:
    """What was recorded, explained, worst first.

    Args:
        view: the whole recording.
        tally: the misses to tell of; None for all.
        sort: what comes first: the dearest, the most frequent or the earliest.
        keys: whether the cache key of each miss that is shown is written out.
        width: columns.
        paint: `colour` or `plain`.
        program: what was run, where it still runs; its misses lie in no directory.
    """
    tally = tally or Tally.of(view)
    out = list(_opening(view, tally, width, paint, program=program))
    groups = tally.groups(sort)
    loud, small = worth_telling(tally, groups)
    for group in loud:
        out += ["", *_written(told(view, group), width, paint)]
        if keys:
            out += _key(group.shown, width)
        if program is None:
            out += _ids(group, width, paint)
    out += _listed(small, view, width, paint)
    out += _eager(
        [g for g in groups if g.is_quiet and g.cause is Cause.EAGER_OP], view, width, paint
    )
    out += _first(
        [g for g in groups if g.is_quiet and g.cause is Cause.FIRST_TRACE], width, paint
    )
    out += _closing(view, width, paint, runs=program is not None)
    return "\n".join(out) + "\n"


def _opening(
    view: View,
    tally: Tally,
    width: int,
    paint: Paint,
    *,
    brief: bool = False,
    program: str | None = None,
) -> Iterator[str]:
    total = tally.totals
    brief = brief or program is not None
    if not total.misses:
        none = program is not None or not view.missed
        what = "no misses" if none else "no such misses"
        because = (
            ": JAX served every call from its caches, or ran none"
            if none and not view.losses()
            else ""
        )
        yield from _wrapped(f"retrace: {what} in {program or origin(view)}{because}", width, 9)
        return
    misses = count(total.misses, "miss", "misses")
    said = f"retrace: {misses} in {program or origin(view)}, {seconds(total.all_seconds)}"
    worth = "none of them avoidable for certain"
    if total.avoidable:
        worth = f"{total.avoidable:,} avoidable, {seconds(total.avoidable_seconds)}"
    first, *rest = _wrapped(f"{said}; {worth}", width, 9)
    yield paint(first, "bold")
    yield from rest
    stages = (Stage.TRACE, Stage.LOWER, Stage.COMPILE)
    spent = [
        f"{s.value} {seconds(total.seconds[s])} ({total.ran[s]:,})"
        for s in stages
        if total.ran[s]
    ]
    yield from _wrapped(f"{'':9}{'   '.join(spent)}", width, 9)
    if brief or not view.recording.runs:
        return
    run = view.recording.runs[0]
    made = {
        f"jax {clean(r.jax)}" + (f" on {clean(r.backend)}" if r.backend else "")
        for r in view.recording.runs
    }
    when = datetime.fromtimestamp(run.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
    number = len(view.recording.runs)
    processes = f"   {count(number, 'process', 'processes')}" if number > 1 else ""
    for text in _wrapped(f"{'':9}{listed(sorted(made))}   {when}{processes}", width, 9):
        yield paint(text, "dim")


def _written(message: Message, width: int, paint: Paint, prefix: str = "") -> Iterator[str]:
    style = {"yes": "loud", "maybe": "warm", "no": "bold"}[message.worth]
    said, at = prefix + message.heading, message.place
    gap = width - len(said) - len(at)
    if gap >= 2:
        yield paint(said, style) + " " * gap + at
    else:
        first, *rest = _wrapped(said, width, 4)
        yield paint(first, style)
        yield from rest
        yield at.rjust(width)
    yield from _body(message.lines, width, paint)


def _body(body: Iterable[Line], width: int, paint: Paint) -> Iterator[str]:
    body = list(body)
    # The component and path of several changes stand in columns.
    rows = [line.cells for line in body if line.label in ("because", "") and len(line.cells) > 1]
    pads = [max((len(row[i]) for row in rows if len(row) > i + 1), default=0) for i in range(2)]
    for line in body:
        cells = list(line.cells)
        for index in range(min(2, len(cells) - 1) if line.cells in rows else 0):
            cells[index] = cells[index].ljust(min(pads[index], 28))
        for number, text in enumerate(_fitted(cells, width - _INDENT)):
            label = line.label.ljust(_LABEL) if number == 0 else " " * _LABEL
            if line.label == "fix":
                yield f"  {paint(label, 'fix')}{paint(text, 'fix')}"
            else:
                yield f"  {paint(label, 'dim')}{text}".rstrip()


def _fitted(cells: list[str], width: int) -> list[str]:
    """Cells side by side where they fit, else below each other."""
    out: list[str] = []
    row = ""
    for cell in cells:
        if row and len(row) + 3 + len(cell) <= width:
            row += "   " + cell
            continue
        if row:
            out.append(row)
        indent = "" if not out else "  "
        *full, row = _wrapped(indent + cell, width, len(indent))
        out += full
    return [*out, row]


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    if len(text) <= width:
        return [text]
    return textwrap.wrap(
        text,
        max(width, 20),
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    ) or [""]


def _ids(group: Group, width: int, paint: Paint) -> Iterator[str]:
    more = f"   ({group.count - 1:,} more)" if group.count > 1 else ""
    shown = f"retrace show {group.shown.miss.id}{more}"
    yield f"  {paint('more'.ljust(_LABEL), 'dim')}{paint(cut(shown, width - _INDENT), 'dim')}"


def _listed(groups: list[Group], view: View, width: int, paint: Paint) -> Iterator[str]:
    if not groups:
        return
    number = sum(group.count for group in groups)
    spent = sum(group.seconds for group in groups)
    said = f"{count(number, 'miss', 'misses')} of little cost, {seconds(spent)}"
    yield ""
    yield paint(said, "bold")
    for group in groups[:_LONGEST_LIST]:
        what = (
            "eager operations"
            if group.cause is Cause.EAGER_OP
            else name(group.shown.miss.function)
        )
        times = f" ({group.count:,} times)" if group.count > 1 else ""
        why = f"{group.cause.value}{times}"
        row = f"  {group.shown.miss.id:<12} {what}, {where(view, group)}: {why}"
        yield from _wrapped(row, width, 4)
    if len(groups) > _LONGEST_LIST:
        yield f"  and {count(len(groups) - _LONGEST_LIST, 'more cause')}"


def _eager(groups: list[Group], view: View, width: int, paint: Paint) -> Iterator[str]:
    if not groups:
        return
    number = sum(group.count for group in groups)
    spent = sum(group.seconds for group in groups)
    yield ""
    said = f"{count(number, 'eager operation')} on {count(len(groups), 'line')}"
    for text in _wrapped(f"{said}, each a program of its own, {seconds(spent)}", width, 2):
        yield paint(text, "bold")
    rows = [(seconds(g.seconds), *eager_row(view, g)) for g in groups[:_LONGEST_LIST]]
    pads = [max(len(row[i]) for row in rows) for i in range(3)]
    for spent_here, times, at, which in rows:
        row = f"  {spent_here:>{pads[0]}}   {at:<{pads[2]}}   {times:>{pads[1]}}   {which}"
        yield from _wrapped(row, width, 4)
    if len(groups) > _LONGEST_LIST:
        rest = sum(group.seconds for group in groups[_LONGEST_LIST:])
        yield f"  and {count(len(groups) - _LONGEST_LIST, 'more line')}, {seconds(rest)}"


def _first(groups: list[Group], width: int, paint: Paint) -> Iterator[str]:
    if not groups:
        return
    number = sum(group.count for group in groups)
    named = [f"{name(g.shown.miss.function)} {seconds(g.seconds)}" for g in groups]
    functions = count(len(groups), "function")
    inner = sum(group.sums.folded for group in groups)
    nested = f" and {count(inner, 'inner one')}" if inner else ""
    spent = sum(group.seconds for group in groups)
    again = f" in {count(number, 'program')}" if number > len(groups) else ""
    said = (
        f"{functions}{nested} ran for the first time{again}, {seconds(spent)}: {listed(named, 4)}"
    )
    yield ""
    for text in _wrapped(said, width, 2):
        yield paint(text, "dim")


def _closing(view: View, width: int, paint: Paint, *, runs: bool = False) -> Iterator[str]:
    said = [*(() if runs else unfinished(view)), *lost(view)]
    if said:
        yield ""
    for text in said:
        for number, part in enumerate(_wrapped(text, width, 2)):
            yield paint(part, "warm") if number == 0 else part


def unfinished(view: View) -> Iterator[str]:
    """The processes that did not end their recording."""
    for run, miss in view.unfinished():
        said = f"process {run.pid} on {clean(run.host)} did not end its recording"
        said += " (killed, or still running)"
        if miss is not None and miss.in_flight is not None:
            said += f": it was in the {miss.in_flight.value} stage of {view.label(miss)}"
            said += f", {view.place(miss)}"
        yield said


def lost(view: View) -> Iterator[str]:
    """What could not be recorded or read."""
    losses = view.losses()
    if losses:
        named = [f"{clean(reason)} ({number:,})" for reason, number in losses.most_common()]
        yield f"not recorded or not readable: {listed(named, 4)}"


def summary(
    view: View,
    directory: str,
    tally: Tally | None = None,
    *,
    newest: bool = False,
    width: int = 80,
    paint: Paint = plain,
) -> str:
    """The few lines that close `retrace run`.

    Args:
        view: what was recorded.
        directory: where, as the user may type it.
        tally: its misses, added up.
        newest: whether `retrace report` finds it without being told where.
        width: columns.
        paint: `colour` or `plain`.
    """
    tally = tally or Tally.of(view)
    out = list(_opening(view, tally, width, paint, brief=True))
    if not tally.totals.misses:
        return "\n".join([*out, *_closing(view, width, paint)]) + "\n"
    worth = [g for g in worth_telling(tally, tally.groups())[0] if g.avoidable != "no"]
    for group in worth[:_DEAREST]:
        style = "loud" if group.avoidable == "yes" else "warm"
        said, at = heading(view, group, ""), where(view, group)
        said = cut(said, width - 12)
        line = f"{seconds(group.seconds):>9}   {paint(said, style)}"
        gap = width - 12 - len(said) - len(at)
        out += [line + " " * gap + at] if gap >= 2 else [line, at.rjust(width)]
        if (fix := group.shown.fix) is not None:
            cells = _wrapped(clean(fix.text, 2 * (width - 12)), width - 12, 0)[:2]
            out += [f"{'':12}{paint(cell, 'fix')}" for cell in cells]
    if len(worth) > _DEAREST:
        rest = worth[_DEAREST:]
        spent = seconds(sum(group.seconds for group in rest))
        out.append(f"{'':12}and {count(len(rest), 'more cause')}, {spent}")
    out += [text for text in _closing(view, width, paint) if text]
    kept = clean(directory, None)
    command = "retrace report" if newest else f"retrace report {kept}"
    out += _wrapped(f"recorded in {kept}, explained by `{command}`", width, 2)
    return "\n".join(out) + "\n"


def show(view: View, verdict: Verdict, *, width: int = 80, paint: Paint = plain) -> str:
    """One miss in full."""
    group = Group.alone(verdict)
    miss, site = verdict.miss, verdict.miss.call_site
    for other in view.verdicts:
        if other is not verdict and view.root(other.miss) is miss:
            group.fold(other)
    out = list(_written(told(view, group), width, paint))
    function = miss.function
    known = f"{clean(function.qualname)} ({function.kind.value}), {view.place(miss)}"
    if function.jax_name != function.name:
        known += f"; to JAX it is {clean(function.jax_name)}"
    rows = [Line("explained", (explanation(view, verdict),)), Line("function", (known,))]
    for label, called in (
        ("called", site),
        ("nearest", verdict.nearest and verdict.nearest.call_site),
    ):
        if called:
            at = place(called.file, called.line, view.bases)
            if called.function and not called.function.startswith("<"):
                at += f" in {clean(called.function)}"
            rows.append(Line(label, (f"{at}{' (a library)' if called.library else ''}",)))
            if called.source:
                rows.append(Line("", (clean(called.source.strip(), 100),)))
    if miss.parent is not None:
        outer = view.by_id.get(miss.parent)
        within = "after" if miss.derived else "inside the trace of"
        rows.append(
            Line(
                "part of",
                (f"{within} {miss.parent if outer is None else view.label(outer.miss)}",),
            )
        )
    if miss.inner:
        rows.append(Line("inner", (f"{count(miss.inner, 'trace')} of functions of jax itself",)))
    if (cache := miss.persistent_cache) is not None and cache.outcome != "off":
        why = f" ({clean(cache.reason)})" if cache.reason else ""
        rows.append(
            Line(
                "on disk",
                (f"{cache.outcome}{why}", *([clean(cache.key)] if cache.key else [])),
            )
        )
    when = datetime.fromtimestamp(miss.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    rows.append(Line("when", (when, f"thread {clean(miss.thread)}", view.process(miss.run))))
    rows.append(Line("id", (miss.id, view.label(miss))))
    out += ["", *_body(rows, width, paint), *_key(verdict, width)]
    program = verdict.program if isinstance(verdict.program, Comparison) else None
    if program is not None and program.kind != "identical" and (sides := program.listings()):
        out += ["", "program", *difference.lines(view, *sides, width, paint)]
    return "\n".join(out) + "\n"


def _key(verdict: Verdict, width: int) -> Iterator[str]:
    from retrace.present.key import key_lines

    for text in key_lines(verdict):
        yield from _wrapped(text, width, 6) if text else [""]

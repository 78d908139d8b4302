"""The report, and the closing summary of a run, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from retrace.causes import Cause
from retrace.model import Stage
from retrace.plan.step import Plan
from retrace.present import again, dispatch, glossary, stale, stored
from retrace.present.group import Group
from retrace.present.layout import INDENT, Paint, key, parts, plain, wrapped
from retrace.present.message import (
    compose,
    eager_row,
    firsts,
    fix,
    heading,
    origin,
    raised,
    where,
)
from retrace.present.missing import lost, unfinished, warned
from retrace.present.plan_text import block, slowest
from retrace.present.tally import Sort, Tally, rest_summary, split_by_worth
from retrace.present.view import View
from retrace.present.words import argument, cells, clean, count, listed, name, padded, seconds
from retrace.regex import regex

_MAX_ROWS = 8
_MAX_CAUSES = 3
"""The number of causes named in the summary of a run."""


def report(
    view: View,
    tally: Tally | None = None,
    *,
    sort: Sort = "seconds",
    keys: bool = False,
    width: int = 80,
    paint: Paint = plain,
    program: str | None = None,
    plan: Plan | None = None,
    top: int | None = None,
) -> str:
    """The recorded misses explained, worst first.

    Args:
        view: the whole recording.
        tally: the misses to include; None for all.
        sort: what comes first: the most expensive, the most frequent or the earliest.
        keys: whether to write out the cache key of each shown miss.
        width: columns.
        paint: `colour` or `plain`.
        program: what was run, if it is still running; its misses are in no directory.
        plan: what to change first, for the first block, if it should be shown.
        top: the maximum number of groups explained; None for all.
    """
    tally = tally or Tally.of(view)
    out = list(_opening(view, tally, width, paint, program=program))
    out += _lacking(view, width, paint)
    out += _stale(view, width, paint)
    if view.hosts is not None and (differ := list(view.hosts.block(width, paint))):
        out += ["", *differ]
    if plan is not None and (steps := list(block(view, plan, width, paint))):
        out += ["", *steps]
    groups = tally.groups(sort)
    loud, small = split_by_worth(tally, groups)
    for group in loud[:top]:
        out += ["", *parts(compose(view, group), width, paint)]
        if keys:
            out += key(group.shown, width)
        if program is None:
            out += _ids(group, width, paint)
    out += _counted(loud[len(loud) if top is None else top :], len(loud), width, paint)
    out += _listed(small, view, width, paint)
    out += _eager(
        [g for g in groups if g.is_quiet and g.cause is Cause.EAGER_OP], view, width, paint
    )
    out += _first(
        [g for g in groups if g.is_quiet and g.cause is Cause.FIRST_TRACE], view, width, paint
    )
    quiet = [g for g in groups if g.is_quiet]
    out += _raised(view, [*small, *quiet], width, paint)
    programs, families = tally.again.programs(), tally.again.families(view.recording.listings)
    if more := list(again.text(programs, families, "process", view.bases, width, paint)):
        out += ["", *more]
    out += _slow(view, tally, width, paint)
    if observed := _observed_slow(view, width, paint):
        out += ["", *observed]
    if loud and program is None:
        out += _pages(width, paint)
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
        because = ""
        if view.recording.runs and all(run.is_without_jax for run in view.recording.runs):
            because = ": the program never imported jax"
        elif any(unfinished(view)):
            because = " until the recording stopped"
        elif none and not view.losses():
            because = ": JAX served every call from its caches, or there was none"
        yield from wrapped(f"retrace: {what} in {program or origin(view)}{because}", width, 9)
        return
    where_ = program or origin(view)
    if (once := tally.compiled_once(view)) is not None:
        phrase = f"retrace: {once} in {where_}, {seconds(total.all_seconds)}; each compiled once"
    else:
        phrase = (
            f"retrace: {tally.counted} in {where_}, {seconds(total.all_seconds)}; {total.worth}"
        )
    first, *rest = wrapped(phrase, width, 9)
    yield paint(first, "bold")
    yield from rest
    stages = (Stage.TRACE, Stage.LOWER, Stage.COMPILE)
    spent = [
        f"{s.value} {seconds(total.seconds[s])} ({total.ran[s]:,})"
        for s in stages
        if total.ran[s]
    ]
    yield from wrapped(f"{'':9}{'   '.join(spent)}", width, 9)
    if total.disk.was_used:
        yield from wrapped(f"{'':9}on-disk cache: {stored.said(total.disk)}", width, 11)
        if view.hosts is not None:
            for text in view.hosts.stored(width - 11):
                yield f"{'':11}{text}"
    if brief or not view.recording.runs:
        return
    run = view.recording.runs[0]
    made = {
        f"jax {clean(r.jax)}" + (f" on {clean(r.backend)}" if r.backend else "")
        for r in view.recording.runs
        if r.jax
    }
    if any(r.source == "log" for r in view.recording.runs):
        made.add("imported from a log")
    when = datetime.fromtimestamp(run.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
    number = len(view.recording.runs)
    processes = f"   {count(number, 'process', 'processes')}" if number > 1 else ""
    for text in wrapped(f"{'':9}{listed(sorted(made))}   {when}{processes}", width, 9):
        yield paint(text, "dim")


def _counted(rest: list[Group], number: int, width: int, paint: Paint) -> Iterator[str]:
    """What is beyond the groups that are explained."""
    if rest:
        phrase = f"and {rest_summary(rest)}"
        yield ""
        for text in wrapped(f"{phrase}: `retrace report --top {number}`", width, 2):
            yield paint(text, "bold")


def _ids(group: Group, width: int, paint: Paint) -> Iterator[str]:
    more = f"   ({group.count - 1:,} more)" if group.count > 1 else ""
    shown = f"retrace show {group.shown.miss.id}"  # kept whole, for copying
    yield paint(f"{'  cause':{INDENT}}{group.cause.value}", "dim")
    if len(shown) + len(more) <= width - INDENT:
        shown, more = shown + more, ""
    yield paint(f"{'  more':{INDENT}}{shown}", "dim")
    if more:
        yield paint(f"{'':{INDENT}}{more.strip()}", "dim")


def _pages(width: int, paint: Paint) -> Iterator[str]:
    """Where each cause is explained, with examples. A wrapped address would be broken."""
    text = "about each cause:"
    room = width - len(text) - 1
    if len(glossary.PAGES) <= room:
        yield from ("", paint(f"{text} {glossary.PAGES}", "dim"))
    elif len(glossary.PAGES) <= width:
        yield from ("", paint(text, "dim"), paint(glossary.PAGES, "dim"))


def _listed(groups: list[Group], view: View, width: int, paint: Paint) -> Iterator[str]:
    if not groups:
        return
    number = sum(group.count for group in groups)
    spent = sum(group.seconds for group in groups)
    text = f"{count(number, 'miss', 'misses')} of little cost, {seconds(spent)}"
    yield ""
    yield paint(text, "bold")
    for group in groups[:_MAX_ROWS]:
        what = (
            "eager operations"
            if group.cause is Cause.EAGER_OP
            else name(group.shown.miss.function)
        )
        times = f" ({group.count:,} times)" if group.count > 1 else ""
        why = f"{group.cause.value}{times}"
        row = f"  {group.shown.miss.id:<12} {what}, {where(view, group)}: {why}"
        yield from wrapped(row, width, 4)
    if len(groups) > _MAX_ROWS:
        yield f"  and {count(len(groups) - _MAX_ROWS, 'more cause')}"


def _eager(groups: list[Group], view: View, width: int, paint: Paint) -> Iterator[str]:
    if not groups:
        return
    number = sum(group.count for group in groups)
    spent = sum(group.seconds for group in groups)
    yield ""
    phrase = f"{count(number, 'eager operation')} on {count(len(groups), 'line')}"
    for text in wrapped(f"{phrase}, each compiled separately, {seconds(spent)}", width, 2):
        yield paint(text, "bold")
    rows = [(seconds(g.seconds), *eager_row(view, g)) for g in groups[:_MAX_ROWS]]
    pads = [max(cells(row[i]) for row in rows) for i in range(3)]
    for spent_here, times, at, which in rows:
        row = f"  {spent_here:>{pads[0]}}   {padded(at, pads[2])}   {times:>{pads[1]}}   {which}"
        yield from wrapped(row, width, 4)
    if len(groups) > _MAX_ROWS:
        rest = sum(group.seconds for group in groups[_MAX_ROWS:])
        yield f"  and {count(len(groups) - _MAX_ROWS, 'more line')}, {seconds(rest)}"


def _first(groups: list[Group], view: View, width: int, paint: Paint) -> Iterator[str]:
    if not groups:
        return
    number = sum(group.count for group in groups)
    functions = count(len(groups), "function")
    inner = sum(group.sums.folded for group in groups)
    nested = f", with {count(inner, 'trace')} inside" if inner else ""
    spent = sum(group.seconds for group in groups)
    again = f" in {count(number, 'program')}" if number > len(groups) else ""
    named = listed(firsts(view, groups), 4)
    phrase = f"{functions} ran for the first time{again}{nested}, {seconds(spent)}: {named}"
    yield ""
    for text in wrapped(phrase, width, 2):
        yield paint(text, "dim")


def _observed_slow(view: View, width: int, paint: Paint) -> list[str]:
    """Where the time of slow misses went."""
    if all(verdict.miss.slow is None for verdict in view.verdicts):
        return []
    # Only recordings made with --slow need it, and loading it takes 10 ms.
    from retrace.present import slow

    return list(slow.section(view, width, paint))


def _slow(view: View, tally: Tally, width: int, paint: Paint) -> Iterator[str]:
    found = dispatch.lines(view, tally)
    if not found:
        return
    yield ""
    for text in wrapped(dispatch.heading(len(found)), width, 2):
        yield paint(text, "bold")
    for one in found[:_MAX_ROWS]:
        yield from wrapped(f"  {one}", width, 4)
    if len(found) > _MAX_ROWS:
        yield f"  and {count(len(found) - _MAX_ROWS, 'more function')}"


def _stale(view: View, width: int, paint: Paint) -> Iterator[str]:
    """Stale programs come before slow calls, because their results are wrong."""
    if (found := view.audited) is not None:
        yield ""
        yield from stale.text(view, found, width, paint)


def _raised(view: View, groups: list[Group], width: int, paint: Paint) -> Iterator[str]:
    found = raised(view, groups)
    if not found:
        return
    yield ""
    number = count(len(found), "function")
    for text in wrapped(f"{number} raised while JAX traced or compiled", width, 2):
        yield paint(text, "bold")
    for one in found[:_MAX_ROWS]:
        yield from wrapped(f"  {one}", width, 4)
    if len(found) > _MAX_ROWS:
        yield f"  and {count(len(found) - _MAX_ROWS, 'more function')}"


def _closing(view: View, width: int, paint: Paint, *, runs: bool = False) -> Iterator[str]:
    text = [] if runs else list(unfinished(view))
    if text:
        yield ""
    yield from warned(text, width, paint)


def _lacking(view: View, width: int, paint: Paint) -> Iterator[str]:
    """What was lost comes first: it affects how to read the rest."""
    yield from warned(lost(view), width, paint)


def summary(
    view: View,
    directory: str,
    tally: Tally | None = None,
    *,
    newest: bool = False,
    width: int = 80,
    paint: Paint = plain,
    plan: Plan | None = None,
) -> str:
    """The few lines that close `retrace run`.

    Args:
        view: what was recorded.
        directory: its directory, as the user may type it.
        tally: its misses, summed up.
        newest: whether `retrace report` finds it without naming the directory.
        width: columns.
        paint: `colour` or `plain`.
        plan: what to change first; its first steps are shown before the causes.
    """
    tally = tally or Tally.of(view)
    out = list(_opening(view, tally, width, paint, brief=True))
    out += _lacking(view, width, paint)
    if not tally.totals.misses:
        return "\n".join([*out, *_closing(view, width, paint)]) + "\n"
    out += _stale(view, width, paint)
    if plan is not None:
        out += block(view, plan, width, paint)
    worth = [g for g in split_by_worth(tally, tally.groups())[0] if g.avoidable != "no"]
    for group in worth[:_MAX_CAUSES]:
        style = "loud" if group.avoidable == "yes" else "warm"
        room = width - 12
        phrase, at = heading(view, group, "", room), where(view, group)
        first, *rest = wrapped(phrase, room, 0)
        line = f"{seconds(group.seconds):>9}   {paint(first, style)}"
        gap = room - cells(first) - cells(at)
        if gap >= 2 and not rest:
            out.append(line + " " * gap + at)
        else:
            out += [line, *(f"{'':12}{paint(text, style)}" for text in rest)]
            out.append(" " * (width - cells(at)) + at)
        if (phrase := fix(group)) is not None:
            out += [f"{'':12}{paint(text, 'fix')}" for text in _sentences(phrase, room)]
    if len(worth) > _MAX_CAUSES:
        rest = worth[_MAX_CAUSES:]
        spent = seconds(sum(group.seconds for group in rest))
        out.append(f"{'':12}and {count(len(rest), 'more cause')}, {spent}")
    if plan is not None and not plan.steps:
        out += slowest(view, width)
    out += [text for text in _closing(view, width, paint) if text]
    kept = clean(directory, None)
    command = "retrace report" if newest else f"retrace report {argument(kept)}"
    out += wrapped(f"recorded in {kept}, explained by `{command}`", width, 2)
    return "\n".join(out) + "\n"


_SENTENCE = regex(r"(?<=\.) (?=[A-Z`])")
_MAX_LINES = 3
"""Maximum number of lines of advice at the end of a program, beyond its first sentence."""


def _sentences(text: str, room: int) -> list[str]:
    """The first sentences of a text, whole, as lines."""
    phrase, *more = _SENTENCE.split(clean(text, 8 * room))
    for sentence in more:
        if len(wrapped(f"{phrase} {sentence}", room, 0)) > _MAX_LINES:
            break
        phrase += f" {sentence}"
    return wrapped(phrase, room, 0)

"""The report as Markdown, for issues and reviews."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from retrace.causes import Cause
from retrace.model import Stage
from retrace.plan.step import Plan
from retrace.present import again, dispatch, stale
from retrace.present.group import Group
from retrace.present.message import eager_row, heading, lines, origin, raised, where
from retrace.present.missing import lost, unfinished
from retrace.present.sentences import explanation
from retrace.present.slow import section
from retrace.present.tally import Sort, Tally, rest_summary, split_by_worth
from retrace.present.view import View
from retrace.present.words import clean, name, seconds

_SPECIAL = re.compile(r"([\\*_\[\]<>#|~$&])")
_LINKED = re.compile(r"(@(?=\w)|://(?=\S)|\bwww\.(?=\S))", re.IGNORECASE)
"""What GitHub turns into a mention or a link, which would notify somebody."""
_SPAN = re.compile(r"`([^`]*)`")


def escaped(text: str) -> str:
    """Text that Markdown shows unchanged, except that backticks mark code."""
    parts = _SPAN.split(clean(text, None))
    shown = [code(part) if index % 2 else _plain(part) for index, part in enumerate(parts)]
    return "".join(shown)


def _plain(text: str) -> str:
    return _LINKED.sub(r"\1<!-- -->", _SPECIAL.sub(r"\\\1", text).replace("`", "\\`"))


def code(text: str) -> str:
    """Text in a code span, also inside a table."""
    text = clean(text, None).replace("|", "\u00a6")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def report(
    view: View,
    tally: Tally | None = None,
    *,
    sort: Sort = "seconds",
    keys: bool = False,
    plan: Plan | None = None,
    top: int | None = None,
) -> str:
    """The recorded misses explained, worst first; arguments as for the text report."""
    tally = tally or Tally.of(view)
    groups = tally.groups(sort)
    out = ["# retrace report", "", *_opening(view, tally)]
    if texts := [*unfinished(view), *lost(view)]:
        out += ["", "## What is missing", "", *(f"- {escaped(text)}" for text in texts)]
    if (found := view.audited) is not None:
        out += ["", "## Out of date", ""]
        out += [f"- {escaped(line.strip())}" for line in stale.text(view, found, 10_000)]
    if view.hosts is not None and (differ := [*view.hosts.block(), *view.hosts.stored()]):
        inside = [line.replace("`", "'") for line in differ]
        out += ["", "## Processes of one job", "", "```text", *inside, "```"]
    if plan is not None and plan.steps:
        from retrace.present.plan_markdown import table

        out += ["", *table(view, plan)]
    loud = [group for group in groups if not group.is_quiet]
    if loud:
        out += ["", "| seconds | misses | function | place | cause | avoidable |"]
        out += ["|---:|---:|---|---|---|---|"]
        out += [_row(view, group) for group in loud]
    programs, families = tally.again.programs(), tally.again.families(view.recording.listings)
    if more := list(again.text(programs, families, "process", view.bases, 10_000)):
        out += ["", *(f"- {escaped(line.strip())}" for line in more)]
    worth = split_by_worth(tally, groups)[0]
    for group in worth[:top]:
        out += ["", *_section(view, group, keys)]
    if rest := worth[len(worth) if top is None else top :]:
        out += ["", f"And {rest_summary(rest)}."]
    quiet = [group for group in groups if group.is_quiet]
    out += _quiet(quiet, view)
    if slowly := list(section(view)):
        inside = [line.replace("`", "'") for line in slowly]
        out += ["", "## Slow misses", "", "```text", *inside, "```"]
    if raising := raised(view, [*split_by_worth(tally, groups)[1], *quiet]):
        out += ["", "## Raised while JAX traced or compiled", ""]
        out += [f"- {escaped(one)}" for one in raising]
    if slow := dispatch.rows(view, tally):
        out += ["", "## Slow at every call", "", f"{escaped(dispatch.heading(len(slow)))}:", ""]
        out += [f"- {code(who)} ({code(at)}): {escaped(what)}" for who, at, what in slow]
    return "\n".join(out) + "\n"


def checked(view: View, tally: Tally, heads: Sequence[str]) -> str:
    """What a check found: the exceeded limits, then the misses beyond them.

    Args:
        view: the whole recording.
        tally: the misses beyond the limits.
        heads: the exceeded limits, one per line.
    """
    if not heads:
        return f"# retrace check\n\nNothing exceeds its limits in {code(origin(view))}.\n"
    _, rest = report(view, tally).split("\n", 1)
    return "\n".join(["# retrace check", "", *(f"- {escaped(head)}" for head in heads), rest])


def failed(command: str, why: str) -> str:
    """The text for a command that failed before it found anything."""
    text = "".join(f"- {escaped(line)}\n" for line in why.splitlines())
    return f"# retrace {command}\n\n{text}"


def _opening(view: View, tally: Tally) -> Iterator[str]:
    total = tally.totals
    spent = ", ".join(
        f"{stage.value} {seconds(total.seconds[stage])}" for stage in Stage if total.ran[stage]
    )
    yield (
        f"**{tally.counted}** in {code(origin(view))}, "
        f"{seconds(total.all_seconds)}{f' ({spent})' if spent else ''}; **{total.worth}**."
    )


def _row(view: View, group: Group) -> str:
    cells = (
        seconds(group.seconds),
        f"{group.count:,}",
        code(
            "eager operations"
            if group.cause is Cause.EAGER_OP
            else name(group.shown.miss.function)
        ),
        code(where(view, group)),
        group.cause.value,
        group.avoidable,
    )
    return f"| {' | '.join(cells)} |"


def _section(view: View, group: Group, keys: bool) -> Iterator[str]:
    yield f"## {_plain(heading(view, group))}"
    yield ""
    yield f"{code(where(view, group))}. {escaped(explanation(view, group.shown))}"
    yield ""
    label = ""
    for line in lines(view, group):
        label = line.label or label
        phrase = ", ".join(line.cells)
        if label == "fix":
            yield f"- **fix**: {escaped(phrase)}"
        elif label in ("because", "program", "nearest", "made of") or len(line.cells) > 1:
            yield f"- {label}: {', '.join(code(cell) for cell in line.cells)}"
        else:
            yield f"- {label}: {escaped(phrase)}"
    yield f"- more: {code(f'retrace show {group.shown.miss.id}')}"
    if keys:
        from retrace.present.key import key_lines

        yield from ("", "````text")
        yield from (text[2:] for text in key_lines(group.shown) if text)
        yield "````"


def _quiet(groups: list[Group], view: View) -> Iterator[str]:
    eager = [group for group in groups if group.cause is Cause.EAGER_OP]
    if eager:
        yield from ("", "## Eager operations, each compiled separately", "")
        yield from ("| seconds | programs | line | operations |", "|---:|---:|---|---|")
        for group in eager:
            number, at, which = eager_row(view, group)
            yield f"| {seconds(group.seconds)} | {number} | {code(at)} | {escaped(which)} |"
    first = [group for group in groups if group.cause is Cause.FIRST_TRACE]
    if first:
        yield from ("", "## First traces", "")
        yield from ("| seconds | programs | function | place |", "|---:|---:|---|---|")
        for group in first:
            miss = group.shown.miss
            cells = (
                seconds(group.seconds),
                f"{group.count:,}",
                code(name(miss.function)),
            )
            yield f"| {' | '.join(cells)} | {code(where(view, group))} |"

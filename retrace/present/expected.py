"""Whether the steps of a plan saved what they promised, as text and JSON."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from retrace.plan.amount import Amount
from retrace.plan.step import Step
from retrace.present.amounts import number, spent
from retrace.present.missing import cut_json
from retrace.present.plan_json import amount_json
from retrace.present.plan_titles import title
from retrace.present.runs_rows import Row, Section
from retrace.present.view import View
from retrace.present.words import clean, count, listed, names, place, seconds
from retrace.runs.expected import Expected

_MAX_LISTED = 6


def section(found: Expected, old: View, new: View) -> Section:
    """What was promised and what came of it, as the first section of the difference."""
    rows = [Row("", (_verdict(found),))]
    rows += [
        Row(f"step {number}", (f"{clean(title(step.proposal), 200)}{_where(step)}",))
        for number, step in zip(found.numbers, found.steps, strict=True)
    ]
    rows.append(Row("before", (_amount(found.before),)))
    text = f"{_amount(found.promised)} left"
    if found.jitted:
        text += ", and the programs of newly jitted functions"
    rows.append(Row("promised", (text,)))
    rows.append(Row("now", (_amount(found.actual),)))
    if found.still and not found.came_true and not found.varying:
        # A plan may promise a range: misses left within that range need no explanation.
        labels = [old.label(old.by_id[name].miss) for name in found.still]
        rows.append(Row("still there", (listed(labels, _MAX_LISTED),)))
    if found.new:
        labels = [f"{new.label(v.miss)} ({v.cause.value})" for v in found.new]
        rows.append(Row("new", (listed(labels, _MAX_LISTED),)))
    if found.both_cut:
        rows.append(Row("note", ("neither program ran to its end",)))
    return Section("the plan", rows)


def _where(step: Step) -> str:
    file, line = step.proposal.file, step.proposal.line
    return "" if file is None or line is None else f", at {place(PurePath(file).name, line)}"


def _verdict(found: Expected) -> str:
    first, last = found.numbers[0], found.numbers[-1]
    what = f"step {first}" if first == last else f"steps {first} to {last}"
    if found.cut:
        run, raised = found.cut[0]
        by = (
            f"the new program did not end (killed, or still running: process {run.pid})"
            if raised is None
            else f"the new program was ended by {clean(raised)}"
        )
        return f"nothing can be concluded about {what}: {by}"
    if found.came_true:
        fewer = found.actual.calls.high < found.promised.calls.low
        return f"{what} came true{', and fewer calls miss than it said' if fewer else ''}"
    if found.is_slower and not found.new:
        return (
            f"{what} removed operations that took {seconds(found.removed)}, but what is jitted "
            f"now takes {seconds(found.added)} to trace and compile: if it loops in Python, "
            "jit what one step does instead, or use `jax.lax.scan`"
        )
    if found.is_nothing and found.is_unchanged and not found.new:
        return f"{what} alone promised nothing: it saves calls together with those before it"
    if found.varying:
        family, _ = found.varying[0]
        paths = [path for part, path in found.varying if part == family]
        still = "still change" if len(paths) > 1 else "still changes"
        return (
            f"{what} did not come true: the {family.replace('_', ' ')} of {names(paths)} {still}"
        )
    if found.is_unchanged and not found.new:
        return f"{what} did not come true: every miss it is about is still there"
    if found.new and _is_kept(found):
        many = count(len(found.new), "new miss", "new misses")
        return f"{what} removed what it promised, but there {_is(len(found.new))} {many}"
    return f"{what} did not come true"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _is_kept(found: Expected) -> bool:
    return (
        found.actual.calls.low <= found.promised.calls.high
        and found.actual.eager.low <= found.promised.eager.high
    )


def _amount(amount: Amount) -> str:
    one = amount.calls.high == 1
    parts = [f"{number(amount.calls)} {'call misses' if one else 'calls miss'}"]
    if amount.eager.high:
        one = amount.eager.high == 1
        parts.append(f"{number(amount.eager)} eager operation{'' if one else 's'}")
    parts.append(spent(amount.seconds))
    return ", ".join(parts)


def to_json(found: Expected) -> dict[str, Any]:
    """The comparison as JSON."""
    return {
        "steps": list(found.numbers),
        "came_true": found.came_true,
        "slower": found.is_slower,
        "before": amount_json(found.before),
        "promised": amount_json(found.promised),
        "actual": amount_json(found.actual),
        "gone": list(found.gone),
        "still": list(found.still),
        "new": [verdict.miss.id for verdict in found.new],
        "cut_short": cut_json(found.cut),
    }

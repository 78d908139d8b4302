"""A part of the report that fits a language model: in order of what it saves, up to a size.

What does not fit is counted, not cut: each item is told whole or left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from retrace.causes import Cause
from retrace.errors import UsageError
from retrace.plan.step import Plan
from retrace.present import glossary, plan_json
from retrace.present.advice import advised
from retrace.present.detail import detail
from retrace.present.group import Group
from retrace.present.message import heading, origin, where
from retrace.present.missing import cut_json
from retrace.present.report_json import Object, encode
from retrace.present.sentences import explanation
from retrace.present.tally import Sort, Tally
from retrace.present.view import View
from retrace.present.words import clean
from retrace.runs.ended import cut_short

SCHEMA = "retrace-extract/1"
_CHARACTERS = 3
"""Of JSON to a token. The usual tokenizers take three to four of such text, so that what is
counted here is rather too many."""
_CHANGES = 6
_STEPS = 5


def extract(
    view: View,
    tally: Tally,
    plan: Plan | None,
    tokens: int,
    top: int | None = None,
    sort: Sort = "saving",
) -> Object:
    """What to change, then the causes, as many as fit.

    Args:
        view: the whole recording.
        tally: the misses to tell of.
        plan: what to change first; None where it is not told.
        tokens: how long it may be, as `counted` counts.
        top: so many causes at most.
        sort: in which order the causes come.

    Raises:
        UsageError: not even the totals fit.
    """
    groups = tally.groups(sort)
    steps = () if plan is None else plan.steps
    told: Object = {
        "schema": SCHEMA,
        "program": origin(view),
        "misses": tally.totals.misses,
        "seconds": round(tally.totals.all_seconds, 3),
        "clearly_avoidable": {
            "misses": tally.totals.avoidable,
            "seconds": round(tally.totals.avoidable_seconds, 3),
        },
        # Who reads this alone must know it: what was lost may be what matters.
        "losses": dict(view.losses()),
        "plan": [],
        "causes": [],
        "left_out": {"steps": len(steps), "causes": len(groups)},
        "tokens": {"most": tokens, "counted": 0, "rule": f"{_CHARACTERS} characters are one"},
        "more": "`retrace show ID` tells one miss in full, `retrace plan` every step",
    }
    if cut := cut_short(view.recording):
        told["cut_short"] = cut_json(cut[:_STEPS])
    told["tokens"]["counted"] = tokens  # as long as it will be
    needed = counted(told)
    if needed > tokens:
        raise UsageError(f"--tokens {tokens:,} is too few: the totals alone take {needed:,}")
    # Steps first, but never so many that no room is left for what explains them.
    half = needed + (tokens - needed) // 2
    steps_told: list[Object] = [] if plan is None else plan_json.told(plan)["steps"][:_STEPS]
    told["plan"], spent = _fitting(map(_step, steps_told), needed, half)
    told["causes"], _ = _fitting((_cause(view, one) for one in groups[:top]), spent, tokens)
    told["left_out"] = {
        "steps": len(steps) - len(told["plan"]),
        "causes": len(groups) - len(told["causes"]),
    }
    told["tokens"]["counted"] = counted(told)
    return told


def counted(fields: Object) -> int:
    """The tokens of an object, rather too many than too few."""
    return -(-len(encode(fields)) // _CHARACTERS)


def _fitting(items: Iterable[Object], spent: int, most: int) -> tuple[list[Object], int]:
    """The first items up to the one that does not fit, and what is spent with them."""
    found: list[Object] = []
    for item in items:
        # With the comma and the blank before it.
        more = -(-(len(json.dumps(item)) + 2) // _CHARACTERS)
        if spent + more > most:
            break
        found.append(item)
        spent += more
    return found, spent


def _step(step: dict[str, Any]) -> Object:
    fix = step["fix"]
    return {
        "do": fix["text"],
        "at": None if fix["file"] is None else f"{fix['file']}:{fix['line']}",
        "gone": step["gone"],
        "left": step["left"],
        "sure": step["sure"],
        "worth": step["worth"],
        "misses": step["misses"][:3],
    }


def _cause(view: View, group: Group) -> Object:
    verdict = group.shown
    fields: Object = {
        "miss": verdict.miss.id,
        "cause": group.cause.value,
        "meaning": glossary.CAUSES[group.cause],
        "what": heading(view, group),
        "at": where(view, group),
        "called_at": view.called_from(verdict.miss),
        "times": group.count,
        "seconds": round(group.seconds, 3),
        "avoidable": group.avoidable,
    }
    if group.cause is not Cause.FIRST_TRACE:
        fields["why"] = explanation(view, verdict)
        fields["changes"] = list(_changes(verdict.changes))
    if verdict.fix is not None:
        fields["fix"] = advised(verdict.fix)
    return fields


def _changes(changes: Any) -> Iterator[str]:
    for change in changes[:_CHANGES]:
        said = (change.component.value, change.path, detail(change))
        yield clean(" ".join(one for one in said if one), 160)
    if len(changes) > _CHANGES:
        yield f"and {len(changes) - _CHANGES:,} more"

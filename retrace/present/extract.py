"""A part of the report that fits a language model: sorted by saving, up to a size.

What does not fit is counted, not cut: each item is included whole or left out.
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
_CHARACTERS_PER_TOKEN = 3
"""Characters of JSON per token. Common tokenizers have three to four for such text, so this
overestimates slightly."""
_MAX_CHANGES = 6
_MAX_STEPS = 5


def extract(
    view: View,
    tally: Tally,
    plan: Plan | None,
    tokens: int,
    top: int | None = None,
    sort: Sort = "saving",
) -> Object:
    """What to change, then as many causes as fit.

    Args:
        view: the whole recording.
        tally: the misses to include.
        plan: what to change first, if it should be included.
        tokens: the maximum size, as measured by `counted`.
        top: the maximum number of causes.
        sort: the order of the causes.

    Raises:
        UsageError: not even the totals fit.
    """
    groups = tally.groups(sort)
    steps = () if plan is None else plan.steps
    content: Object = {
        "schema": SCHEMA,
        "program": origin(view),
        "misses": tally.totals.misses,
        "seconds": round(tally.totals.all_seconds, 3),
        "clearly_avoidable": {
            "misses": tally.totals.avoidable,
            "seconds": round(tally.totals.avoidable_seconds, 3),
        },
        # A reader who only sees this must know what was lost: it may be what matters.
        "losses": dict(view.losses()),
        "plan": [],
        "causes": [],
        "left_out": {"steps": len(steps), "causes": len(groups)},
        "tokens": {
            "most": tokens,
            "counted": 0,
            "rule": f"{_CHARACTERS_PER_TOKEN} characters are one",
        },
        "more": "`retrace show ID` tells one miss in full, `retrace plan` every step",
    }
    if cut := cut_short(view.recording):
        content["cut_short"] = cut_json(cut[:_MAX_STEPS])
    content["tokens"]["counted"] = tokens  # a placeholder of about the final length
    needed = counted(content)
    if needed > tokens:
        raise UsageError(f"--tokens {tokens:,} is too few: the totals alone take {needed:,}")
    # Steps come first, but leave room for what explains them.
    half = needed + (tokens - needed) // 2
    steps_json: list[Object] = (
        [] if plan is None else plan_json.to_json(plan)["steps"][:_MAX_STEPS]
    )
    content["plan"], spent = _fitting(map(_step, steps_json), needed, half)
    content["causes"], _ = _fitting((_cause(view, one) for one in groups[:top]), spent, tokens)
    content["left_out"] = {
        "steps": len(steps) - len(content["plan"]),
        "causes": len(groups) - len(content["causes"]),
    }
    content["tokens"]["counted"] = counted(content)
    return content


def counted(fields: Object) -> int:
    """The number of tokens in an object, rather too high than too low."""
    return -(-len(encode(fields)) // _CHARACTERS_PER_TOKEN)


def _fitting(items: Iterable[Object], spent: int, limit: int) -> tuple[list[Object], int]:
    """The leading items that fit, and the tokens used including them."""
    found: list[Object] = []
    for item in items:
        # Including the comma and the space before it.
        more = -(-(len(json.dumps(item)) + 2) // _CHARACTERS_PER_TOKEN)
        if spent + more > limit:
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
    for change in changes[:_MAX_CHANGES]:
        sides = (change.component.value, change.path, detail(change))
        yield clean(" ".join(one for one in sides if one), 160)
    if len(changes) > _MAX_CHANGES:
        yield f"and {len(changes) - _MAX_CHANGES:,} more"

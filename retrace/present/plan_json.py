"""The plan as JSON: one object, `retrace-plan/1`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retrace.model import Run
from retrace.plan.amount import Amount, Span
from retrace.plan.corners import Corners
from retrace.plan.sizes import Choice
from retrace.plan.step import Pairs, Plan, Proposal, Sizes, Step
from retrace.plan.warm import Warmth
from retrace.present.missing import cut_json
from retrace.present.plan_titles import titles
from retrace.present.plan_words import sentence

SCHEMA = "retrace-plan/1"
"""The number grows when a field changes its meaning; new fields do not change it."""


def to_json(
    plan: Plan,
    warmth: Warmth | None = None,
    top: int | None = None,
    cut: Iterable[tuple[Run, str | None]] = (),
) -> dict[str, Any]:
    """The plan, and which processes were cut short.

    With `top`, only its first steps, and how many were left out.
    """
    steps = plan.steps if top is None else plan.steps[:top]
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "processes": {"missed": plan.processes, "each": plan.each},
        "now": amount_json(plan.now),
        "cut_short": cut_json(cut),
        "steps": [
            _step(step, named) for step, named in zip(plan.steps, titles(plan.steps), strict=True)
        ][: len(steps)],
        "floor": amount_json(plan.floor),
    }
    if len(steps) < len(plan.steps):
        fields["left_off"] = len(plan.steps) - len(steps)
    if warmth is not None:
        fields["warm"] = {
            "calls": [
                {
                    "function": call.function,
                    "file": call.file,
                    "line": call.line,
                    "arguments": call.arguments,
                    "misses": list(call.misses),
                }
                for call in warmth.calls
            ],
            "escaped": [
                {
                    "miss": one.miss,
                    "function": one.function,
                    "shapes": one.shapes,
                    "nearest": one.nearest,
                }
                for one in warmth.escaped
            ],
        }
    return fields


def _step(step: Step, named: str) -> dict[str, Any]:
    return {
        "misses": list(step.misses),
        "functions": list(step.functions),
        "causes": [cause.value for cause in step.causes],
        "fix": _fix(step.proposal, named),
        "gone": amount_json(step.gone),
        "alone": amount_json(step.alone),
        "left": amount_json(step.left),
        "sure": step.sure,
        "worth": step.worth,
    }


def _fix(proposal: Proposal, named: str) -> dict[str, Any]:
    sizes = proposal.sizes
    fields: dict[str, Any] = {
        "code": proposal.code,
        "title": named,
        "text": sentence(proposal),
        "file": proposal.file,
        "line": proposal.line,
        "k": None if sizes is None else len(sizes.chosen.sizes),
        "sizes": None if sizes is None else list(sizes.chosen.sizes),
    }
    if sizes is not None:
        fields["choices"] = _choices(sizes)
    if (pairs := proposal.pairs) is not None:
        fields |= {
            "k": len(pairs.chosen.sizes),
            "sizes": [list(size) for size in pairs.chosen.sizes],
            "choices": _pairs(pairs),
        }
    return fields


def _pairs(pairs: Pairs) -> dict[str, Any]:
    return {
        "axes": list(pairs.axes),
        "names": list(pairs.names),
        "seen": [list(size) for size in pairs.seen],
        "weighted_by": pairs.data,
        "beyond": pairs.beyond,
        "counted": pairs.counted,
        "curve": [_corners(pairs, choice) for choice in pairs.curve],
        "powers_of_two": _corners(pairs, pairs.powers),
    }


def _corners(pairs: Pairs, choice: Corners) -> dict[str, Any]:
    return {
        "k": len(choice.sizes),
        "sizes": [list(size) for size in choice.sizes],
        "padding": round(choice.padding, 6),
        "flops": None if choice.flops is None else round(choice.flops, 6),
        "seconds": pairs.program * len(choice.sizes),
    }


def _choices(sizes: Sizes) -> dict[str, Any]:
    return {
        "axes": list(sizes.names),
        "follows": list(sizes.follows),
        "seen": list(sizes.seen),
        "weighted_by": sizes.data,
        "beyond": sizes.beyond,
        "counted": sizes.counted,
        "curve": [_choice(sizes, choice) for choice in sizes.curve],
        "powers_of_two": _choice(sizes, sizes.powers),
    }


def _choice(sizes: Sizes, choice: Choice) -> dict[str, Any]:
    return {
        "k": len(choice.sizes),
        "sizes": list(choice.sizes),
        "padding": round(choice.padding, 6),
        "flops": None if choice.flops is None else round(choice.flops, 6),
        "seconds": sizes.program * len(choice.sizes),
    }


def amount_json(amount: Amount) -> dict[str, Any]:
    """Calls, eager operations and seconds."""
    return {
        "calls": _number(amount.calls, whole=True),
        "eager": _number(amount.eager, whole=True),
        "seconds": _number(amount.seconds, whole=False),
    }


def _number(span: Span, *, whole: bool) -> Any:
    low, high = (int(n) if whole else round(n, 6) for n in span)
    return low if low == high else [low, high]

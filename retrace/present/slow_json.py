"""Where one miss spent its seconds and bytes, as JSON: `retrace-slow/1`."""

from __future__ import annotations

from typing import Any

from retrace.costs.account import Account
from retrace.costs.copies import Copies
from retrace.costs.folding import FOLDING
from retrace.costs.growth import Growth
from retrace.costs.tracing import TraceSummary
from retrace.model import Frame, Stage
from retrace.model.slow import Anew, Halved
from retrace.present import slow_copies
from retrace.present.slow import accounts
from retrace.present.slow_advice import advised
from retrace.present.view import View

SCHEMA = "retrace-slow/1"


def data(view: View, one: Account, again: Anew | None = None) -> dict[str, Any]:
    """Everything about one miss; each list is sorted, most expensive first.

    Args:
        view: the view of the recording.
        one: where the miss spent its seconds and bytes.
        again: what compiling it again showed, if requested.
    """
    compiling, memory = one.compiling, one.memory
    return {
        "schema": SCHEMA,
        "miss": one.miss.id,
        "label": view.label(one.miss),
        "stages": {stage.value: one.miss.stages.get(stage) for stage in Stage},
        "observed": one.was_observed,
        "trace": [] if one.trace is None else _trace(one.trace),
        "sampled": None if one.trace is None else _sampled(one.trace),
        "compile": {
            "passes": [
                {
                    "name": step.name,
                    "seconds": step.seconds,
                    "times": step.times,
                    "kind": step.kind,
                    # The line whose constants it computed on, if there is a single one.
                    **_place(_folded(one) if step.name == FOLDING else None),
                }
                for step in (() if compiling is None else compiling.passes)
            ],
            "lines": [
                {
                    "file": kernel.file,
                    "line": kernel.line,
                    "function": kernel.function or None,
                    # Of the compiler's threads; null if kernels have no timing of their own.
                    "seconds": kernel.seconds or None,
                    "kernels": kernel.kernels,
                    "instructions": kernel.instructions,
                    "operations": [
                        {"name": name, "count": number} for name, number in kernel.operations
                    ],
                }
                for kernel in one.lines
            ],
            "kernels": None if compiling is None else compiling.named,
            "unprofiled": None if compiling is None else compiling.unprofiled,
            "beside": compiling is not None and compiling.beside,
        },
        "constants": [
            {
                **_place(constant.frame),
                "bytes": constant.bytes,
                "type": constant.type,
                "on_device": constant.on_device,
            }
            for constant in one.constants
        ],
        "unrolled": [
            {
                **_place(block.place),
                "times": block.times,
                "equations": block.times * block.equations,
            }
            for block in one.unrolled
        ],
        "repeated": [
            {
                **_place(calls.frame),
                "function": calls.frame.function,
                "times": calls.times,
                "equations": calls.times * calls.equations,
            }
            for calls in one.repeated
        ],
        "nested": None
        if one.nest is None
        else {
            **_place(one.nest.frame),
            "primitive": one.nest.primitive,
            "depth": one.nest.depth,
            "equations": one.nest.equations,
        },
        "heavy": [
            {
                **_place(row.frame),
                "primitive": row.primitive,
                "times": row.number,
                "arrays": row.arrays,
                "largest": row.largest or None,
                "bytes": row.bytes,
            }
            for row in one.heavy
        ],
        "memory": None if memory is None else memory._asdict(),
        "donated": None
        if one.donated is None
        else {
            "bytes": one.donated.bytes,
            "reused": one.donated.reused,
            "refused": [leaf.path for leaf in one.donated.refused],
        },
        "copies": None if one.copies is None else _copies(one.copies),
        "growth": [_growth(found) for found in one.growth],
        "advice": [
            {
                "code": advice.code,
                "text": advised(view, advice),
                **_place(advice.frame),
                "seconds": advice.seconds or None,
                "before": advice.before or None,
                "after": advice.after or None,
            }
            for advice in one.advice
        ],
        "tried": [each._asdict() for each in (() if again is None else again.tried)],
        "again": None
        if again is None or again.profiled is None
        else {"seconds": again.profiled.seconds},
        "part": None if again is None or again.halved is None else _part(again.halved),
        "reproducer": None
        if again is None or again.reproducer is None
        else {"file": again.reproducer, "stand_ins": again.written_stand_ins},
    }


def slowest(view: View) -> list[dict[str, Any]]:
    """The slowest misses of a recording made with `--slow`; otherwise none."""
    return [data(view, one) for one in accounts(view)]


def duplicates(view: View) -> list[dict[str, Any]]:
    """The programs compiled three times or more, in a recording made with `--slow`."""
    return [{"label": view.label(miss), **_copies(one)} for miss, one in slow_copies.found(view)]


def _copies(one: Copies) -> dict[str, Any]:
    return {
        "misses": list(one.misses),
        # Code bytes; 0 if XLA does not tell, as on CPUs.
        "bytes": one.bytes,
        "constants": one.constants,
        "equations": one.equations,
        "text": one.text or None,
        "seconds": one.seconds,
        "differ": one.differ,
    }


def _part(halved: Halved) -> dict[str, Any]:
    return {
        **halved.part._asdict(),
        "whole": halved.whole._asdict(),
        "steps": [step._asdict() for step in halved.steps],
        "lines": [
            {"file": file, "line": line, "operations": number}
            for file, line, number in halved.lines
        ],
        "kinds": [{"name": name, "count": number} for name, number in halved.kinds],
    }


def _folded(one: Account) -> Frame | None:
    return None if one.folded is None else one.folded.frame


def _place(frame: Frame | None) -> dict[str, Any]:
    return {
        "file": None if frame is None else frame.file,
        "line": None if frame is None else frame.line,
    }


def _trace(trace: TraceSummary) -> list[dict[str, Any]]:
    return [
        {
            **_place(row.frame),
            "function": None if row.frame is None else row.frame.function,
            "seconds": row.seconds,
            "parts": {part.value: spent for part, spent in row.parts},
            "under": row.under and _place(row.under),
            "inside": row.inside and _place(row.inside),
        }
        for row in trace.lines
    ]


def _sampled(trace: TraceSummary) -> dict[str, Any]:
    return {
        "seconds": trace.seconds,
        "waited": trace.waited,
        "samples": trace.samples,
        "parts": {part.value: spent for part, spent in trace.parts},
        "outermost": [
            {**_place(frame), "function": frame.function, "seconds": spent}
            for frame, spent in trace.outermost
        ],
        "functions": [
            {**_place(frame), "function": frame.function, "seconds": spent}
            for frame, spent in trace.functions
        ],
        "collections": trace.collections,
        "ended": trace.ended,
    }


def _growth(found: Growth) -> dict[str, Any]:
    return {
        "stage": found.stage.value,
        "power": found.power,
        "by": found.by,
        "by_power": found.by_power,
        "values": list(found.values),
        "points": [
            {"miss": point.miss, "equations": point.equations, "seconds": point.seconds}
            for point in found.points
        ],
    }

"""The comparison of two recordings as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from retrace.model import Frame
from retrace.present import stored
from retrace.present.changes import change_fields
from retrace.present.runs import evidence
from retrace.present.view import View
from retrace.runs.difference import Difference
from retrace.runs.functions import Same
from retrace.runs.programs import Changed

SCHEMA = "retrace-diff/1"
"""The number grows when a field changes its meaning; new fields do not change it."""


def to_json(found: Difference, new: View) -> dict[str, Any]:
    """Everything that differs between two recordings; `new` knows the second one's places."""
    spent = found.seconds
    return {
        "schema": SCHEMA,
        "equal": found.is_equal,
        "environment": [fact._asdict() for fact in found.environment.facts],
        "misses": {
            "new": [verdict.miss.id for verdict in found.added],
            "gone": [verdict.miss.id for verdict in found.gone],
            "changed": [
                {
                    "old": pair.old.miss.id,
                    "new": pair.new.miss.id,
                    "changes": list(map(change_fields, pair.changes)),
                    "causes": [pair.old.cause.value, pair.new.cause.value],
                }
                for pair in found.changed
            ],
        },
        "programs": [_program(one, new) for one in found.programs],
        "functions": [_function(one) for one in found.functions.both if one.changed],
        "disk_cache": {
            "old": stored.to_json(found.disk.old),
            "new": stored.to_json(found.disk.new),
            "in_vain": [
                {
                    "function": vain.name,
                    "why": vain.why,
                    "ingredients": list(vain.ingredients),
                    "only_first": vain.only_first,
                    "compile_options": [field._asdict() for field in vain.options],
                    "reason": vain.reason,
                    "times": number,
                }
                for vain, number in found.disk.failed
            ],
        },
        "seconds": {
            "old": spent.old,
            "new": spent.new,
            "on_new": spent.added,
            "on_gone": spent.gone,
            "on_changed": list(spent.changed),
            "on_stored": list(spent.stored),
            "on_same": list(spent.same),
            "slower": spent.slower,
        },
        "unknown": {
            "environment": list(found.environment.unknown),
            "programs": [[pair.old.miss.id, pair.new.miss.id] for pair in found.unknown_programs],
            "losses": found.losses,
            "unfinished": [run.id for _, run in found.cut],
        },
    }


def _program(one: Changed, view: View) -> dict[str, Any]:
    pair = one.pairs[0]
    a, b = pair.old.miss.program, pair.new.miss.program
    texts = list(evidence(one, view))
    return {
        "function": pair.new.miss.function.name,
        "old": a and a.hash,
        "new": b and b.hash,
        "change": one.kind,
        "evidence": [
            {"file": frame and frame.file, "line": frame and frame.line, "text": text}
            for frame, text in zip(_places(one, len(texts)), texts, strict=True)
        ],
        "constants": [
            {"old": constant.old, "new": constant.new, "names": list(names)}
            for constant, names in one.names
        ],
        "shareable": one.is_shareable,
        "misses": [{"old": pair.old.miss.id, "new": pair.new.miss.id} for pair in one.pairs],
        "seconds": list(one.seconds),
    }


def _places(one: Changed, number: int) -> Iterator[Frame | None]:
    found = one.difference
    places: list[Frame | None] = []
    if found is not None:
        match found.kind:
            case "constants-only":
                places = [constant.place for constant in found.constants]
            case "repeated":
                places = [block.place for block in found.repeats]
            case "different":
                places = [line.place for line in found.lines]
            case _:
                pass
    for at in range(number):
        yield places[at] if at < len(places) else None


def _function(one: Same) -> dict[str, Any]:
    return {
        "old": _whose(one, 0),
        "new": _whose(one, 1),
        "changed": list(one.changed),
    }


def _whose(one: Same, side: int) -> dict[str, Any]:
    function = (one.old, one.new)[side].function
    return {"name": function.name, "file": function.file, "line": function.line}

"""Processes that find nothing in the on-disk cache that process 0 fills."""

from __future__ import annotations

from typing import Any

from retrace.hosts.stored import Unserved, Why
from retrace.present.words import clean, count, listed, seconds

_MAX_LISTED = 4
_WHY: dict[Why, str] = {
    "stored-now": "process 0 stored {them} during this start: the next start finds {them}",
    "elsewhere": "process 0 found {them} under the same key, so they read different folders",
    "not-stored": "process 0 did not store {them} either",
    "alone": "process 0 did not compile {them}",
    "unknown": "the keys were not recorded, so the reason is unknown",
}


def sentence(found: Unserved) -> str:
    """What some processes looked up in vain, and why."""
    many = len(found.processes) > 1
    numbers = listed(list(map(str, found.processes)), _MAX_LISTED)
    who = f"{'processes' if many else 'process'} {numbers}"
    programs = count(found.look_ups, "program")
    each = " each" if many else ""
    texts = [_because(why, number, found) for why, number in found.why]
    return (
        f"on-disk cache: {who} found nothing there, looked up {programs}{each} and compiled for "
        f"{seconds(found.seconds)}. JAX only lets process 0 write to it; "
        f"{'; '.join(texts)}."
    )


def _because(why: Why, number: int, found: Unserved) -> str:
    of = "" if len(found.why) == 1 else f"{number:,} of them: "
    them = "it" if number == 1 else "them"
    if why != "another-key":
        return of + _WHY[why].format(them=them)
    keys = "its keys" if len(found.processes) == 1 else "their keys"
    if not found.ingredients:
        return f"{of}{keys} differ from those of process 0, in an unknown way"
    names = listed([clean(name) for name in found.ingredients], 8)
    fields = dict.fromkeys(clean(field.name.rpartition(".")[2]) for field in found.options)
    of_options = f" (of the compile options: {listed(list(fields), 4)})" if fields else ""
    return (
        f"{of}{keys} differ from those of process 0 in {names}{of_options}, so nothing is ever "
        f"stored under them, and each start compiles {them} again"
    )


def to_json(found: Unserved) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "processes": list(found.processes),
        "look_ups": found.look_ups,
        "seconds": found.seconds,
        "why": dict(found.why),
        "ingredients": list(found.ingredients),
        "compile_options": [field._asdict() for field in found.options],
    }

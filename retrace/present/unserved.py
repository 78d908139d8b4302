"""Processes that find nothing in the disk cache that process 0 fills, in words."""

from __future__ import annotations

from typing import Any

from retrace.hosts.stored import Unserved, Why
from retrace.present.words import clean, count, listed, seconds

_MOST = 4
_WHY: dict[Why, str] = {
    "stored-now": "process 0 stored {them} only in this start: the next one finds {them}",
    "elsewhere": "process 0 found {them} under the same key, so they do not read the same folder",
    "not-stored": "process 0 did not store {them} either",
    "alone": "process 0 did not compile {them}",
    "unknown": "the keys were not recorded, so why is not known",
}


def sentence(found: Unserved) -> str:
    """What is told of some processes: what they looked up in vain, and why."""
    many = len(found.processes) > 1
    who = f"{'processes' if many else 'process'} {listed(list(map(str, found.processes)), _MOST)}"
    programs = count(found.look_ups, "program")
    each = " each" if many else ""
    told = [_because(why, number, found) for why, number in found.why]
    return (
        f"on-disk cache: {who} found nothing there, looked up {programs}{each} and compiled for "
        f"{seconds(found.seconds)}. JAX lets process 0 alone write to it; "
        f"{'; '.join(told)}."
    )


def _because(why: Why, number: int, found: Unserved) -> str:
    of = "" if len(found.why) == 1 else f"{number:,} of them: "
    them = "it" if number == 1 else "them"
    if why != "another-key":
        return of + _WHY[why].format(them=them)
    keys = "its keys" if len(found.processes) == 1 else "their keys"
    if not found.ingredients:
        return f"{of}{keys} are not those of process 0, and by what is not known"
    names = listed([clean(name) for name in found.ingredients], 8)
    fields = dict.fromkeys(clean(field.name.rpartition(".")[2]) for field in found.options)
    of_options = f" (of the compile options: {listed(list(fields), 4)})" if fields else ""
    return (
        f"{of}{keys} differ from those of process 0 by {names}{of_options}, so nothing is ever "
        f"stored under them, and each start compiles {them} again"
    )


def told(found: Unserved) -> dict[str, Any]:
    """For programs."""
    return {
        "processes": list(found.processes),
        "look_ups": found.look_ups,
        "seconds": found.seconds,
        "why": dict(found.why),
        "ingredients": list(found.ingredients),
        "compile_options": [field._asdict() for field in found.options],
    }

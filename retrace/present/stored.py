"""What JAX's on-disk cache did, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrace.compare.stored import OptionField
from retrace.present.words import clean, count, listed, seconds
from retrace.runs.outcomes import Outcomes

_WHY = {
    "min-compile-time": "compiled too quickly",
    "min-entry-size": "too small",
    "host-callback": "calls back into Python",
    "write-failed": "could not be written",
    "corrupt-entry": "a corrupt entry is in its place, which JAX never overwrites: remove it",
    "another-process": "only process 0 writes",
    "other": "for another reason",
}


def said(disk: Outcomes) -> str:
    """`3 hits (2.10 s saved), 1 miss (stored now) and 4 not stored (compiled too quickly)`."""
    if not disk.was_used:
        return "not in use"
    parts: list[str] = []
    if disk.hits:
        saved = "" if disk.saved is None else f" ({_saved(disk.saved)})"
        parts.append(f"{count(disk.hits, 'hit')}{saved}")
    if disk.misses:
        parts.append(f"{count(disk.misses, 'miss', 'misses')} (stored now)")
    for reason, number in disk.not_stored.items():
        parts.append(f"{number:,} not stored ({_WHY.get(reason, clean(reason))})")
    return listed(parts, 6)


def _saved(saved: float) -> str:
    # Reading a small program takes longer than compiling it.
    return f"{seconds(saved)} saved" if saved >= 0 else f"{seconds(-saved)} lost"


def fields(options: Sequence[OptionField]) -> str:
    """`: xla_cpu_enable_fast_math false -> true`, for compile options that differ."""
    if not options:
        return ""
    # XLA receives some options twice, once in a nested message.
    changes = {(name.rpartition(".")[2], old, new): None for name, old, new in options}
    each = [f"{clean(name)} {_value(old)} -> {_value(new)}" for name, old, new in changes]
    return f" (of the compile options: {listed(each, 4)})"


def _value(text: str | None) -> str:
    return "not set" if text is None else clean(text, 80) or '""'


def to_json(disk: Outcomes) -> dict[str, Any]:
    """The outcomes as JSON."""
    return {
        "hits": disk.hits,
        "misses": disk.misses,
        "off": disk.off,
        "not_stored": dict(disk.not_stored),
        "seconds_saved": disk.saved,
    }

"""The line of an audit.

{"audit": 2, "at": ..., "misses": 14, "programs": 5, "seconds": 0.1, "same": [0, 3],
 "gone": 1,
 "checked": [{"miss": 7, "outcome": "other", "reads": [[NAME, OLD, NEW, FILE, LINE,
 WRITTEN]], "uses": [[PATH, AS_IT_IS]], "old": LISTING, "new": LISTING, ...}]}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from retrace.model import (
    JSON,
    Audit,
    Checked,
    Function,
    Outcome,
    Reading,
    Reason,
    Source,
    Use,
    Value,
)
from retrace.store.decoded import number, number_or_none, seconds, text, text_or_none, value

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction


_FIELDS = (
    *("reads", "reason", "detail", "old", "new", "again", "sources", "returned", "disturbed"),
    "uses",
)


def encode_audit(
    audit: Audit, functions: Mapping[int, Function], hide: Redaction | None
) -> dict[str, JSON]:
    """Encode an audit as a line.

    Args:
        audit: the findings.
        functions: the functions of its misses, as recorded.
        hide: the redaction of the recording, if any.
    """
    checked = audit.checked
    if hide is not None:
        checked = hide.audit(audit, functions).checked
    return {
        "audit": audit.number,
        "at": audit.time,
        "misses": audit.misses,
        "programs": audit.programs,
        "seconds": audit.seconds,
        "same": audit.same,
        "gone": audit.gone,
        "checked": [_encode(one) for one in checked],
    }


def _encode(one: Checked) -> dict[str, JSON]:
    fields: dict[str, JSON] = {"miss": one.miss, "outcome": one.outcome}
    for name in _FIELDS:
        if held := getattr(one, name):
            fields[name] = held
    if one.seconds:
        fields["seconds"] = round(one.seconds, 6)
    return fields


def decode_audit(line: Mapping[str, Any], run: str) -> Audit:
    """Decode the audit of a line; raises TypeError, ValueError or LookupError on invalid data."""
    return Audit(
        run=run,
        number=number(line["audit"]),
        time=seconds(line["at"]),
        misses=number(line["misses"]),
        programs=number(line["programs"]),
        seconds=seconds(line["seconds"]),
        checked=tuple(map(_checked, line["checked"])),
        same=tuple(map(number, line.get("same", ()))),
        gone=number(line.get("gone", 0)),
    )


def _checked(row: Mapping[str, Any]) -> Checked:
    reason = row.get("reason")
    return Checked(
        miss=number(row["miss"]),
        outcome=Outcome(row["outcome"]),
        reads=tuple(map(_reading, row.get("reads", ()))),
        reason=None if reason is None else Reason(reason),
        detail=text(row.get("detail", "")),
        old=text_or_none(row.get("old")),
        new=text_or_none(row.get("new")),
        again=text_or_none(row.get("again")),
        sources=tuple(map(_source, row.get("sources", ()))),
        returned=None if (both := row.get("returned")) is None else _pair(both),
        seconds=seconds(row.get("seconds", 0.0)),
        disturbed=tuple(map(text, row.get("disturbed", ()))),
        uses=tuple(map(_use, row.get("uses", ()))),
    )


def _reading(row: Any) -> Reading:
    name, old, new, file, line, written = row
    return Reading(
        text(name),
        value(old),
        None if new is None else value(new),
        text_or_none(file),
        number_or_none(line),
        bool(written),
    )


def _use(row: Any) -> Use:
    path, as_it_is = row
    return Use(tuple(map(text, path)), bool(as_it_is))


def _pair(row: Any) -> tuple[Value, Value]:
    old, new = row
    return value(old), value(new)


def _source(row: Any) -> Source:
    name, file, line = row
    return Source(text(name), text(file), number(line))

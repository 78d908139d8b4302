"""Arguments that some calls leave out, for the table of a function's misses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from retrace.compare.equality import identity
from retrace.model import Value, Verdict
from retrace.model.parts import passed

ABSENT = "absent"
"""What a row has in the column of something that it lacks."""


def with_defaults(rows: Sequence[Verdict], path: str) -> list[Hashable] | None:
    """What each call passed for an argument, or the default; None if no call left it out.

    A default is compared by its text. Objects that calls passed may have equal texts without
    being one, as functions that a loop creates have.
    """
    values = [dict(passed(row.miss.key)).get(path) for row in rows]
    if None not in values:
        return None
    objects = {(_content(one), one.token) for one in values if one and not one.exact}
    several = Counter(content for content, _ in objects)
    return [
        identity(value)
        if value and several[_content(value)] > 1
        else _content(value or dict(row.miss.function.defaults).get(path))
        for value, row in zip(values, rows, strict=True)
    ]


def _content(value: Value | None) -> Hashable:
    return ABSENT if value is None else (value.type, value.text)

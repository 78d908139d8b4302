"""Every field of a miss, a function and a process has a row that reads and writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from retrace.model import Function, Miss, Run
from retrace.model.miss_fields import MissFields
from retrace.store.fields import Field
from retrace.store.header import RUN
from retrace.store.parts import FUNCTION
from retrace.store.schema import MISS, MISS_LINE

WITHOUT_ROWS = {
    "id",
    "run",
    "number",
    "parent",
    "function",
    "key",
    "call_site",
    "callers",
    "bodies",
}
"""Fields of a miss that its line gives as numbers, some referring to other lines."""
FROM_OTHER_LINES = {"complete", "losses"}
"""Fields of a run that come from the end line and from losses."""


def attributes(rows: Mapping[str, Field[Any]]) -> set[str]:
    return {row.attribute for row in rows.values() if row.attribute}


def test_every_field_has_a_row() -> None:
    assert {field.name for field in fields(Miss)} == attributes(MISS) | WITHOUT_ROWS | {"program"}
    assert {field.name for field in fields(Run)} == attributes(RUN) | FROM_OTHER_LINES
    assert {*Function._fields} == attributes(FUNCTION)


def test_the_recorder_gives_only_fields_that_a_line_has() -> None:
    # What several misses share becomes a line of its own.
    assert {*MissFields.__annotations__} == {*MISS_LINE, "leaves", "callers"}

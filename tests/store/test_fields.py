"""Every field of a miss, a function and a process has a row by which it is read and written."""

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

APART = {"id", "run", "number", "parent", "function", "key", "call_site", "callers", "bodies"}
"""Of a miss: what its line tells by numbers, of other lines among them."""
BY_OTHER_LINES = {"complete", "losses"}
"""Of a run: whether its file has an end, and the losses beside it."""


def attributes(rows: Mapping[str, Field[Any]]) -> set[str]:
    return {row.attribute for row in rows.values() if row.attribute}


def test_no_field_is_left_out_of_the_rows() -> None:
    assert {field.name for field in fields(Miss)} == attributes(MISS) | APART | {"program"}
    assert {field.name for field in fields(Run)} == attributes(RUN) | BY_OTHER_LINES
    assert {*Function._fields} == attributes(FUNCTION)


def test_the_recorder_gives_only_fields_that_a_line_has() -> None:
    # What several misses share becomes a line of its own.
    assert {*MissFields.__annotations__} == {*MISS_LINE, "leaves", "callers"}

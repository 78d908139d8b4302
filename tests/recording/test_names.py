"""Everything private to JAX stands in one table, and a JAX that lacks a row of it is told."""

from __future__ import annotations

from retrace.jax_internals import names


def test_this_jax_has_every_name_of_the_table() -> None:
    assert [f"{row.where} {row.name}" for row in names.absent()] == []


def test_no_name_stands_in_the_table_twice() -> None:
    rows = [(row.where, row.name, row.since) for row in names.TABLE]
    assert len(rows) > 130
    assert sorted(rows) == sorted(set(rows))


def test_what_is_lost_without_a_name_is_said_in_a_sentence() -> None:
    for row in names.TABLE:
        assert row.without.endswith("."), row
        assert row.lost is None or row.lost.startswith("this JAX does not ")

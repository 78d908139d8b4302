"""Rows are named tuples that are quick to define."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from retrace.model.row import Row


class Pair(Row):
    first: int
    second: str = "none"


def test_it_is_a_named_tuple() -> None:
    pair = Pair(1)
    assert pair == (1, "none") == Pair(first=1) == Pair(1, second="none")
    assert (pair.first, pair.second) == (1, "none")
    assert repr(pair) == "Pair(first=1, second='none')"
    assert pair._replace(second="b") == Pair(1, "b")
    assert pair._asdict() == {"first": 1, "second": "none"}


def test_it_can_be_copied_and_sent_to_another_process() -> None:
    pair = Pair(1, "b")
    assert copy.copy(pair) == copy.deepcopy(pair) == pickle.loads(pickle.dumps(pair)) == pair


def test_wrong_values_are_refused() -> None:
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((1, "a", 2), {}),
        ((1,), {"third": 1}),
    ]
    for values, named in wrong:
        with pytest.raises(TypeError, match="Pair: missing or unknown"):
            Pair(*values, **named)

"""Arrays that change together share the cells of a plan's table."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from retrace.model import Leaf
from retrace.plan.sizes import Choice, Curve, curve
from retrace.plan.together import Together

_PATHS = ("b", "a['y']", "a['x']", "c")
_rows = st.lists(st.tuples(*[st.integers(1, 3)] * len(_PATHS)), min_size=1, max_size=6)


def _leaves(sizes: tuple[int, ...], paths: tuple[str, ...] = _PATHS) -> tuple[Leaf, ...]:
    pairs = zip(paths, sizes, strict=True)
    return tuple(Leaf(path, (n,), "float32", False, None, False, None) for path, n in pairs)


@given(_rows)
def test_arrays_are_together_if_they_are_alike_in_every_row(rows: list[tuple[int, ...]]) -> None:
    together = Together([_leaves(sizes) for sizes in rows])
    columns = dict(zip(_PATHS, zip(*rows, strict=True), strict=True))
    firsts = {leaf.path for leaf in together.firsts(_leaves(rows[0]))}
    assert firsts == {together.first(path) for path in _PATHS}
    found = [path for first in firsts for path in together.paths(first)]
    assert sorted(found) == sorted(_PATHS)
    for path in _PATHS:
        alike = sorted(other for other in _PATHS if columns[other] == columns[path])
        if len(rows) > 1:
            assert list(together.paths(together.first(path))) == alike
            assert together.first(path) == alike[0]


def test_no_two_arrays_are_together_if_rows_have_other_paths() -> None:
    other = ("b", "a['y']", "a['x']", "d")
    rows = [_leaves((1, 1, 1, 1)), _leaves((2, 2, 2, 2), other)]
    together = Together(rows)
    assert together.firsts(rows[0]) == rows[0]
    assert all(list(together.paths(path)) == [path] == [together.first(path)] for path in _PATHS)


def test_the_sizes_of_a_plan_are_computed_as_far_as_needed() -> None:
    computed = 0

    def counted() -> Iterator[Choice]:
        nonlocal computed
        for choice in curve(dict.fromkeys(range(1, 9), 1.0), float, 8):
            computed += 1
            yield choice

    choices = Curve(counted())
    first = next(iter(choices))
    assert (computed, len(first.sizes)) == (1, 1)
    both = list(zip(choices, choices, strict=True))
    assert computed == len(choices) == 8
    assert all(one is other for one, other in both)
    assert [choices[0], *choices[1:]] == list(choices)

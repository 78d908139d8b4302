"""Given a history of keys, finds the closest one to compare the next key with."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from retrace.compare.keys import changes
from retrace.compare.nearest import TRACED, Distance, Index, distance, was_lowered
from retrace.model import Key, Miss, Node
from tests.reading.strategies import function, leaf, miss, misses, numbered, value


def oracle(earlier: list[Miss], new: Miss, *, lowered: bool) -> tuple[Miss, Distance] | None:
    """The same result, by comparing the new key with every earlier one."""
    ranked = [
        (distance(found), old.function.object != new.function.object, -old.number, old, found)
        for old in earlier
        if was_lowered(old) or not lowered
        for found in (changes(old, new),)
    ]
    if lowered:
        served = [row for row in ranked if not any(c.component in TRACED for c in row[4])]
        ranked = served or ranked
    best = min(ranked, key=lambda row: row[:3], default=None)
    return None if best is None else (best[3], best[0])


def without_contents(miss: Miss) -> Miss:
    function = miss.function._replace(closure=(), bound=(), defaults=())
    static = tuple((name, value._replace(data=None)) for name, value in miss.key.static)
    tree = tuple(
        node._replace(meta=tuple((name, value._replace(data=None)) for name, value in node.meta))
        for node in miss.key.tree
    )
    return replace(miss, function=function, key=miss.key._replace(static=static, tree=tree))


@given(st.lists(misses(), min_size=1, max_size=8), st.booleans())
def test_the_nearest_is_the_one_that_a_full_search_finds(
    found: list[Miss], lowered: bool
) -> None:
    # What functions and objects hold only decides between keys that are equally near.
    *earlier, new = map(without_contents, numbered(found))
    index = Index()
    for old in earlier:
        index.add(old)
    near = index.nearest(new, lowered=lowered)
    assert (near and tuple(near)) == oracle(earlier, new, lowered=lowered)


@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_the_nearest_of_many_that_are_alike(chance: random.Random, many: int) -> None:
    def call(number: int) -> Miss:
        length = chance.choice((2, 2, 2, 1))
        arrays = [
            leaf(path, chance.choice((1, 1, 2)))._replace(committed=chance.choice((True, False)))
            for path in ("s.step", *(f"s.rest[{i}]" for i in range(length)))
        ]
        fields = (("tx", value(chance.choice("aab"))), ("apply_fn", value(chance.choice("ab"))))
        rest = Node("s.rest", "list", tuple(f"[{i}]" for i in range(length)))
        tree = (Node("s", "State", (".step", ".rest"), fields), rest)
        static = (("n", value(chance.choice("ab"))),)
        one = miss(number, Key(tuple(arrays), tree, static))
        return replace(one, nested=chance.choice((True, False, False)))

    *earlier, new = [call(number) for number in range(many + 1)]
    index = Index()
    for old in earlier:
        index.add(old)
    near = index.nearest(new)
    assert (near and tuple(near)) == oracle(earlier, new, lowered=False)


def nearest(*keys: Key) -> int:
    *earlier, new = (miss(number, key) for number, key in enumerate(keys))
    index = Index()
    for old in earlier:
        index.add(old)
    near = index.nearest(new)
    assert near is not None
    return near.miss.number


def sized(*shape: int) -> Key:
    return Key((leaf("x", *shape),))


def test_alternation_is_compared_with_the_closer_side() -> None:
    a, b = sized(3), Key((leaf("x", 4, dtype="int32"),))
    c = Key((leaf("x", 5),))
    assert nearest(a, b, a, c) == 2
    assert nearest(b, a, b, c) == 1


def test_of_two_equally_near_keys_it_is_the_later() -> None:
    assert nearest(sized(3), sized(4), sized(5)) == 1


def test_of_two_equally_near_keys_it_is_the_one_of_a_function_that_holds_the_same() -> None:
    index = Index()
    for number, held in enumerate("ab"):
        own = function(number + 2, closure=(("n", value(held)),))
        index.add(miss(number, sized(3), function=own))
    new = miss(2, sized(3), function=function(1, closure=(("n", value("a")),)))
    near = index.nearest(new)
    assert near is not None and near.miss.number == 0


def test_of_two_settings_it_is_the_one_that_looks_the_same() -> None:
    def given(text: str, number: int) -> Key:
        return Key((leaf("x", 3),), (), (("cfg", value(text, f"#7 #{number}", "t.Cfg")),))

    relu, tanh = "Cfg(act='relu')", "Cfg(act='tanh')"
    assert nearest(given(relu, 1), given(tanh, 2), given(relu, 3)) == 0
    assert nearest(given(relu, 1), given(relu, 2), given(tanh, 3), given(relu, 4)) == 1
    assert nearest(given(relu, 1), given(tanh, 2), given("Cfg(act='sin')", 3)) == 1


def test_of_objects_that_are_all_new_it_is_the_one_that_differs_in_fewest_fields() -> None:
    def fitted(alpha: float, degree: int, number: int, shown: str = "") -> Key:
        fields = {"$type": "m.Ridge", "alpha": alpha, "on": {"degree": degree, "of": [1, degree]}}
        one = value(shown or f"Ridge {number}", f"#7 #{number}", "m.Ridge", fields)
        return Key((leaf("x", 3),), (), (("self", one),))

    first, second = fitted(0.1, 2, 1), fitted(0.1, 3, 2)
    assert nearest(first, second, fitted(0.2, 2, 3)) == 0
    assert nearest(first, second, fitted(0.2, 3, 3)) == 1
    assert nearest(first, second, fitted(0.2, 4, 3)) == 1
    # The function that was made with the nearest object is the nearest one.
    index = Index()
    for number, key in enumerate((first, second)):
        held = function(number + 1, closure=(("opt", key.static[0][1]),))
        index.add(miss(number, sized(3), function=held))
    made = function(3, closure=(("opt", fitted(0.2, 2, 3).static[0][1]),))
    near = index.nearest(miss(2, sized(3), function=made))
    assert near is not None and near.miss.number == 0


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=2, max_size=12))
def test_of_new_objects_it_is_the_latest_with_the_fewest_other_fields(
    rows: list[tuple[int, ...]],
) -> None:
    def call(number: int, fields: tuple[int, ...]) -> Key:
        one = value(
            f"Cfg {number}", f"#7 #{number}", "m.Cfg", dict(zip("abc", fields, strict=True))
        )
        return Key((leaf("x", 3),), (), (("cfg", one),))

    differing = [sum(a != b for a, b in zip(row, rows[-1], strict=True)) for row in rows[:-1]]
    expected = max(range(len(differing)), key=lambda at: (-differing[at], at))
    assert nearest(*(call(number, row) for number, row in enumerate(rows))) == expected


def test_one_shape_is_nearer_than_another_structure() -> None:
    many = tuple(leaf(f"x[{i}]", 3) for i in range(9))
    grown = tuple(leaf(f"x[{i}]", 4) for i in range(9))
    nine, ten = (Node("x", "list", tuple(f"[{i}]" for i in range(length))) for length in (9, 10))
    old = Key(many, (nine,))
    other = Key((*grown, leaf("x[9]", 4)), (ten,))
    assert nearest(old, other, Key(grown, (nine,))) == 0


def test_each_value_seen_before_but_never_together() -> None:
    def pair(a: int, b: int) -> Key:
        return Key((leaf("a", a), leaf("b", b)))

    assert nearest(pair(1, 2), pair(2, 1), pair(1, 1)) == 1


def test_ten_thousand_keys_of_three_hundred_leaves() -> None:
    # No timing: comparing every key with the new one would take minutes here.
    shared = tuple(leaf(f"p[{i}]", i) for i in range(299))
    tree = (Node("p", "list", tuple(f"[{i}]" for i in range(300))),)
    index = Index()
    one = miss(0)
    for number in range(10_000):
        key = Key((*shared, leaf("p[299]", number)), tree)
        one = miss(number, key)
        near = index.nearest(one)
        assert (None if near is None else near.miss.number) == (number - 1 if number else None)
        index.add(one)
    again = index.nearest(replace(one, number=10_000, key=one.key._replace()))
    assert again is not None
    assert (again.miss.number, again.distance) == (9_999, Distance(0, 0))

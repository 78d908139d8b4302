"""Compares two keys and checks the reported changes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given

from retrace.compare.keys import changes, doubts
from retrace.compare.replay import apply
from retrace.compare.values import differences
from retrace.model import Component, HeldChange, Key, Leaf, Miss, Node, Value
from retrace.present.detail import detail
from retrace.present.detail import value as words_of
from tests.reading.strategies import (
    Planted,
    function,
    leaf,
    miss,
    misses,
    planted,
    value,
)


@given(misses())
def test_a_key_against_itself_changes_nothing(one: Miss) -> None:
    twin = replace(one, key=Key(*(tuple(getattr(one.key, f)) for f in Key._fields)))
    assert changes(one, twin) == ()


@given(misses(), misses())
def test_the_listed_changes_turn_the_old_key_into_the_new(old: Miss, new: Miss) -> None:
    found = changes(old, new)
    made = apply(found, old)
    if old.nested is new.nested is False:
        assert {leaf.path: leaf for leaf in made.key.leaves} == {
            leaf.path: leaf for leaf in new.key.leaves
        }
    if old.program is None or new.program is None:
        made = replace(made, program=new.program)
    assert changes(made, new) == ()


@given(misses(), misses())
def test_no_listed_change_is_idle(old: Miss, new: Miss) -> None:
    found = changes(old, new)
    for index, left_out in enumerate(found):
        made = apply((*found[:index], *found[index + 1 :]), old)
        assert [(change.component, change.path) for change in changes(made, new)] == [
            (left_out.component, left_out.path)
        ]


@given(planted())
def test_one_planted_change_is_found_and_is_the_only_one(edit: Planted) -> None:
    found = changes(miss(0, edit.old), miss(1, edit.new))
    assert [(change.component, change.path) for change in found] == [(edit.component, edit.path)]


@given(misses(), misses())
def test_changes_name_each_place_once(old: Miss, new: Miss) -> None:
    marked = [
        (c.component, c.path, isinstance(c, HeldChange) and c.is_bound) for c in changes(old, new)
    ]
    assert len(marked) == len(set(marked))


def only(old: Key, new: Key) -> tuple[str | None, str]:
    (change,) = changes(miss(0, old), miss(1, new))
    return change.path, detail(change)


def tree(*nodes: Node, leaves: tuple[Leaf, ...] = ()) -> Key:
    return Key(leaves, nodes)


NONE = Node("s['best']", "NoneType", ())
STATS = Node("s", "dict", ("['best']",))


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        (Key((leaf("x", 32, 8),)), Key((leaf("x", 17, 8),)), "x", "axis 0: 32 -> 17"),
        (
            Key((leaf("x", 3, 8, 1),)),
            Key((leaf("x", 4, 8, 2),)),
            "x",
            "axis 0: 3 -> 4, axis 2: 1 -> 2",
        ),
        (Key((leaf("x", 3),)), Key((leaf("x", 3, 1),)), "x", "rank 1 -> 2"),
        (
            Key((leaf("x", dtype="uint8"),)),
            Key((leaf("x"),)),
            "x",
            "uint8 -> float32",
        ),
        (Key((leaf("x", weak=True),)), Key((leaf("x"),)), "x", "weak -> strong"),
        (
            Key((leaf("x"),)),
            Key((leaf("x")._replace(committed=True, sharding="cpu:0"),)),
            "x",
            "uncommitted -> committed, sharding: open -> cpu:0",
        ),
        (
            tree(Node("b", "dict", ("['x']",)), leaves=(leaf("b['x']"),)),
            tree(
                Node("b", "dict", ("['x']", "['mask']")),
                leaves=(leaf("b['x']"), leaf("b['mask']")),
            ),
            "b",
            "keys added: 'mask'",
        ),
        (
            tree(STATS, NONE),
            tree(STATS, leaves=(leaf("s['best']"),)),
            "s['best']",
            "None -> float32[]",
        ),
        (
            tree(Node("r", "list", ("[0]",)), leaves=(leaf("r[0]"),)),
            tree(Node("r", "list", ("[0]", "[1]")), leaves=(leaf("r[0]"), leaf("r[1]"))),
            "r",
            "list of 1 -> list of 2",
        ),
        (
            Key(static=(("n", value("3")),)),
            Key(static=(("n", value("3", "np", "numpy.int64")),)),
            "n",
            "int 3 -> numpy.int64 3",
        ),
        (Key(static=(("n", value("1")),)), Key(static=(("n", value("2")),)), "n", "1 -> 2"),
        (
            Key(signature=(("t", "positional"),)),
            Key(),
            "t",
            "positional -> omitted",
        ),
    ],
)
def test_details_say_what_changed(old: Key, new: Key, path: str, said: str) -> None:
    assert only(old, new) == (path, said)


def test_leaves_below_a_changed_node_are_not_reported() -> None:
    old = Key(
        (leaf("b['x']", 3), leaf("y", 3)),
        (Node("b", "dict", ("['x']",)),),
    )
    new = Key(
        (leaf("b['x']", 4), leaf("b['z']"), leaf("y", 4)),
        (Node("b", "dict", ("['x']", "['z']")),),
    )
    found = changes(miss(0, old), miss(1, new))
    assert [(change.component, change.path) for change in found] == [
        (Component.TREE, "b"),
        (Component.SHAPE, "y"),
    ]


def test_a_static_field_that_looks_equal_and_is_not() -> None:
    old, new = (
        tree(Node("s", "State", (), (("tx", value("sgd()", token, "Sgd")),))) for token in "12"
    )
    path, said = only(old, new)
    assert path == "s.tx" and said.startswith("static field tx: a new Sgd,") and "`==`" in said


def test_leaves_beside_a_changed_static_field_are_reported() -> None:
    def state(step: int, tx: str) -> Key:
        return Key(
            (leaf("s.step", step),), (Node("s", "State", (".step",), (("tx", value(tx)),)),)
        )

    found = changes(miss(0, state(1, "a")), miss(1, state(2, "b")))
    assert [(change.component, change.path) for change in found] == [
        (Component.TREE, "s.tx"),
        (Component.SHAPE, "s.step"),
    ]


def test_the_order_of_keyword_arguments_is_not_a_change() -> None:
    a, b = leaf("a", 1), leaf("b", 2)
    assert changes(miss(0, Key((a, b))), miss(1, Key((b, a)))) == ()


def test_a_nested_call_has_no_placement_to_compare() -> None:
    placed = Key((leaf("x")._replace(sharding="cpu:0", committed=True),))
    assert changes(miss(0, placed), miss(1, Key((leaf("x"),)), nested=True)) == ()


def test_closure_and_partial_may_use_one_name() -> None:
    old = function(1, closure=(("n", value("1")),), bound=(("n", value("1")),))
    new = function(2, closure=(("n", value("2")),), bound=(("n", value("3")),))
    found = changes(miss(0, function=old), miss(1, function=new))
    made = apply(found, miss(0, function=old)).function
    assert [v.text for _, v in (*made.closure, *made.bound)] == ["2", "3"]


def test_an_uncertain_difference_is_a_doubt_and_not_a_change() -> None:
    opaque = Value("Config", "Config(...)", None, False)
    old, new = (miss(n, Key(static=(("cfg", opaque),))) for n in (0, 1))
    assert changes(old, new) == ()
    (doubt,) = doubts(old, new)
    assert (doubt.component, doubt.path, doubt.exact) == (Component.STATIC, "cfg", False)
    assert "unknown" in detail(doubt)


def test_a_cut_value_is_marked_inexact() -> None:
    old = Value("str", "long...", "1", False)
    (change,) = changes(
        miss(0, Key(static=(("s", old),))),
        miss(1, Key(static=(("s", old._replace(token="2")),))),
    )
    assert not change.exact


def test_a_node_that_is_its_own_child_ends() -> None:
    loop = Node("a", "dict", ("",))
    old, new = Key((), (Node("", "root", ("a",)), loop)), Key((leaf("a"),), (loop,))
    assert changes(miss(0, old), miss(1, new))


def plain(data: object) -> Value:
    return Value("Config", "Config()", None, True, data)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"lr": 0.1, "n": 3}, {"lr": 0.2, "n": 3}, [(".lr", "changed", 0.1, 0.2)]),
        ({"n": 1}, {"n": True}, [(".n", "changed", 1, True)]),
        ([1, 2], [1, 2, 3], [("", "changed", [1, 2], [1, 2, 3])]),
        ({"a": [1, 2]}, {"a": [0, 1, 2]}, [(".a", "changed", [1, 2], [0, 1, 2])]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 5]}}, [(".a['b'][1]", "changed", 2, 5)]),
        (
            {"a": {"$type": "O", "b": 1}},
            {"a": {"$type": "O", "b": 2}},
            [(".a.b", "changed", 1, 2)],
        ),
        (
            {"a": {"b": 1}, "c": 2},
            {"a": {"b": 1, "d": 3}, "c": 2},
            [(".a['d']", "added", None, 3)],
        ),
        ({"a": 1}, {"b": 1}, [(".a", "removed", 1, None), (".b", "added", None, 1)]),
        ({"a": {"$type": "O"}}, {"a": [1]}, [(".a", "changed", {"$type": "O"}, [1])]),
        ({"_id": 1, "n": 2}, {"_id": 3, "n": 4}, [(".n", "changed", 2, 4)]),
        ({"_id": 1}, {"_id": 3}, [("._id", "changed", 1, 3)]),
        ({"_d": {"n": 1}, "_h": 5}, {"_d": {"n": 2}, "_h": 6}, [("['n']", "changed", 1, 2)]),
        (3, 4, [("", "changed", 3, 4)]),
        ([1, 2], [1, 2], []),
        (None, [1], []),
    ],
)
def test_values_are_compared_field_by_field(
    old: object, new: object, expected: list[tuple[object, ...]]
) -> None:
    assert [tuple(found[:4]) for found in differences(plain(old), plain(new))] == expected


def test_lists_are_aligned_on_request() -> None:
    old, new = [*"abcdefghijkl"], [*"xabcdefghijklyz"]
    found = differences(plain(old), plain(new), aligned=True)
    assert [(each.path, each.kind, each.new) for each in found] == [
        ("[0]", "added", "x"),
        ("[13]", "added", "y"),
        ("[14]", "added", "z"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Equal to Python, but not to JAX.
        ([True, 2], [1, 2], [("[0]", "changed", True, 1)]),
        ([1, 2], [1.0, 2, 3], [("[0]", "changed", 1, 1.0), ("[2]", "added", None, 3)]),
        ([1, 2, 3], [0, 1, 2], [("[0]", "added", None, 0), ("[2]", "removed", 3, None)]),
        ([{"a": 1}, 5], [7, {"a": 1}, 5], [("[0]", "added", None, 7)]),
        (
            [{"a": 1}, 5],
            [{"a": 2}, 5, 6],
            [("[0]['a']", "changed", 1, 2), ("[2]", "added", None, 6)],
        ),
        ([[1], [2, 3]], [[1], [3]], [("[1][0]", "removed", 2, None)]),
    ],
)
def test_items_of_aligned_lists(
    old: object, new: object, expected: list[tuple[object, ...]]
) -> None:
    found = differences(plain(old), plain(new), aligned=True)
    assert [tuple(one[:4]) for one in found] == expected
    assert [type(one.old) for one in found] == [type(one[2]) for one in expected]


def test_dict_items_differ_from_object_fields() -> None:
    old, new = (Value("dict", f"{{'a b': {n}}}", None, True, {"a b": n}) for n in (1, 2))
    assert [found.path for found in differences(old, new)] == ["['a b']"]
    old, new = (Value("m.D", f"D({{'a': {n}}})", None, True, {"a": n}) for n in (1, 2))
    assert [found.path for found in differences(old, new)] == ["['a']"]


def test_values_with_the_same_fields_are_compared_without_loading_deepdiff() -> None:
    program = """if True:
        import sys
        from retrace.compare.values import differences
        from retrace.reason import verdict
        from retrace.model import Value
        sides = [Value("C", "C()", None, True, {"lr": n}) for n in (1, 2)]
        assert differences(*sides)
        assert not {"deepdiff", "numpy", "jax"} & set(sys.modules)
        nested = [Value("C", "C()", None, True, {"a": {"lr": n}, "b": [n]}) for n in (1, 2)]
        assert differences(*nested)
        assert not {"deepdiff", "numpy", "jax"} & set(sys.modules)
        longer = [Value("C", "C()", None, True, {"b": [0] * n, str(n): n}) for n in (1, 2)]
        assert differences(*longer)
        assert not {"deepdiff", "numpy", "jax"} & set(sys.modules)
        assert differences(*longer, aligned=True)
        assert "deepdiff" in sys.modules
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def test_a_command_loads_no_numpy_and_no_pandas_to_compare_plain_data() -> None:
    program = """if True:
        import sys
        from retrace.compare.deep import levels, skip_heavy_imports
        skip_heavy_imports()
        (level,) = levels({"a": [1, 2]}, {"a": [1, 2, 3]})
        assert level.path() == "root['a'][2]", level.path()
        assert not {"numpy", "pandas", "polars"} & set(sys.modules)
        import numpy
        assert numpy.__version__
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def test_long_texts_are_cut_where_they_differ() -> None:
    old, new = (Value("tuple", "x" * 100 + end, end, True) for end in ("ab", "cd"))
    said = words_of(old, new)
    assert "ab -> ..." in said and said.endswith("cd") and len(said) < 80


def test_cut_strings_differ() -> None:
    old, new = (Value("str", "'" + "x" * 99 + "...", token, False) for token in ("1", "2"))
    assert words_of(old, new).startswith("another str")


def test_nan_only_equals_itself() -> None:
    old, new = (Value("float", "nan", token, True, "nan") for token in ("nan@1", "nan@2"))
    assert "NaN" in words_of(old, new)

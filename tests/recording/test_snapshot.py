"""A live value in, a bounded snapshot out; nothing of the user's runs on the way."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import dataclasses
import enum
import functools
import gc
import json
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrace.capture.snapshot import snapshot
from retrace.compare.values import differences
from retrace.model import ENCLOSING, Value, is_cut


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Model:
    width: int


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    rate: float
    model: Model


class Point(NamedTuple):
    x: object
    y: object


class Raising(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)


class Hostile(metaclass=Raising):
    def __init__(self) -> None:
        object.__setattr__(self, "size", 3)

    def __repr__(self) -> str:
        raise SystemError

    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)

    __len__ = __iter__ = __eq__ = __hash__ = __repr__  # type: ignore[assignment]


class Shaped:
    dtype = "float32"

    @property
    def shape(self) -> Any:
        raise SystemError


def area(width: int) -> int:
    return width


def take(value: object) -> Value:
    return snapshot(value, lambda value: None)


@pytest.mark.parametrize(
    ("value", "text", "data"),
    [
        (3, "3", 3),
        (True, "True", True),
        (np.int64(3), "np.int64(3)", 3),
        (float("nan"), "nan", "nan"),
        (None, "None", None),
        ((1,), "(1,)", [1]),
        (Point(1, (2,)), "Point(x=1, y=(2,))", {"x": 1, "y": [2]}),
        (Colour.RED, "Colour.RED", "Colour.RED"),
        ({"b": 1, 3: None}, "{'b': 1, 3: None}", {"b": 1, "[3]": None}),
        (frozenset("ba"), "frozenset({'a', 'b'})", ["a", "b"]),
        (
            Config(0.5, Model(8)),
            "Config(rate=0.5, model=Model(width=8))",
            {"rate": 0.5, "model": {"$type": f"{__name__}.Model", "width": 8}},
        ),
    ],
)
def test_whole_values(value: object, text: str, data: object) -> None:
    found = take(value)
    assert (found.text, found.data, found.exact) == (text, data, True)


def test_methods_that_raise_are_not_called() -> None:
    hostile = [Hostile(), Shaped()]
    assert take(hostile).text == "[Hostile(size=3), Shaped()]"
    assert take(hostile[0]).data == {"size": 3}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (area, f"<function area at test_snapshot.py:{area.__code__.co_firstlineno}>"),
        (
            jax.jit(area),
            f"<PjitFunction of area at test_snapshot.py:{area.__code__.co_firstlineno}>",
        ),
        (functools.partial(print, 1, end=""), "partial(<built-in function print>, 1, end='')"),
        (json, "<module 'json'>"),
        (Colour, f"<class '{__name__}.Colour'>"),
        (jnp.zeros((3, 4)), "float32[3,4]"),
        (np.zeros((3, 4), "int8"), "int8[3,4]"),
        (np.dtype("float32"), "dtype('float32')"),
        (object(), "<object>"),
    ],
)
def test_what_is_known_by_name_is_not_exact(value: object, text: str) -> None:
    found = take(value)
    assert (found.text, found.exact) == (text, False)


def test_a_list_is_told_from_a_tuple() -> None:
    one, other = take(([1],)), take(((1,),))
    assert one.text != other.text
    assert one.data == other.data
    assert not one.exact
    assert other.exact


def test_types_are_qualified() -> None:
    assert [take(value).type for value in (1, np.int64(1), Model(1))] == [
        "int",
        "numpy.int64",
        f"{__name__}.Model",
    ]


def test_small_numpy_arrays_show_their_content_by_hash() -> None:
    one, same, other = np.arange(4), np.arange(4), np.arange(4) + 1
    assert take(one).data == take(same).data != take(other).data
    assert take(np.zeros(2**20)).data == {"array": "float64[1048576]", "content": None}


def test_an_array_on_a_device_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    array = jnp.ones(3)

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(type(array), "__array__", refuse)
    monkeypatch.setattr(type(array), "_value", property(refuse))
    assert take({"w": array}).text == "{'w': float32[3]}"


class Unlimited(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "make",
    [
        lambda: list(range(10**6)),
        lambda: "x" * 10**6,
        lambda: Unlimited("x" * 10**6),
        lambda: 10**100_000,
        lambda: {str(index): index for index in range(10**5)},
        lambda: functools.reduce(lambda inner, _: (inner,), range(500), ()),
    ],
    ids=["list", "str", "derived str", "int", "dict", "depth"],
)
def test_the_bound(make: Callable[[], object]) -> None:
    found = take(make())
    assert len(found.text) <= 200
    assert not found.exact
    assert found.data is None


def test_a_value_that_holds_itself() -> None:
    ring: list[object] = []
    ring.append(ring)
    assert take(ring).text == "[[...]]" or take(ring).text == "[...]"
    assert not take(ring).exact


class Bound:
    def __init__(self) -> None:
        self.rate = 0.5
        self.step = jax.jit(self.run)

    def run(self, x: Any) -> Any:
        return x * self.rate


def test_the_receiver_of_a_method_is_not_described_in_itself() -> None:
    found: Any = take([Bound()]).data
    [one] = found
    assert one["rate"] == 0.5
    assert one["step"]["__wrapped__"]["__self__"] == ENCLOSING
    # Beside each other, both are.
    both: Any = take([shared := Bound(), shared]).data
    assert both == [one, one]


class FlaxId:
    def __init__(self, number: int) -> None:
        self.id = number


class Numbered:
    def __init__(self, number: int) -> None:
        self.width, self._id = 8, FlaxId(number)


def test_the_number_by_which_flax_knows_a_module_is_no_content() -> None:
    assert take(Numbered(1)).data == take(Numbered(2)).data == {"width": 8}


def test_nothing_is_kept_alive() -> None:
    config = Model(8)
    reference = weakref.ref(config)
    found = take((config, [config]))
    del config
    gc.collect()
    assert reference() is None
    assert "Model(width=8)" in found.text


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(plain, plain)
def test_equal_exact_snapshots_are_of_equal_values(one: object, other: object) -> None:
    first, second = take(one), take(other)
    assert len(first.text) <= 200
    json.dumps(first.data)
    if first.exact and second.exact and first[:2] == second[:2] and first.data == second.data:
        assert repr(one) == repr(other) or one == other


def _holding(array: object) -> Callable[[], object]:
    return lambda: array


@pytest.mark.parametrize("array", [np.ones, jnp.ones], ids=["numpy", "jax"])
@pytest.mark.parametrize("hold", [list, dict, _holding])
def test_of_arrays_on_a_device_only_types_are_known_wherever_they_are_held(
    array: Callable[[int], object], hold: Callable[[object], object]
) -> None:
    held = [("a", array(3)), ("b", 1)]
    found = take(hold(held))
    assert is_cut(found.data, found.text, exact=found.exact) is (array is jnp.ones)


def test_a_text_that_reads_like_an_array_is_known_whole() -> None:
    found = take({"a": "float32[3]"})
    assert not is_cut(found.data, found.text, exact=found.exact)


_ITEMS = st.text(max_size=5) | st.integers(-9, 9) | st.sampled_from((None, True, "$type", "[1]"))
_KEYS = _ITEMS | st.tuples(_ITEMS, _ITEMS)


@given(st.dictionaries(_KEYS, st.integers(0, 9), min_size=1, max_size=4), st.data())
def test_what_differs_between_dicts_is_found_by_the_path_told(
    before: dict[object, int], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(list(before)))
    after = {**before, key: 10}
    (found,) = differences(take(before), take(after))
    assert (found.kind, found.old, found.new) == ("changed", before[key], 10)
    assert eval(f"d{found.path}", {"d": after}) == 10

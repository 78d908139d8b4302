"""Two values have equal tokens if and only if JAX takes them as equal."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import dataclasses
import enum
import functools
import gc
import importlib
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import retrace
from retrace.capture.tokens import Tokens


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Number(enum.IntEnum):
    ONE = 1


class Pair(NamedTuple):
    a: object
    b: object


@dataclasses.dataclass(frozen=True)
class Config:
    value: object
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    value: object


@dataclasses.dataclass
class Mutable:
    value: object


class Keyed:
    def __init__(self, key: int) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and self.key == other.key

    def __hash__(self) -> int:
        return self.key


class Silent:
    def __eq__(self, other: object) -> Any:
        raise RuntimeError

    def __hash__(self) -> int:
        return 7


class Odd(Silent):
    def __eq__(self, other: object) -> Any:
        return np.ones(3)

    __hash__ = Silent.__hash__


class Plain:
    def method(self) -> None: ...


def area(width: int) -> int:
    return width


@jax.tree_util.register_pytree_node_class
class Node:
    def __init__(self, leaf: Any, metadata: object) -> None:
        self.leaf, self.metadata = leaf, metadata

    def tree_flatten(self) -> tuple[tuple[Any], object]:
        return (self.leaf,), self.metadata

    @classmethod
    def tree_unflatten(cls, metadata: object, leaves: tuple[Any]) -> Node:
        return cls(leaves[0], metadata)


nan = float("nan")
instance = Plain()

_PAIRS: list[tuple[object, object]] = [
    (1, True),
    (3, 3.0),
    (3, np.int64(3)),
    (np.int32(3), np.int64(3)),
    ((1,), (1.0,)),
    ((1,), (True,)),
    ((3,), (np.int64(3),)),
    ((1 + 0j,), (1,)),
    ((2**53 + 1,), (float(2**53),)),
    (0.0, -0.0),
    (nan, nan),
    (nan, float("nan")),
    ((nan,), (nan,)),
    ((nan,), (float("nan"),)),
    (np.float64("nan"), np.float64("nan")),
    ("a", np.str_("a")),
    ("a", b"a"),
    (Colour.RED, Colour.RED),
    (Colour.RED, Colour.BLUE),
    (1, Number.ONE),
    ((1,), (Number.ONE,)),
    ((1, 2), Pair(1, 2)),
    (((1, 2),), (Pair(1, 2),)),
    (Pair(1, 2), Pair(1.0, 2)),
    (Config(1), Config(1.0, "other")),
    (Config(1), Config(2)),
    (Config(area), Config(area)),
    (Config(Keyed(1)), Config(Keyed(1))),
    (Slotted((1, 2)), Slotted((1, 2))),
    (Config(1), Slotted(1)),
    (Keyed(1), Keyed(1)),
    (Keyed(1), Keyed(2)),
    ((Keyed(1),), (Keyed(1),)),
    (Plain(), Plain()),
    (instance, instance),
    (instance.method, instance.method),
    (instance.method, Plain().method),
    (area, area),
    (lambda: 1, lambda: 1),
    (functools.partial(area, 1), functools.partial(area, 1)),
    (jax.jit(area), jax.jit(area)),
    (frozenset([1, 2]), frozenset([2.0, 1])),
    (range(0), range(1, 1)),
    (range(0, 3, 2), range(0, 4, 2)),
    (np.dtype("float32"), np.dtype("f4")),
    (np.dtype("float32"), np.dtype("float64")),
    (jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float8_e5m2)),
    (np.float32, np.float32),
    (jnp.float32, jnp.bfloat16),
    ((jnp.float32,), (np.float32,)),
    (pathlib.PurePosixPath("/a"), pathlib.PurePosixPath("/a")),
    (jax.sharding.PartitionSpec("a"), jax.sharding.PartitionSpec("a")),
    (jax.tree.structure({"a": 1}), jax.tree.structure({"a": 2})),
    (jax.tree.structure({"a": 1}), jax.tree.structure({"b": 1})),
    (jax.tree.structure(Node(1, Keyed(1))), jax.tree.structure(Node(1, Keyed(1)))),
]


PAIRS = [pytest.param(*pair, id=str(number)) for number, pair in enumerate(_PAIRS)]


def static_equal(one: object, other: object) -> bool:
    traces: list[None] = []

    def program(x: Any, static: object) -> Any:
        traces.append(None)
        return x

    jitted = jax.jit(program, static_argnums=1)
    jitted(1.0, one)
    jitted(1.0, other)
    return len(traces) == 1


def metadata_equal(one: object, other: object) -> bool:
    traces: list[None] = []

    def program(node: Node) -> Any:
        traces.append(None)
        return node.leaf

    jitted = jax.jit(program)
    jitted(Node(1.0, one))
    jitted(Node(1.0, other))
    return len(traces) == 1


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_static_tokens_agree_with_jax(one: object, other: object) -> None:
    tokens = Tokens()
    first, second = tokens.static(one), tokens.static(other)
    assert first is not None
    assert (first == second) is static_equal(one, other)


# A range is compared with what other tests gave JAX as metadata, arrays among it.
@pytest.mark.parametrize(
    ("one", "other"), [*PAIRS, ([1], [1.0]), ([1], (1,)), ({"a": 1}, {"a": 1})]
)
def test_metadata_tokens_agree_with_python(one: object, other: object) -> None:
    tokens = Tokens()
    first, second = tokens.metadata(one), tokens.metadata(other)
    assert first is not None
    assert (first == second) is (one is other or bool(one == other))


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (3, np.int64(3)), (Keyed(1), Keyed(1)), ([1], [2]), (nan, nan)]
)
def test_jax_compares_metadata_as_python_does(one: object, other: object) -> None:
    assert metadata_equal(one, other) is (one is other or bool(one == other))


# Without NumPy scalars: compared with a tuple, they make an array.
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([0.0, -0.0, 1.0, 2.5, nan, 1 + 0j, 2j, "a", b"a"])
    | st.sampled_from([Colour.RED, Number.ONE, area, Keyed(1)]),
    lambda inner: (
        st.lists(inner, max_size=2).map(tuple)
        | st.frozensets(inner, max_size=2)
        | st.builds(Config, inner)
        | st.builds(Slotted, inner)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=4,
)


@given(values, values)
def test_tokens_of_plain_values(one: object, other: object) -> None:
    tokens = Tokens()
    # A NaN in an object that takes no weak reference cannot be told.
    assume(tokens.static(one) is not None and tokens.static(other) is not None)
    equal = one is other or one == other
    assert (tokens.metadata(one) == tokens.metadata(other)) is equal
    assert (tokens.static(one) == tokens.static(other)) is (equal and type(one) is type(other))


@settings(max_examples=25, deadline=None)
@given(values, values)
def test_generated_values_agree_with_jax(one: object, other: object) -> None:
    tokens = Tokens()
    assume(tokens.static(one) is not None and tokens.static(other) is not None)
    assert (tokens.static(one) == tokens.static(other)) is static_equal(one, other)


def test_a_subclass_is_not_asked_for_its_number_and_items() -> None:
    asked: list[str] = []

    class Whole(int):
        def __int__(self) -> int:
            asked.append("int")
            return 3

    class Real(float):
        def __int__(self) -> int:
            asked.append("float")
            return 3

        def is_integer(self) -> bool:
            asked.append("is_integer")
            return True

    class Several(tuple[int, ...]):
        __slots__ = ()

        def __len__(self) -> int:
            asked.append("len")
            return 1

    class Kinds(frozenset[int]):
        def __iter__(self) -> Iterator[int]:
            asked.append("iter")
            return iter((1,))

    values: list[tuple[Any, Any]] = [
        (Whole(4), Whole(5)),
        (Real(4.0), Real(5.0)),
        (Several((4, 5)), Several((4, 6))),
        (Kinds((4,)), Kinds((5,))),
    ]
    for one, other in values:
        function = jax.jit(lambda x, at: x, static_argnames="at")
        with retrace.recording() as found:
            function(1.0, at=one)
            function(1.0, at=other)
        (change,) = found.misses[-1].changes
        assert (change.component, change.path, change.exact) == ("static", "at", True)
        assert change.old.text != change.new.text
    assert asked == []


@pytest.mark.parametrize(
    "value",
    [
        [1],
        {"a": 1},
        Mutable(1),
        (1, [2]),
        np.zeros(3),
        jnp.zeros(3),
        Config([1]),
    ],
)
def test_what_jax_refuses_as_static_has_no_token(value: object) -> None:
    assert Tokens().static(value) is None
    assert Tokens().metadata(value) is not None


def test_methods_that_raise_are_contained() -> None:
    tokens = Tokens()
    for kind in (Silent, Odd):
        first, second = kind(), kind()
        assert tokens.static(first) is not None
        assert tokens.static(second) is None


def test_long_values_have_short_tokens() -> None:
    tokens = Tokens()
    assert len(tokens.static(tuple(range(1000))) or "") < 100
    assert tokens.static(tuple(range(1000))) == tokens.static(tuple(map(float, range(1000))))
    assert tokens.static(tuple(range(10**6))) is None


def test_an_object_whose_hash_changed_is_another() -> None:
    tokens = Tokens()
    keyed = Keyed(1)
    before = tokens.static(keyed)
    keyed.key = 2
    assert tokens.static(keyed) != before
    keyed.key = 1
    assert tokens.static(keyed) == before


class Never:
    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 7


def test_an_equality_is_asked_256_times_at_most() -> None:
    asked: list[object] = []

    class Asks(Never):
        def __eq__(self, other: object) -> bool:
            asked.append(other)
            return False

        __hash__ = Never.__hash__

    tokens, alive = Tokens(), [Asks() for _ in range(300)]
    found: list[str | None] = []
    for each in alive:
        asked.clear()
        found.append(tokens.static(each))
        assert len(asked) <= 256
    # Those beyond cannot be told from the others.
    assert len({*found[:257]}) == 257 and found[257:] == [None] * 43


def test_an_object_is_equal_to_itself_whatever_it_says() -> None:
    tokens, never = Tokens(), Never()
    assert static_equal(never, never)
    assert tokens.static(never) == tokens.static(never)
    assert tokens.static(never) != tokens.static(Never())


def test_numbers_are_never_used_again() -> None:
    tokens = Tokens()
    numbers = [tokens.number(Plain()) for _ in range(100)]
    assert len(set(numbers)) == 100
    assert tokens.number(()) is None
    assert len({tokens.static(Keyed(1)) for _ in range(10)}) == 10


def test_seen() -> None:
    tokens = Tokens()
    assert not tokens.seen(instance)
    tokens.number(instance)
    assert tokens.seen(instance)


@pytest.mark.parametrize(
    "make",
    [Plain, lambda: Keyed(3), lambda: lambda: None, lambda: Mutable(1)],
    ids=["identity", "equality", "lambda", "unhashable"],
)
def test_the_dead_leave_nothing(make: Callable[[], object]) -> None:
    tokens = Tokens()
    for take in (tokens.metadata, tokens.static):
        take(make())  # its class lives on
    before = len(tokens)
    for _ in range(50):
        value = make()
        tokens.metadata(value)
        tokens.static(value)
        tokens.number(value)
        del value
    gc.collect()
    assert len(tokens) == before


def test_the_number_of_a_dead_object_is_told() -> None:
    tokens, told = Tokens(), list[int]()
    tokens.forgotten.append(told.append)
    value = Plain()
    number = tokens.number(value)
    assert told == []
    del value
    gc.collect()
    assert len(tokens) == 0 and told == [number]


def test_a_class_of_the_same_name_is_another(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reloaded_module.py").write_text(
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n    a: int\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("reloaded_module")
    tokens = Tokens()
    before = tokens.static(module.C(1))
    old = module.C
    importlib.reload(module)
    assert tokens.static(module.C(1)) != before == tokens.static(old(1))


@pytest.mark.drawn
def test_plain_tokens_are_the_same_in_every_process() -> None:
    program = (
        "from retrace.capture.tokens import Tokens; import numpy as np\n"
        "print(Tokens().static((frozenset(['a', 'b', 'c']), 1, 2.5, np.dtype('f4'), 'x' * 500)))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": ":".join(sys.path),
                "JAX_PLATFORMS": "cpu",
            },
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1

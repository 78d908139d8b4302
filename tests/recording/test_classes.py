"""A class that is defined again goes in; that it is another class to JAX comes out."""

# JAX's own annotations are partial, and the classes here are made to be hard to follow.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUntypedNamedTuple=false, reportMissingTypeStubs=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import collections
import dataclasses
import enum
import gc
import importlib
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import flax.struct
import jax
import pytest
from flax import nnx

from retrace.capture.classes import Classes
from retrace.causes import Cause
from retrace.model import Change, Component, Recording, Verdict
from retrace.present.detail import detail
from retrace.reason.verdict import judge
from retrace.store.redaction import Redaction
from tests.recording.conftest import JudgeAll, Record

T = TypeVar("T")
Makers = dict[str, Callable[[], Any]]


def _named_tuple() -> Any:
    class State(NamedTuple):
        a: float
        b: int = 1

    return State(1.0)


def _collections() -> Any:
    return collections.namedtuple("State", "a b")(1.0, 2)  # noqa: PYI024 - as people do


def _derived() -> Any:
    class Base(NamedTuple):
        a: float

    class State(Base):
        pass

    return State(1.0)


def _registered_dataclass() -> Any:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class State:
        a: float
        name: str = dataclasses.field(default="x", metadata={"static": True})

    return State(1.0)


def _made_dataclass() -> Any:
    State = dataclasses.make_dataclass("State", ["a"])
    jax.tree_util.register_dataclass(State, ["a"], [])
    return State(1.0)


def _flax() -> Any:
    @flax.struct.dataclass
    class State:
        a: float
        name: str = flax.struct.field(pytree_node=False, default="x")

    return State(1.0)


def _equinox() -> Any:
    class State(eqx.Module):
        a: float
        name: str = eqx.field(static=True, default="x")

    return State(1.0)


def _generic() -> Any:
    class State(eqx.Module, Generic[T]):
        a: T

    return State[float](1.0)


def _registered() -> Any:
    class State:
        def __init__(self, a: float) -> None:
            self.a = a

    jax.tree_util.register_pytree_node(State, lambda s: ((s.a,), None), lambda _, c: State(*c))
    return State(1.0)


def _registered_class() -> Any:
    @jax.tree_util.register_pytree_node_class
    class State:
        def __init__(self, a: float) -> None:
            self.a = a

        def tree_flatten(self) -> Any:
            return (self.a,), "aux"

        @classmethod
        def tree_unflatten(cls, _: Any, children: Any) -> Any:
            return cls(*children)

    return State(1.0)


def _by_type() -> Any:
    State = type("State", (), {})
    jax.tree_util.register_pytree_node(State, lambda _: ((1.0,), None), lambda *_: State())
    return State()


def _nested() -> Any:
    class Inner(NamedTuple):
        x: float

    class State(NamedTuple):
        inner: Inner
        y: float

    return {"k": State(Inner(1.0), 2.0)}


TREES: Makers = {
    "NamedTuple": _named_tuple,
    "collections.namedtuple": _collections,
    "derived": _derived,
    "register_dataclass": _registered_dataclass,
    "make_dataclass": _made_dataclass,
    "flax.struct": _flax,
    "equinox": _equinox,
    "generic": _generic,
    "register_pytree_node": _registered,
    "register_pytree_node_class": _registered_class,
    "type": _by_type,
    "nested": _nested,
}


def _enum() -> Any:
    class State(enum.Enum):
        A = 1

    return State.A


def _int_enum() -> Any:
    class State(enum.IntEnum):
        A = 1

    return State.A


def _frozen() -> Any:
    @dataclasses.dataclass(frozen=True)
    class State:
        a: int = 1

    return State()


def _by_value() -> Any:
    class State:
        def __eq__(self, other: object) -> bool:
            return type(self) is type(other)

        def __hash__(self) -> int:
            return 1

    return State()


def _the_class() -> Any:
    class State:
        pass

    return State


@dataclasses.dataclass(frozen=True)
class Config:
    mode: object


STATICS: Makers = {
    "enum": _enum,
    "int enum": _int_enum,
    "frozen": _frozen,
    "by value": _by_value,
    "class": _the_class,
    "in a tuple": lambda: (1, _enum()),
    "in a config": lambda: Config(_enum()),
    "named tuple": _named_tuple,
}


def _of(found: tuple[Recording, list[Verdict]]) -> list[Verdict]:
    return [one for one in found[1] if one.miss.function.kind != "op"]


def _told(verdict: Verdict) -> Change:
    (change,) = [
        one for one in verdict.changes if one.component in (Component.TREE, Component.STATIC)
    ]
    return change


def test_a_node_of_a_class_that_was_defined_again(judge_all: JudgeAll) -> None:
    def program() -> None:
        for make in TREES.values():
            jitted = jax.jit(lambda state: jax.tree.leaves(state)[0] * 2)
            for _ in range(3):
                jitted(make())

    found = judge_all(program)
    verdicts = _of(found)
    assert len(verdicts) == 3 * len(TREES)
    for name, number in zip(TREES, range(0, len(verdicts), 3), strict=True):
        for one in verdicts[number + 1 : number + 3]:
            told = _told(one)
            assert one.cause is Cause.TREE_STRUCTURE_CHANGED, name
            assert told.path == ("state['k']" if name == "nested" else "state"), name
            assert detail(told).startswith("another class `State`, defined again"), name
            assert one.avoidable == "yes", name
            assert one.fix is not None
            assert one.fix.code == "define-once", name
            assert one.miss.key.tree[-1].made is not None, name
    _redacted(found[0], [detail(told) for told in map(_told, verdicts[1:3])])


def _redacted(recording: Recording, details: list[str]) -> None:
    hidden = judge(Redaction([]).recording(recording))
    own = [one for one in hidden if one.miss.function.kind != "op"]
    assert [detail(_told(one)) for one in own[1:3]] == details
    assert [one.fix and one.fix.code for one in own[1:3]] == ["define-once"] * 2


def test_the_line_of_a_definition_is_told(judge_all: JudgeAll) -> None:
    makers = (_named_tuple, _equinox, _registered_class, _by_type)

    def program() -> None:
        for make in makers:
            jitted = jax.jit(lambda state: jax.tree.leaves(state)[0] * 2)
            for _ in range(2):
                jitted(make())

    lines = Path(__file__).read_text().splitlines()
    for make, one in zip(makers, _of(judge_all(program))[1::2], strict=True):
        made = one.miss.key.tree[-1].made
        assert made is not None
        assert made.file == __file__
        if make is _by_type:
            assert made.line is None  # several calls have this name
            continue
        assert made.line is not None
        # Python 3.13 counts its decorators in.
        text = "".join(lines[made.line - 1 : made.line + 1])
        assert "class State" in text
        assert make.__code__.co_firstlineno < made.line < make.__code__.co_firstlineno + 5


def test_a_static_value_of_a_class_that_was_defined_again(judge_all: JudgeAll) -> None:
    def program() -> None:
        for make in STATICS.values():
            # By position: by keyword, older JAX takes equal values of two types as one.
            jitted = jax.jit(lambda x, mode: x * 2, static_argnums=1)
            for _ in range(3):
                jitted(1.0, make())

    verdicts = _of(judge_all(program))
    assert len(verdicts) == 3 * len(STATICS)
    for name, number in zip(STATICS, range(0, len(verdicts), 3), strict=True):
        for one in verdicts[number + 1 : number + 3]:
            assert one.cause is Cause.STATIC_ARGUMENT_CHANGED, name
            assert detail(_told(one)).startswith("another class `State`, defined again"), name
            assert one.avoidable == "yes", name
            assert one.fix is not None
            assert one.fix.code == "define-once", name


def test_another_member_of_a_class_that_was_defined_again(judge_all: JudgeAll) -> None:
    def mode(name: str) -> Any:
        return enum.Enum("Mode", ["A", "B"])[name]

    def program() -> None:
        jitted = jax.jit(lambda x, mode: x * 2, static_argnames="mode")
        for name in "AB":
            jitted(1.0, mode=mode(name))

    second = _of(judge_all(program))[1]
    assert detail(_told(second)).startswith("Mode.A -> Mode.B, of another class `Mode`")
    assert second.fix is not None
    assert second.fix.code != "define-once"


def test_metadata_of_a_class_that_was_defined_again(judge_all: JudgeAll) -> None:
    def node(mode: Any) -> Any:
        return flax_node(1.0, mode)

    @flax.struct.dataclass
    class flax_node:
        a: float
        mode: Any = flax.struct.field(pytree_node=False)

    def program() -> None:
        jitted = jax.jit(lambda state: state.a * 2)
        for _ in range(2):
            jitted(node(_enum()))

    second = _of(judge_all(program))[1]
    told = _told(second)
    assert (second.cause, told.path) == (Cause.TREE_STRUCTURE_CHANGED, "state.mode")
    assert "another class `State`, defined again" in detail(told)
    assert second.fix is not None
    assert second.fix.code == "define-once"


def test_wrappers_that_pack_their_arguments(judge_all: JudgeAll) -> None:
    def model() -> Any:
        class Model(nnx.Module):
            def __init__(self) -> None:
                self.w = nnx.Param(jax.numpy.ones(3))

        return Model()

    def program() -> None:
        for jit, make in ((nnx.jit, model), (eqx.filter_jit, _equinox)):
            jitted = jit(lambda state: jax.tree.leaves(state)[0] * 2)
            for _ in range(2):
                jitted(make())

    _, second, _, fourth = _of(judge_all(program))
    for one, name in ((second, "Model"), (fourth, "State")):
        assert one.cause is Cause.TREE_STRUCTURE_CHANGED
        assert _told(one).path == "state"
        assert detail(_told(one)).startswith(f"another class `{name}`, defined again")


def test_a_module_that_is_loaded_again(
    tmp_path: Path, judge_all: JudgeAll, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from typing import NamedTuple\nclass State(NamedTuple):\n    a: float\n"
    file = tmp_path / "reloaded_state.py"
    file.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def program() -> None:
        jitted = jax.jit(lambda state: state.a * 2)
        module = importlib.import_module("reloaded_state")
        jitted(module.State(1.0))
        file.write_text(f"\n\n{source}")
        importlib.reload(module)
        jitted(module.State(1.0))

    try:
        second = _of(judge_all(program))[1]
    finally:
        del sys.modules["reloaded_state"]
    assert detail(_told(second)).endswith("defined again at reloaded_state.py:4")


def test_classes_of_one_name_in_two_places(judge_all: JudgeAll) -> None:
    def program() -> None:
        jitted = jax.jit(lambda state: state.a * 2)
        jitted(_flax())
        jitted(_equinox())

    second = _of(judge_all(program))[1]
    assert detail(_told(second)).endswith("_flax.<locals>.State -> "
                                         f"{__name__}._equinox.<locals>.State")  # fmt: skip
    assert second.fix is not None
    assert second.fix.code != "define-once"


def test_the_same_class_is_no_change(record: Record) -> None:
    state, member = _named_tuple(), _enum()
    for make in (_named_tuple, _enum):
        make()

    def program() -> None:
        jitted = jax.jit(lambda state, mode: state.a * 2, static_argnums=1)
        for _ in range(2):
            jitted(state, member)
            jitted(type(state)(2.0), type(member).A)

    assert len(record(program)) == 1


def test_no_class_is_kept_alive() -> None:
    classes = Classes()

    def define() -> weakref.ref[type]:
        class State:
            pass

        known = classes.of(State)
        assert known is not None
        return weakref.ref(State)

    first, second = define(), define()
    gc.collect()
    assert first() is None
    assert second() is None
    assert len(vars(classes)["_known"]) == 0


def test_a_class_may_lie_about_itself() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError("nobody may ask for this")

        def __eq__(cls, other: object) -> bool:
            raise RuntimeError("nobody may compare it")

        def __hash__(cls) -> int:
            raise RuntimeError("nobody may look it up")

    for _ in range(2):
        made = Meta("State", (), {"__module__": 3, "__firstlineno__": "x"})
        assert Classes().of(made) is not None
    classes = Classes()
    one, other = (Meta("State", (), {"__module__": "nowhere"}) for _ in range(2))
    assert [known and known.number for known in map(classes.of, (one, other, one))] == [1, 2, 1]

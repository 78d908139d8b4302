"""Whatever JAX lets into an argument, a parameter or a tree goes in, and is read back."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false, reportMissingParameterType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import export
from jax.extend import core
from jax.interpreters import mlir
from jax.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
)

from retrace.capture.session import begin_file, session
from retrace.causes import Cause
from retrace.compare.keys import changes
from retrace.compare.replay import apply
from retrace.model import Miss, Recording, Verdict
from retrace.present.report_json import report
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.store.reader import read
from tests.recording.conftest import JudgeAll


class Color(enum.Enum):
    RED = 1
    TAB = "a\tb"


class Flag(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass(frozen=True)
class Config:
    inner: object = 1


class Slots:
    __slots__ = ("never_filled",)


class Evil:
    def __repr__(self) -> str:
        raise RuntimeError("nobody may ask for this")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return 1


def zoo() -> dict[str, Any]:
    """What a parameter of an equation, a static argument or a tree's metadata may be."""
    (n,) = export.symbolic_shape("n")
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    free = PartitionSpec(PartitionSpec.UNCONSTRAINED)
    return {
        "huge int": 1 << 40_000,
        "negative": -(1 << 40_000),
        "nan": math.nan,
        "infinity": -math.inf,
        "complex": complex("nan"),
        "ellipsis": ...,
        "bytes": b"\x00\xff",
        "many bytes": b"x" * 100_000,
        "surrogates": "\ud800\udfff",
        "marks": "a\tb\nc\x1b[31m\u2028",
        "long": "\U0001f600" * 1000,
        "np.int64": np.int64(3),
        "np.float32": np.float32("nan"),
        "np.bool": np.bool_(True),
        "bfloat16": ml_dtypes.bfloat16(1.5),
        "float8": ml_dtypes.float8_e4m3fn(1),
        "int4": ml_dtypes.int4(3),
        "void": np.void(b"ab"),
        "date": np.datetime64("2020-01-01"),
        "np.str": np.str_("x\ty"),
        "array": np.arange(3),
        "objects": np.array([Evil(), None], object),
        "dtype": np.dtype("f4"),
        "dtype of ml_dtypes": jnp.dtype("bfloat16"),
        "scalar type": jnp.bfloat16,
        "float0": jax.dtypes.float0,
        "key type": jax.random.key(0).dtype,
        "record": np.dtype([("a", "i4")]),
        "enum": Color.RED,
        "enum with a tab": Color.TAB,
        "flag": Flag.A | Flag.B,
        "dataclass": Config(Config(Color.TAB)),
        "object": SimpleNamespace(),
        "slots": Slots(),
        "evil": Evil(),
        "ufunc": np.sin,
        "lambda": lambda x: x,
        "partial": functools.partial(len, []),
        "class": Config,
        "module": sys,
        "bound": "x".join,
        "symbolic": n,
        "symbolic sum": 2 * n + 1,
        "spec": PartitionSpec("d", None),
        "free": free,
        "mesh": mesh,
        "abstract mesh": AbstractMesh((1,), ("d",)),
        "sharding": NamedSharding(mesh, PartitionSpec("d")),
        "free sharding": NamedSharding(mesh, free),
        "single": SingleDeviceSharding(jax.devices()[0]),
        "device": jax.devices()[0],
        "struct": jax.ShapeDtypeStruct((n,), np.float32),
        "nested": (1, (2, frozenset({"a", 1}), range(3))),
        "unhashable": {1: [2], "a": None, (1,): Color.RED},
        "slice": slice(1, 2),
        "structure": jax.tree.structure({"a": 1}),
        "exception": ValueError("x\ty"),
        "deep": functools.reduce(lambda inner, _: (inner,), range(200), ()),
    }


def arguments() -> dict[str, Any]:
    """What an array argument may be, or look like."""
    n, m = export.symbolic_shape("n, m")
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    sharding = NamedSharding(mesh, PartitionSpec("d"))
    found = {
        "key": jax.random.key(0),
        "keys": jax.random.split(jax.random.key(0, impl="rbg"), 3),
        "bfloat16": jnp.ones(3, jnp.bfloat16),
        "float8": jnp.ones(3, jnp.float8_e4m3fn),
        "int4": jnp.ones(3, jnp.int4),
        "float0": np.zeros((3,), jax.dtypes.float0),
        "numpy float8": np.ones(3, ml_dtypes.float8_e5m2),
        "complex": 1j,
        "nan": math.nan,
        "uint64": np.uint64(2**64 - 1),
        "too large": 1 << 100,
        "empty": jnp.ones((0, 3)),
        "sharded": jax.device_put(jnp.ones(3), sharding),
        "struct": jax.ShapeDtypeStruct((np.int64(3),), np.float32),
        "sharded struct": jax.ShapeDtypeStruct((3,), np.float32, sharding=sharding),
        "symbolic": jax.ShapeDtypeStruct((n, 2 * m + 1), np.float32),
        "max": jax.ShapeDtypeStruct(export.symbolic_shape("max(q, 4), mod(q, 3)"), np.float32),
        "weak": jax.ShapeDtypeStruct((), np.float32, weak_type=True),
        "struct of keys": jax.ShapeDtypeStruct((2,), jax.random.key(0).dtype),
        "view": np.ones((4, 4))[::2, ::2],
        "big endian": np.ones(3, ">f4"),
        "text": "no array",
        "objects": np.array([None], object),
        "masked": np.ma.array([1.0, 2.0]),
    }
    with suppress(ValueError):  # where this backend has such memory
        pinned = SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
        found["pinned"] = jax.device_put(jnp.ones(3), pinned)
    if hasattr(jax, "new_ref"):
        found["ref"] = jax.new_ref(jnp.ones(3))
    return found


_kept: list[Any] = []


def _jit(function: Callable[..., Any], **options: Any) -> Any:
    """A jitted function that stays: the programs of one that dies may be dropped unwritten."""
    _kept.append(jax.jit(function, **options))
    return _kept[-1]


def _bound_with(value: object) -> None:
    primitive = core.Primitive("zoo")
    primitive.def_abstract_eval(lambda x, **_: x)
    mlir.register_lowering(primitive, lambda _, x, **__: [x])
    _jit(lambda x: primitive.bind(x, it=value, them=(value, (value,)))).lower(1.0)


def _held_by(value: object) -> None:
    class Node: ...

    jax.tree_util.register_pytree_node(Node, lambda _: ((1.0,), value), lambda *_: Node())
    _jit(lambda _: 1.0).lower(Node())


def _ways(value: object) -> Iterator[Callable[[], object]]:
    yield lambda: _bound_with(value)
    yield lambda: _jit(lambda x, s: x, static_argnums=1).lower(1.0, value)
    yield lambda: _jit(lambda x, s: x, static_argnames="s").lower(1.0, s=value)
    yield lambda: _held_by(value)
    yield lambda: _jit(lambda x: (value, x)[1]).lower(1.0)


def _everything() -> None:
    for value in zoo().values():
        for way in _ways(value):
            # JAX may refuse it; then there is less to record.
            with suppress(Exception):
                way()
    for value in arguments().values():
        with suppress(Exception):
            _jit(lambda x: x).lower(value)
        with suppress(Exception):
            _jit(lambda x: x)(value)
    (n,) = export.symbolic_shape("n")
    exported = export.export(_jit(lambda x: jnp.sin(x).sum(0)))(
        jax.ShapeDtypeStruct((n, 3), np.float32)
    )
    _jit(lambda x: exported.call(x))(jnp.ones((4, 3)))


@pytest.mark.drawn
def test_nothing_is_lost_or_printed_and_all_is_read_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    writer = begin_file(tmp_path)
    try:
        _everything()
    finally:
        session().detach(writer)
        _kept.clear()
    assert capfd.readouterr() == ("", "")
    recording = read([tmp_path])
    assert recording.runs[0].losses == {}
    named = [miss for miss in recording.misses if miss.function.kind != "op"]
    assert len(named) > 5 * len(zoo()) - 30 + len(arguments())
    lowered = [miss for miss in named if miss.raised is None and "lower" in miss.stages]
    assert [miss for miss in lowered if miss.program is None] == []
    for miss in lowered:
        assert miss.program is not None
        assert recording.listings[miss.program.listing or ""].equations is not None
    verdicts = judge(recording)
    assert [one.miss.id for one in verdicts if one.cause is Cause.UNKNOWN] == []
    report(View(recording, verdicts), keys=True)
    _replayed(verdicts)


def _replayed(verdicts: list[Verdict]) -> None:
    for one in verdicts:
        if one.nearest is not None and one.follows is None:
            found = changes(one.nearest, one.miss)
            made = apply(found, one.nearest)
            left = [change for change in changes(made, one.miss) if change.path is not None]
            assert left == [], one.miss.key


def test_the_payload_of_an_exported_function_is_told_by_its_hash(judge_all: JudgeAll) -> None:
    exported = export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct((3,), np.float32))

    recording, _ = judge_all(lambda: jax.jit(lambda x: exported.call(x))(np.ones(3, np.float32)))
    texts = [text for one in recording.listings.values() for text in one.equations]
    assert any("exported" in text for text in texts)
    assert max(map(len, texts)) < 4000


def exported_thrice() -> Callable[[], object]:
    @jax.jit
    def rows(x: jax.Array) -> jax.Array:
        return jnp.concatenate([x, x]).sum(1) * 2.0

    def program() -> None:
        for size, scope in (("a", "a"), ("a", "a"), ("b", "b")):
            (n,) = export.symbolic_shape(size)
            assert str(n) == scope
            export.export(rows)(jax.ShapeDtypeStruct((n, 4), np.float32))
        rows(np.ones((3, 4), np.float32))

    return program


def _misses(found: tuple[Recording, list[Verdict]], name: str) -> list[Verdict]:
    return [one for one in found[1] if one.miss.function.name == name]


def _shape(miss: Miss) -> tuple[object, ...]:
    return miss.key.leaves[0].shape


def test_symbolic_sizes_are_told_by_their_text(judge_all: JudgeAll) -> None:
    first, again, other, called = _misses(judge_all(exported_thrice()), "rows")
    assert first.cause is Cause.FIRST_TRACE
    assert _shape(first.miss) == ("a", 4)
    assert [one.cause for one in (again, other, called)] == [Cause.SHAPE_CHANGED] * 3
    assert _shape(called.miss) == (3, 4)
    # An `a` of another scope is another size to JAX, and the program is the same.
    assert _shape(again.miss) == ("a@2", 4)
    assert again.program_change == "identical"
    assert again.avoidable == "yes"
    assert again.fix is not None
    assert again.fix.code == "one-scope"
    assert other.program_change == "shapes-only"
    assert called.fix is None


def test_symbolic_sizes_of_one_scope_are_one_size(judge_all: JudgeAll) -> None:
    def program() -> None:
        rows = jax.jit(lambda x: jnp.sin(x))
        (n,) = export.symbolic_shape("n")
        for _ in range(2):
            rows.trace(jax.ShapeDtypeStruct((n,), np.float32))

    recording, _ = judge_all(program)
    assert len(recording.misses) == 1

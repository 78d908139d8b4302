"""What stands between the user's function and `jit`: functions and paths are the user's."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import numpy as np
import optax  # pyright: ignore[reportMissingTypeStubs]
import pytest
from flax import nnx

from retrace.capture.definition import Definitions
from retrace.capture.tokens import Tokens
from retrace.model import Recording
from retrace.reason.verdict import judge
from tests.recording.conftest import Record

X = np.ones((2, 3), np.float32)


def static_fields(miss: Any) -> dict[str, str]:
    return {f"{node.path}.{name}": v.text for node in miss.key.tree for name, v in node.meta}


def test_a_module_of_nnx_is_told_by_its_fields(record: Record) -> None:
    @nnx.jit
    def train(model: Any, optimizer: Any, x: Any) -> Any:
        return model(x)

    def program() -> None:
        model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
        train(model, optimizer, X)

    miss = record(program)[-1]
    assert (miss.function.name, miss.function.in_library) == ("train", False)
    assert {leaf.path for leaf in miss.key.leaves} >= {
        "model.kernel",
        "model.bias",
        "optimizer.step",
        "x",
    }
    fields = static_fields(miss)
    assert any(path.startswith("optimizer.tx") for path in fields)
    assert fields["model.use_bias"] == "True"


def test_the_same_module_twice_has_one_key(record: Record) -> None:
    forward = nnx.jit(lambda model: model.kernel.sum())
    models = [nnx.Linear(3, 2, rngs=nnx.Rngs(n)) for n in (0, 1)]
    jitted = record(lambda: forward(models[0]))[-1]
    jax.clear_caches()
    again = record(lambda: forward(models[1]))[-1]
    assert [node.path for node in jitted.key.tree] == [node.path for node in again.key.tree]


def test_a_jitted_module_of_linen(record: Record) -> None:
    class Block(nn.Module):
        @nn.jit
        @nn.compact
        def __call__(self, inputs: Any) -> Any:
            return nn.Dense(2)(inputs)

    block = Block()
    found = record(lambda: block.init(jax.random.PRNGKey(0), X))
    miss = next(miss for miss in found if miss.function.qualname.endswith("Block.__call__"))
    assert [name for name, _ in miss.key.static] == ["self"]
    assert "inputs" in {leaf.path for leaf in miss.key.leaves}


def test_a_jitted_class_of_linen(record: Record) -> None:
    class Layer(nn.Module):
        width: int

        @nn.compact
        def __call__(self, inputs: Any, scale: float = 1.0) -> Any:
            return nn.Dense(self.width)(inputs) * scale

    made: Any = nn.jit(Layer)
    misses = [
        next(miss for miss in found if miss.function.name == "__call__")
        for found in (
            record(lambda: made(width).init(jax.random.PRNGKey(0), X)) for width in (2, 3)
        )
    ]
    for miss, width in zip(misses, (2, 3), strict=True):
        ((name, module),) = miss.key.static
        assert name == "self"
        assert module.text.startswith(f"JitLayer(width={width}), mutable ")
        assert "inputs" in {leaf.path for leaf in miss.key.leaves}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An installed package with a pair of functions over the user's."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "twins.py").write_text(
        "import functools\n"
        "def transform(fn):\n"
        "    def init(x):\n"
        "        return fn(x)\n"
        "    def apply(x):\n"
        "        return fn(x)\n"
        "    return init, apply\n"
        "def shorten(pair):\n"
        "    def apply(x):\n"
        "        return pair[1](x)\n"
        "    return apply\n"
        "def call(fn, x):\n"
        "    return fn(x)\n"
        "def bind(fn):\n"
        "    return functools.partial(call, fn)\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module("twins")


def test_the_users_function_behind_a_librarys(record: Record, library: ModuleType) -> None:
    def policy(x: Any) -> Any:
        return x * 2

    def program() -> None:
        jax.jit(library.shorten(library.transform(policy)))(X)
        jax.jit(library.bind(policy))(X)

    found = record(program)
    assert [miss.function.name for miss in found] == ["policy", "policy"]
    assert not any(miss.function.in_library for miss in found)
    del sys.modules["twins"]


def test_two_algorithms_of_a_library_over_one_function_are_two_functions(
    record: Record, library: ModuleType
) -> None:
    def policy(x: Any) -> Any:
        return x * 2

    def program() -> None:
        init, apply = library.transform(policy)
        jax.jit(init)(X)
        jax.jit(apply)(X)
        jax.jit(library.transform(policy)[1])(X)

    sites = [miss.function.site for miss in record(program)]
    assert sites[0] != sites[1] == sites[2]
    del sys.modules["twins"]


def test_an_edit_that_moves_a_function_leaves_it_its_site(tmp_path: Path) -> None:
    file = tmp_path / "layers.py"
    definitions = Definitions()

    def sites(source: str) -> list[str]:
        file.write_text(source)
        module = compile(source, str(file), "exec")
        codes = [code for code in module.co_consts if isinstance(code, CodeType)]
        return [definitions.of(code).site for code in codes]

    moved = sites("def f():\n    return 1\n") + sites("import os\n\ndef f():\n    return 2\n")
    assert len(set(moved)) == 1
    # Two of one name in one version of a file are two functions.
    assert len(set(sites("def g(): ...\n\n\ndef g(): ...\n"))) == 2


def test_before_jax_0_9_a_keyword_is_compared_without_its_type() -> None:
    tokens = Tokens()
    assert tokens.keyword(2) == tokens.static(2)
    assert tokens.keyword(2.0) == tokens.keyword(2)
    assert tokens.keyword(3) != tokens.keyword(2)


def test_static_fields_beside_something_else(record: Record) -> None:
    class Model(eqx.Module):
        w: Any
        power: int = eqx.field(static=True)

    jitted = jax.jit(lambda model: model.w**model.power)
    miss = record(lambda: jitted(Model(X, 3)))[-1]
    assert static_fields(miss)["model.power"] == "3"


def test_metadata_that_no_field_holds_is_kept(record: Record) -> None:
    @jax.tree_util.register_pytree_node_class
    class Grid:
        def __init__(self, values: Any, name: str) -> None:
            self.values, self.name = values, name

        def tree_flatten(self) -> Any:
            return (self.values,), (self.name, self.name.upper())

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            return cls(children[0], aux[0])

    jitted = jax.jit(lambda model: model.values)
    fields = static_fields(record(lambda: jitted(Grid(X, "u")))[-1])
    assert fields == {"model.name": "'u'", "model.": "('U',)"}


class Weights(NamedTuple):
    name: str
    w: Any
    b: Any


class Units(tuple[Any, ...]):  # noqa: SLOT001 - its instances may hold more
    unit = "m"


jax.tree_util.register_pytree_node(
    Weights, lambda it: ((it.b, it.w), it.name), lambda name, parts: Weights(name, *parts[::-1])
)
jax.tree_util.register_pytree_node(Units, lambda it: (tuple(it), it.unit), lambda _, x: Units(x))


def test_a_tuple_that_is_registered_is_told_as_it_was_registered(record: Record) -> None:
    first = jax.jit(lambda model: model[1] + model[2])
    miss = record(lambda: first(Weights("a", X, np.ones((2, 1)))))[-1]
    assert [leaf.path for leaf in miss.key.leaves] == ["model.b", "model.w"]
    assert [leaf.shape for leaf in miss.key.leaves] == [(2, 1), X.shape]
    assert static_fields(miss) == {"model.name": "'a'"}
    second = jax.jit(lambda lengths: lengths[0])
    assert static_fields(record(lambda: second(Units([X])))[-1]) == {"lengths.": "'m'"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_mapped_function_has_the_users_paths_and_static_arguments(record: Record) -> None:
    train = jax.pmap(lambda batch, power: batch["x"] ** power, static_broadcasted_argnums=1)
    wide, narrow = {"x": X[:1]}, {"x": X[:1, :2]}
    masked = {**narrow, "mask": X[:1, 0]}

    def program() -> None:
        for batch, power in ((wide, 2), (narrow, 2), (narrow, 3), (masked, 3), (wide, 2)):
            train(batch, power)
        for _ in range(2):
            jax.pmap(lambda x: x + 1)(X[:1])

    found = judge(Recording([], record(program)))
    told = [(v.cause.value, [c.path for c in v.changes if c.path]) for v in found]
    assert told == [
        ("first-trace", []),
        ("shape-changed", ["batch['x']"]),
        ("static-argument-changed", ["power"]),
        ("tree-structure-changed", ["batch"]),
        ("first-trace", []),
        ("lambda-recreated", []),
    ]

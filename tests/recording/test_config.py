"""JAX's configuration of a moment in, its named values out."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, cast

import jax
import numpy as np
import pytest
from jax._src import config as jax_config
from jax.experimental.xla_metadata import set_xla_metadata

from retrace.jax_internals.config import context
from retrace.model import Value

private: Any = jax_config


def take() -> dict[str, Value]:
    losses: list[str] = []
    found = dict(context(losses.append))
    assert losses == []
    return found


def mesh() -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))


def enter_mesh() -> AbstractContextManager[Any]:
    setter: Any = getattr(jax, "set_mesh", None) or getattr(jax.sharding, "use_mesh")  # noqa: B009
    return setter(mesh())


@contextlib.contextmanager
def x64() -> Generator[None, None, None]:
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize(
    ("enter", "name", "text"),
    [
        (x64, "jax_enable_x64", "True"),
        (lambda: jax.default_matmul_precision("high"), "jax_default_matmul_precision", "'high'"),
        (lambda: jax.numpy_dtype_promotion("strict"), "jax_numpy_dtype_promotion", "'strict'"),
        (lambda: jax.default_device(jax.devices("cpu")[0]), "jax_default_device", "cpu:0"),
        (lambda: jax.default_device("cpu"), "jax_default_device", "'cpu'"),
        (mesh, "mesh", "with mesh{data:1}"),
        (enter_mesh, "mesh", "set mesh{data:1}"),
        (lambda: set_xla_metadata(a="b"), "xla_metadata", "[('a', 'b')]"),
        (lambda: jax.disable_jit(), "jax_disable_jit", "True"),
    ],
    ids=["x64", "precision", "promotion", "device", "platform", "mesh", "set_mesh", "xla", "jit"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_one_value_changes_under_its_public_name(
    enter: Callable[[], AbstractContextManager[Any]], name: str, text: str
) -> None:
    before = take()
    with enter():
        inside = take()
    assert {key for key in inside if inside[key] != before.get(key)} == {name}
    assert inside[name].text == text
    assert inside[name].token != before[name].token
    assert take() == before


def test_every_value_of_the_trace_context_has_a_name() -> None:
    # The mesh is up to three of its values.
    assert len(take()) >= len(private.trace_context()) - 2
    assert not any(value.token is None for value in take().values())


def test_what_is_not_in_a_key_is_left_out() -> None:
    assert "jax_debug_nans" not in take()
    assert "jax_log_compiles" not in take()


def test_the_axes_of_a_vmap() -> None:
    seen: list[str] = []

    def program(x: Any) -> Any:
        seen.append(take()["axis_env"].text)
        return x

    jax.vmap(program, axis_name="batch")(np.ones(3))
    assert "batch" in seen[0]
    assert "3" in seen[0]


def test_each_thread_has_its_own() -> None:
    seen: list[str] = []
    thread = threading.Thread(
        target=lambda: seen.append(take()["jax_default_matmul_precision"].text)
    )
    with jax.default_matmul_precision("high"):
        thread.start()
        thread.join()
        assert take()["jax_default_matmul_precision"].text == "'high'"
    assert seen == ["None"]


def test_nothing_is_kept_alive() -> None:
    def enter() -> weakref.ref[object]:
        config_value: object = type("Key", (), {})()
        holder: Any = private.mesh_context_manager
        before = holder.swap_local((config_value,))
        try:
            context(lambda _: None)
        finally:
            holder.set_local(before)
        return weakref.ref(config_value)

    reference = enter()
    gc.collect()
    assert reference() is None


@pytest.mark.skipif(not hasattr(jax, "make_user_context"), reason="since jax 0.7")
def test_user_contexts() -> None:
    user = cast(Any, jax).make_user_context(None)
    name = max(name for name, _ in context(lambda _: None) if name.startswith("user_context"))
    with user((1, 2)):
        assert dict(context(lambda _: None))[name].text == "1, 2"
    losses: list[str] = []
    with user(object()):
        assert dict(context(losses.append))[name].token is None
        assert losses == [f"the value of {name} cannot be compared"]
        described = Value("object", "mine", "#1", False, {"a": 1})
        assert dict(context(losses.append, lambda _: described))[name] == described
    assert len(losses) == 1

"""An argument of a jitted function in, its leaf of the key out."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from retrace.jax_internals.shardings import describe, leaf
from retrace.model import Leaf


def plain(dtype: str, shape: tuple[int, ...] = (), *, weak: bool = False) -> Leaf:
    return Leaf("x", shape, dtype, weak, None, False, None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, plain("int32", weak=True)),
        (True, plain("bool")),
        (1.0, plain("float32", weak=True)),
        (1j, plain("complex64", weak=True)),
        (np.int64(1), plain("int32")),
        (np.float64(1), plain("float32")),
        (np.ones((2, 3)), plain("float32", (2, 3))),
        (np.ones(2, np.int8), plain("int8", (2,))),
        (jax.ShapeDtypeStruct((2,), jnp.bfloat16), plain("bfloat16", (2,))),
        (2**40, plain("int")),
        ("text", plain("str")),
    ],
    ids=str,
)
def test_what_is_no_array_of_jax(value: object, expected: Leaf) -> None:
    assert leaf(value, "x") == expected


def _first() -> str:
    return f"SingleDevice({jax.default_backend()}:0)"


def test_arrays_of_jax() -> None:
    assert leaf(jnp.ones((2, 3)), "x") == plain("float32", (2, 3))
    assert leaf(jnp.asarray(1.0), "x") == plain("float32", weak=True)
    assert leaf(jax.random.key(0), "x") == plain("key<fry>")
    assert leaf(jax.random.key_data(jax.random.key(0)), "x") == plain("uint32", (2,))


def test_a_committed_array_has_a_place() -> None:
    found = leaf(jax.device_put(jnp.ones(2), jax.devices()[0]), "x")
    assert (found.sharding, found.committed) == (_first(), True)
    assert found.memory_kind == jax.devices()[0].default_memory().kind


def test_under_x64() -> None:
    before = jax.config.values["jax_enable_x64"]
    jax.config.update("jax_enable_x64", True)
    try:
        assert leaf(1.0, "x") == plain("float64", weak=True)
        assert leaf(np.ones(2), "x") == plain("float64", (2,))
    finally:
        jax.config.update("jax_enable_x64", before)


def test_tracers_have_no_place() -> None:
    seen: list[Leaf] = []

    @jax.jit
    def program(x: Any) -> Any:
        seen.append(leaf(x, "x"))
        return x

    program(jax.device_put(jnp.ones(2), jax.devices()[0]))
    program(1)
    assert seen == [plain("float32", (2,)), plain("int32", weak=True)]


def test_a_deleted_array_is_still_described() -> None:
    array = jax.device_put(jnp.ones((2, 3)), jax.devices()[0])
    array.delete()
    assert leaf(array, "x").shape == (2, 3)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(-5, 5)
    | st.floats(width=32)
    | st.booleans()
    | arrays.arrays(
        arrays.integer_dtypes(endianness="<")
        | arrays.floating_dtypes(endianness="<", sizes=(16, 32, 64)),
        (2, 1),
    )
)
def test_types_are_those_that_jit_gives(value: Any) -> None:
    seen: list[Any] = []
    jax.jit(lambda x: seen.append(x.aval)).trace(value)
    found = leaf(value, "x")
    expected = (seen[0].shape, str(seen[0].dtype), seen[0].weak_type)
    assert (found.shape, found.dtype, found.weak_type) == expected


def test_a_layout_of_the_users() -> None:
    module: Any = importlib.import_module("jax.experimental.layout")
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    if hasattr(module, "Format"):
        kind = getattr(module, "DeviceLocalLayout", None) or module.Layout
        by_columns: Any = module.Format(kind((1, 0)), place)
    else:
        by_columns = module.Layout(module.DeviceLocalLayout((1, 0)), place)
    array = jnp.ones((2, 3))
    assert leaf(jax.device_put(array, by_columns), "x").layout == "(1, 0)"
    assert leaf(jax.device_put(array, place), "x").layout is None


_DEVICES = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from retrace.jax_internals.shardings import describe, leaf

x = jnp.ones((8, 4))
devices = np.array(jax.devices())
mesh = Mesh(devices.reshape(4, 2), ("data", "model"))
backwards = Mesh(devices[::-1].reshape(4, 2), ("data", "model"))
explicit = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
shardings = {
    "one": jax.sharding.SingleDeviceSharding(devices[3]),
    "named": NamedSharding(mesh, P("data", None)),
    "other spec": NamedSharding(mesh, P(None, "data")),
    "both": NamedSharding(mesh, P(("data", "model"))),
    "backwards": NamedSharding(backwards, P("data", None)),
    "explicit": NamedSharding(explicit, P("data", None)),
    "renamed": NamedSharding(Mesh(mesh.devices, ("a", "b")), P("a", None)),
}
leaves = {name: leaf(jax.device_put(x, s), "x") for name, s in shardings.items()}
assert [l.sharding for l in leaves.values()] == [describe(s) for s in shardings.values()]
struct = jax.ShapeDtypeStruct((8, 4), "f4", sharding=shardings["named"])
assert leaf(struct, "x") == leaf(jax.device_put(x, shardings["named"]), "x")
traced = []
placed = jax.device_put(x, shardings["explicit"])
jax.jit(lambda y: traced.append(leaf(y, "y").sharding)).trace(placed)
texts = {name: l.sharding for name, l in leaves.items()}
print(json.dumps({**texts, "traced": traced[0]}))
"""


def test_several_devices() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _DEVICES],
        env={
            "PYTHONPATH": ":".join(sys.path),
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        },
        check=True,
        capture_output=True,
        text=True,
    )
    devices = ", ".join(f"cpu:{number}" for number in reversed(range(8)))
    assert json.loads(done.stdout) == {
        "one": "SingleDevice(cpu:3)",
        "named": "NamedSharding(mesh{data:4,model:2}, P('data', None))",
        "other spec": "NamedSharding(mesh{data:4,model:2}, P(None, 'data'))",
        "both": "NamedSharding(mesh{data:4,model:2}, P(('data', 'model')))",
        "backwards": f"NamedSharding(mesh{{data:4,model:2}} on [{devices}], P('data', None))",
        "explicit": "NamedSharding(mesh{data:4:explicit,model:2:explicit}, P('data', None))",
        "renamed": "NamedSharding(mesh{a:4,b:2}, P('a', None))",
        "traced": "NamedSharding(abstract mesh{data:4:explicit,model:2:explicit},"
        " P('data', None))",
    }


def test_memory_that_is_not_the_usual() -> None:
    device = jax.devices()[0]
    kinds = [memory.kind for memory in device.addressable_memories()]
    texts = {describe(jax.sharding.SingleDeviceSharding(device, memory_kind=k)) for k in kinds}
    assert _first() in texts
    assert len(texts) == len(kinds)

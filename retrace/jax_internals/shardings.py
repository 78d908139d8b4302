"""Arguments of jitted functions as leaves of a key, and shardings as canonical text."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any

import jax

from retrace.jax_internals import losses, names
from retrace.jax_internals.dims import dims
from retrace.jax_internals.dims import forget as forget_scopes
from retrace.jax_internals.listed import is_listed
from retrace.jax_internals.names_values import (
    ABSTRACT,
    ABSTRACTIFY,
    ASSIGNED,
    COMMITTED,
    EXPLICIT,
    LOGICAL,
    MANUAL,
    REFERRED,
    TRACER,
    WEAK_TYPE,
)
from retrace.model import Leaf

_MAX_KEPT = 64
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

# Shardings cannot be weakly referenced, so a few are kept alive with their meshes: devices
# and names, no arrays. `forget` drops them when recording stops.
_described: OrderedDict[Any, tuple[str, str | None]] = OrderedDict()
_dtype_names: dict[Any, str] = {}
_WEAK_TYPE, _COMMITTED = WEAK_TYPE.name, COMMITTED.name
ARRAYS: set[type] = set()
"""JAX's array classes seen so far, cached because `isinstance` is slow for each argument."""


def leaf(value: Any, path: str) -> Leaf:
    """A dynamic argument as in JAX's cache keys; array data are not read.

    Args:
        value: an argument of the jitted function, or a tracer.
        path: its position among the arguments.
    """
    if losses.ARGUMENTS in names.gone:
        return Leaf(path, (), type(value).__name__, False, None, False, None)
    kind = type(value)
    is_known = is_listed(kind, ARRAYS)
    if not is_known and isinstance(value, TRACER.get()):
        return _abstract(value.aval, path, traced=True)
    if is_known or isinstance(value, jax.Array):
        if not is_known and kind.__module__.partition(".")[0] in ("jax", "jaxlib"):
            ARRAYS.add(kind)
        aval: Any = value.aval
        dtype = aval.dtype
        name = _dtype_names.get(dtype) or dtype_name(dtype)
        shape = dims(aval.shape)
        weak: Any = getattr(aval, _WEAK_TYPE, None)
        if not getattr(value, _COMMITTED, False) or not names.shows(losses.PLACEMENT):
            return Leaf(path, shape, name, weak, None, False, None)
        text, memory = _describe(value.sharding)
        return Leaf(path, shape, name, weak, text, True, memory, _layout(value))
    if isinstance(value, jax.ShapeDtypeStruct):
        return _abstract(value, path, traced=False)
    try:
        aval: Any = ABSTRACTIFY.get()(value)
        return _abstract(aval, path, traced=False)
    except (TypeError, ValueError, OverflowError):
        # JAX rejects it too, but its type is still worth recording.
        return Leaf(path, (), type(value).__name__, False, None, False, None)


def describe(sharding: Any) -> str:
    """Canonical text of a sharding: texts are the same if and only if shardings are equal."""
    return _describe(sharding)[0]


def mesh_text(mesh: Any) -> str:
    """`mesh{data:4,model:2}`, and its devices if they are not in the usual order."""
    if not mesh.axis_names:  # outside any mesh, as most jitted functions are
        return "abstract mesh{}" if _is_abstract(mesh) else "mesh{}"
    types: Any = getattr(mesh, "axis_types", None) or ()
    axes: list[str] = []
    for number, (name, size) in enumerate(mesh.shape.items()):
        kind = str(types[number]).rpartition(".")[2] if number < len(types) else "Auto"
        axes.append(f"{name}:{size}" + ("" if kind == "Auto" else f":{kind.lower()}"))
    if _is_abstract(mesh):
        return f"abstract mesh{{{','.join(axes)}}}"
    return f"mesh{{{','.join(axes)}}}{_device_order(list(mesh.devices.flat))}"


def dtype_name(dtype: Any) -> str:
    """`float32`, `key<fry>`."""
    name = _dtype_names.get(dtype)
    if name is None:
        name = _dtype_names[dtype] = str(getattr(dtype, "name", dtype))
    return name


def forget() -> None:
    """Drop all cached shardings."""
    _described.clear()
    forget_scopes()


def _abstract(aval: Any, path: str, *, traced: bool) -> Leaf:
    dtype: Any = getattr(aval, "dtype", None)
    name = type(aval).__name__ if dtype is None else dtype_name(dtype)
    if (inner := REFERRED.of(aval)) is not None:
        name = f"Ref[{name}]"
        aval = inner
    shape = dims(getattr(aval, "shape", ()))
    weak = bool(WEAK_TYPE.of(aval, False))
    sharding: Any = getattr(aval, "sharding", None)
    if (
        not names.shows(losses.PLACEMENT)
        or sharding is None
        or (traced and not _explicit(sharding))
    ):
        return Leaf(path, shape, name, weak, None, False, None)
    if isinstance(aval, ABSTRACT.get()):
        # The sharding of a type: not a placement, unless its mesh has explicit axes.
        if not _explicit(sharding):
            return Leaf(path, shape, name, weak, None, False, None)
        return Leaf(path, shape, name, weak, describe(sharding), False, None)
    text, memory = _describe(sharding)
    return Leaf(path, shape, name, weak, text, True, memory)


def _explicit(sharding: Any) -> bool:
    mesh = getattr(sharding, "mesh", None)
    return mesh is not None and bool(EXPLICIT.of(mesh, False))


def _describe(sharding: Any) -> tuple[str, str | None]:
    found = _described.get(sharding)
    if found is None:
        memory = getattr(sharding, "memory_kind", None)
        found = _described[sharding] = (_text(sharding, memory), memory)
        while len(_described) > _MAX_KEPT:
            # Another thread may have removed entries, or stopped the recording.
            try:
                _described.popitem(last=False)
            except KeyError:
                break
    return found


def _text(sharding: Any, memory: str | None) -> str:
    kind = type(sharding).__name__
    mesh: Any = getattr(sharding, "mesh", None)
    if kind == "NamedSharding":
        spec = repr(sharding.spec).replace("PartitionSpec(", "P(", 1).replace(",)", ")")
        parts = [mesh_text(mesh), spec]
        manual: Any = MANUAL.of(sharding)
        if manual:
            parts.append(f"manual={sorted(map(str, manual))}")
        if (logical := LOGICAL.of(sharding)) is not None:
            parts.append(f"logical_device_ids={logical}")
        devices: list[Any] = [] if _is_abstract(mesh) else [mesh.devices.flat[0]]
    elif kind == "SingleDeviceSharding":
        devices = list(sharding.device_set)
        parts = [_device(devices[0])]
        kind = "SingleDevice"
    else:
        devices = list(ASSIGNED.of(sharding, ()))
        parts = [_ADDRESS.sub("", repr(sharding)), ",".join(map(_device, devices))]
    if memory is not None and (not devices or memory != _default_memory(devices[0])):
        parts.append(f"memory={memory}")
    return f"{kind}({', '.join(parts)})"


def _is_abstract(mesh: Any) -> bool:
    return isinstance(mesh, jax.sharding.AbstractMesh)


def _device(device: Any) -> str:
    return f"{device.platform}:{device.id}"


def _default_memory(device: Any) -> str | None:
    # jax 0.6 cannot query devices of other processes; one platform has one default.
    if device.process_index != jax.process_index():
        device = jax.local_devices(backend=device.platform)[0]
    return getattr(device.default_memory(), "kind", None)


def _device_order(devices: list[Any]) -> str:
    identifiers = [device.id for device in devices]
    platforms = {device.platform for device in devices}
    usual = identifiers == list(range(len(devices))) and platforms <= {jax.default_backend()}
    return "" if usual else f" on [{', '.join(map(_device, devices))}]"


def _layout(array: Any) -> str | None:
    """The layout of a committed array; None if row-major."""
    if array.ndim < 2:
        return None
    try:
        # `Array.layout` became `format`, and its `device_local_layout` became `layout`.
        layout: Any = array.format if hasattr(array, "format") else array.layout
        for name in ("device_local_layout", "layout"):
            layout = getattr(layout, name, layout)
    except (RuntimeError, ValueError):
        return None  # donated or deleted meanwhile
    order: tuple[int, ...] | None = getattr(layout, "major_to_minor", None)
    return None if order is None or order == tuple(range(array.ndim)) else str(order)

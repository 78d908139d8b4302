"""Compile a single StableHLO module and measure how long XLA takes.

The text of this module is also the second half of each reproducer, so it imports nothing from
retrace and checks for features directly instead of using the tables of JAX names.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

_OMITTED = re.compile(r"dense_resource<__elided__> : (tensor<((?:\d+x)*)((?:[^<>]|<[^<>]*>)*)>)")
_PERIOD = 1021
"""A placeholder repeats after this many elements."""
_NUMERIC_TYPE = re.compile(r"(?:(complex)<f(32|64)>|(ui|i|f|bf)(\d+)(\w*))$")


class Compiled(NamedTuple):
    """A compiled module and how long it took."""

    seconds: float
    processor: float
    """CPU seconds, summed over all threads."""
    executable: Any = None


def filled(text: str) -> tuple[str, int]:
    """Fill in a placeholder for each omitted constant; also returns the number of placeholders.

    A placeholder has the shape and dtype of the constant. No element is zero and few are equal:
    otherwise XLA could simplify operations that it cannot simplify for the real constant.
    """
    number = 0

    def stand_in(found: re.Match[str]) -> str:
        nonlocal number
        number += 1
        shape = [int(size) for size in found[2].split("x") if size]
        return f"dense<{_content(shape, found[3])}> : {found[1]}"

    return _OMITTED.sub(stand_in, text), number


def _content(shape: list[int], element: str) -> str:
    elements = int(np.prod(shape, dtype=np.int64))
    row = np.arange(min(elements, _PERIOD)) * 397 % _PERIOD
    kind = _NUMERIC_TYPE.match(element)
    if kind is None:
        raise ValueError(f"no stand-in is known for a constant of {element}")
    if kind[1] is None and kind[3] in ("i", "ui") and int(kind[4]) < 8:
        # MLIR packs these more tightly than NumPy.
        odd: Any = row % 2
        values = odd == 1 if kind[4] == "1" else odd + 1 if kind[3] == "ui" else 2 * odd - 1
        return _listed(np.resize(values, shape).tolist())
    if kind[1]:
        values = (row + 1) / _PERIOD * (1 + 0.5j)
        values = values.astype(f"complex{2 * int(kind[2])}")
    elif kind[3] in ("i", "ui"):
        values = (row % 7 + 1).astype(f"{'u' * (kind[3] == 'ui')}int{kind[4]}")
    else:
        values = ((row + 2) / _PERIOD).astype(_float(element))
    # MLIR uses this byte order on every machine.
    ordered = values.astype(values.dtype.newbyteorder("<")) if kind[3] != "bf" else values
    return f'"0x{np.resize(ordered, elements).tobytes().hex().upper()}"'


def _float(element: str) -> Any:
    if element in ("f16", "f32", "f64"):
        return np.dtype(f"float{element[1:]}")
    import ml_dtypes

    name = "bfloat16" if element == "bf16" else f"float{element[1:].lower()}"
    return np.dtype(getattr(ml_dtypes, name.replace("float8e", "float8_e")))


def _listed(values: Any) -> str:
    if isinstance(values, list):
        return f"[{', '.join(map(_listed, values))}]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return str(values).lower()


def require(platform: str) -> None:
    """Exit with one line if JAX cannot compile for a platform here."""
    try:
        _devices(platform)
    except RuntimeError:
        raise SystemExit(
            f"the program was compiled for {platform}, and JAX has only "
            f"{jax.default_backend()} here: run this where JAX has such a device"
        ) from None


def _devices(platform: str) -> list[Any]:
    return jax.devices(platform) if platform else jax.devices()


def compiled(
    text: str,
    partitions: int = 1,
    replicas: int = 1,
    options: Sequence[Sequence[str]] = (),
    platform: str = "",
) -> Compiled:
    """Compile a module whose constants are filled in, bypassing JAX's caches.

    Args:
        text: the StableHLO of the module.
        partitions: number of devices that share each copy of the program.
        replicas: number of copies.
        options: XLA options for this program.
        platform: `cpu`, `gpu` or `tpu`; JAX's default if empty.
    """
    from jaxlib import xla_client

    number = partitions * replicas
    devices = _devices(platform)
    if len(devices) < number:
        raise ValueError(f"the program needs {number} devices, and there are {len(devices)}")
    client: Any = devices[0].client
    wanted: Any = xla_client.CompileOptions()
    wanted.num_partitions, wanted.num_replicas = partitions, replicas
    wanted.env_option_overrides = [(name, value) for name, value in options]
    build = wanted.executable_build_options
    build.num_partitions, build.num_replicas = partitions, replicas
    if number > 1:
        ids = np.array([each.id for each in devices[:number]]).reshape(replicas, partitions)
        assigned = xla_client.DeviceAssignment.create(ids)
        wanted.device_assignment = build.device_assignment = assigned
        build.use_spmd_partitioning = partitions > 1
        build.use_shardy_partitioner = "sdy." in text
    load: Callable[..., Any]
    load, given = client.compile, (text, wanted)
    if hasattr(client, "compile_and_load"):
        load, given = client.compile_and_load, (text, devices[:number], wanted)
    began, spent = time.perf_counter(), time.process_time()
    made = load(*given)
    return Compiled(time.perf_counter() - began, time.process_time() - spent, made)


def warm(platform: str = "") -> None:
    """Compile something small, so that one-time startup work is not attributed to the module."""
    text = "func.func public @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    compiled(text, platform=platform)

"""The backend that the program uses, once it uses one: never the first to touch a device."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from retrace.jax_internals.names_values import BACKEND_RUNS


class Backend(NamedTuple):
    """Where compiled programs run."""

    platform: str
    process_index: int
    process_count: int
    local_devices: int
    device_kind: str | None
    platform_version: str | None
    """Of the runtime behind it: libtpu's, CUDA's."""


def running() -> Backend | None:
    """The backend that runs, or None before the program has started one."""
    runs = BACKEND_RUNS.get()
    if runs is None or not runs():
        return None
    devices: list[Any] = jax.local_devices()
    first = devices[0] if devices else None
    version = getattr(getattr(first, "client", None), "platform_version", None)
    return Backend(
        jax.default_backend(),
        jax.process_index(),
        jax.process_count(),
        len(devices),
        getattr(first, "device_kind", None),
        version if isinstance(version, str) else None,
    )

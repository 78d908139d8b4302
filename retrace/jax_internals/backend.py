"""The backend that the program uses; reading it never initializes one."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jaxlib.version

from retrace.jax_internals.names_values import BACKEND_RUNS


def jaxlib_version() -> str:
    """The version of jaxlib."""
    # Not `importlib.metadata`: it imports `csv` and more, names that a program's own modules
    # may shadow.
    return str(jaxlib.version.__version__)


class Backend(NamedTuple):
    """Where compiled programs run."""

    platform: str
    process_index: int
    process_count: int
    local_devices: int
    device_kind: str | None
    platform_version: str | None
    """Version of the runtime, for example of libtpu or CUDA."""


def running() -> Backend | None:
    """The running backend; None if the program has not started one yet."""
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

"""The backend that the program uses, once it uses one: never the first to touch a device."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax._src import xla_bridge


class Backend(NamedTuple):
    """Where compiled programs run."""

    platform: str
    process_index: int
    process_count: int


def running() -> Backend | None:
    """The backend that runs, or None before the program has started one."""
    if not xla_bridge.backends_are_initialized():
        return None
    return Backend(jax.default_backend(), jax.process_index(), jax.process_count())

"""The backend that the program uses, once it uses one: never the first to touch a device."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jaxlib.version

from retrace.jax_internals.names_values import BACKEND_RUNS


def jaxlib_version() -> str:
    """The release of jaxlib."""
    # `importlib.metadata` would tell as well, and imports `csv` and more, for which a program
    # may have modules of its own.
    return str(jaxlib.version.__version__)


class Backend(NamedTuple):
    """Where compiled programs run."""

    platform: str
    process_index: int
    process_count: int


def running() -> Backend | None:
    """The backend that runs, or None before the program has started one."""
    runs = BACKEND_RUNS.get()
    if runs is None or not runs():
        return None
    return Backend(jax.default_backend(), jax.process_index(), jax.process_count())

"""The `jax.distributed` job that this process belongs to, and its key-value store."""

from __future__ import annotations

from typing import Any, NamedTuple

from retrace.jax_internals import losses, names
from retrace.jax_internals.names_values import (
    CLIENT,
    COORDINATOR,
    GLOBAL_STATE,
    PROCESS,
    STORE_GET,
    STORE_LOOK,
    STORE_SET,
    STORE_UNDER,
)

_EXISTS = "ALREADY_EXISTS"
_NOT_WRITTEN = ("NOT_FOUND", "DEADLINE_EXCEEDED")


class Store:
    """The key-value store of `jax.distributed`: each key can be written once.

    Every method may raise JAX's errors if the coordinator cannot be reached.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def put(self, key: str, value: str) -> bool:
        """Write a key; False if it has already been written."""
        try:
            STORE_SET.of(self._client)(key, value)
        except RuntimeError as error:
            if _EXISTS in str(error):
                return False
            raise
        return True

    def wait(self, key: str, seconds: float) -> str | None:
        """Wait for the value of a key; None on timeout."""
        try:
            return STORE_GET.of(self._client)(key, max(1, int(seconds * 1000)))
        except RuntimeError as error:
            if any(code in str(error) for code in _NOT_WRITTEN):
                return None
            raise

    def look(self, key: str) -> str | None:
        """The value of a key; None if it has not been written."""
        try:
            return STORE_LOOK.of(self._client)(key)
        except RuntimeError as error:
            if any(code in str(error) for code in _NOT_WRITTEN):
                return None
            raise

    def under(self, folder: str) -> dict[str, str]:
        """All entries below `folder/`, by key without that prefix."""
        found = STORE_UNDER.of(self._client)(f"{folder}/")
        return {key.rpartition("/")[2]: value for key, value in found}


class Joined(NamedTuple):
    """This process as a member of a `jax.distributed` job."""

    coordinator: str | None
    process: int
    store: Store
    connection: int
    """Usually a different number after `shutdown` and another `initialize`."""


def joined() -> Joined | None:
    """The job of this process; None if it has none or this JAX does not show it."""
    state = GLOBAL_STATE.get()
    if state is None or (client := CLIENT.of(state)) is None or not names.shows(losses.JOBS):
        return None
    coordinator = COORDINATOR.of(state)
    return Joined(
        coordinator if isinstance(coordinator, str) else None,
        int(PROCESS.of(state, 0)),
        Store(client),
        id(client),
    )

"""The job that `jax.distributed` made this process a part of, and the store of its processes."""

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
_NOTHING = ("NOT_FOUND", "DEADLINE_EXCEEDED")


class Store:
    """The key-value store of `jax.distributed`: each key is written once, by whoever is first.

    Every method may raise what JAX raises where the coordinator cannot be reached.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def put(self, key: str, value: str) -> bool:
        """Write a key; False where somebody has written it before."""
        try:
            STORE_SET.of(self._client)(key, value)
        except RuntimeError as error:
            if _EXISTS in str(error):
                return False
            raise
        return True

    def wait(self, key: str, seconds: float) -> str | None:
        """The value of a key, once it is written; None where that takes too long."""
        try:
            return STORE_GET.of(self._client)(key, max(1, int(seconds * 1000)))
        except RuntimeError as error:
            if any(code in str(error) for code in _NOTHING):
                return None
            raise

    def look(self, key: str) -> str | None:
        """The value of a key; None where it is not written."""
        try:
            return STORE_LOOK.of(self._client)(key)
        except RuntimeError as error:
            if any(code in str(error) for code in _NOTHING):
                return None
            raise

    def under(self, folder: str) -> dict[str, str]:
        """All keys below `folder/`, without it."""
        found = STORE_UNDER.of(self._client)(f"{folder}/")
        return {key.rpartition("/")[2]: value for key, value in found}


class Joined(NamedTuple):
    """What `jax.distributed.initialize` made of this process."""

    coordinator: str | None
    process: int
    store: Store
    connection: int
    """Another number after `shutdown` and another `initialize`, as a rule."""


def joined() -> Joined | None:
    """The job of this process; None where it is of none, or this JAX does not show it."""
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

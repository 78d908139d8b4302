"""How often `jax.clear_caches()` has run, seen without standing in its way."""

from __future__ import annotations

from typing import Any

from jax._src import util


class Clears:
    """Counts clears by an entry of our own that only a clear can drop."""

    def __init__(self) -> None:
        self._epoch = 0

        # Every cache made with this decorator is emptied by `jax.clear_caches()`.
        @util.cache(max_size=1, trace_context_in_key=False)
        def entry(key: int) -> list[int]:
            return [key]

        self._entry: Any = entry
        self._last = entry(0)

    def epoch(self) -> int:
        """The number of clears that were noticed up to now."""
        entry = self._entry(0)
        if entry is not self._last:
            self._last = entry
            self._epoch += 1
        return self._epoch

"""Who holds the programs of several processes against each other before they are compiled."""

from __future__ import annotations

from typing import Protocol


class Meeting(Protocol):
    """Who holds the programs of several processes against each other."""

    def joint(self, number: int, program: str | None, processes: tuple[int, ...]) -> None:
        """A program that these processes run is about to be compiled, in this thread."""
        ...

    def alone(self, number: int) -> None:
        """One that this process runs by itself is."""
        ...

"""The interface for comparing the programs of several processes before they are compiled."""

from __future__ import annotations

from typing import Protocol


class Meeting(Protocol):
    """Compares the programs of several processes."""

    def joint(self, number: int, program: str | None, processes: tuple[int, ...]) -> None:
        """This thread is about to compile a program that these processes run."""
        ...

    def alone(self, number: int) -> None:
        """This thread is about to compile a program that only this process runs."""
        ...

"""Measures other XLA flags, one after the other, in separate processes."""

from __future__ import annotations

from collections.abc import Sequence

from retrace.errors import UsageError
from retrace.model.slow import Tried
from retrace.rebuilt.process import compile_alone
from retrace.rebuilt.script import Recorded, Timed, script

_ROUNDS = 2
"""Run twice in the same order, so that other load on the machine affects all settings."""
_MAX_REPEATED_SECONDS = 60.0
"""A compilation that takes longer than this is not repeated."""


def tried(recorded: Recorded, flags: Sequence[str]) -> list[Tried]:
    """The seconds as recorded, and then with each of the settings.

    Raises:
        UsageError: XLA does not know a flag, or the program cannot be compiled.
    """
    # The requested flags go first, so that an unknown flag is reported at once.
    settings = [*map(_flags, flags), ()]
    text = script(recorded)
    found: list[list[Timed]] = [[] for _ in settings]
    for number in range(_ROUNDS):
        if number and max(row[0].seconds for row in found) > _MAX_REPEATED_SECONDS:
            break
        for row, setting in zip(found, settings, strict=True):
            row.append(compile_alone(text, setting))
    measured = [
        Tried(
            " ".join(setting) or None,
            tuple(one.seconds for one in row),
            tuple(one.processor for one in row),
        )
        for setting, row in zip(settings, found, strict=True)
    ]
    return [measured[-1], *measured[:-1]]


def _flags(written: str) -> tuple[str, ...]:
    words = [f"--{word.lstrip('-')}" for word in written.split()]
    if not words:
        raise UsageError("--try needs an XLA flag, as xla_NAME=VALUE")
    return tuple(words)

"""What other flags of XLA's would give: measured, in turn, in processes of their own."""

from __future__ import annotations

from collections.abc import Sequence

from retrace.errors import UsageError
from retrace.model.slow import Tried
from retrace.rebuilt.process import compile_alone
from retrace.rebuilt.script import Recorded, Timed, script

_ROUNDS = 2
"""A second time in the same order, so that what else the machine does falls on all."""
_ONCE_FROM_SECONDS = 60.0
"""A compilation that takes longer is not repeated."""


def tried(recorded: Recorded, flags: Sequence[str]) -> list[Tried]:
    """The seconds as recorded, and then with each of the settings.

    Raises:
        UsageError: what XLA does not know, or the program cannot be compiled.
    """
    # Those that were asked for go first: a flag that XLA does not know shows at once.
    settings = [*map(_flags, flags), ()]
    text = script(recorded)
    found: list[list[Timed]] = [[] for _ in settings]
    for number in range(_ROUNDS):
        if number and max(row[0].seconds for row in found) > _ONCE_FROM_SECONDS:
            break
        for row, setting in zip(found, settings, strict=True):
            row.append(compile_alone(text, setting))
    told = [
        Tried(
            " ".join(setting) or None,
            tuple(one.seconds for one in row),
            tuple(one.processor for one in row),
        )
        for setting, row in zip(settings, found, strict=True)
    ]
    return [told[-1], *told[:-1]]


def _flags(written: str) -> tuple[str, ...]:
    words = [f"--{word.lstrip('-')}" for word in written.split()]
    if not words:
        raise UsageError("--try needs a flag of XLA's, as xla_NAME=VALUE")
    return tuple(words)

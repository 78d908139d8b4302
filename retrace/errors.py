"""The errors that retrace raises; each says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class RetraceError(Exception):
    """Base of all errors of retrace."""


class UsageError(RetraceError):
    """Wrong usage of a command or a function."""


class UnreadableError(RetraceError):
    """A recording that cannot be read."""


class MissError(RetraceError):
    """A miss where a guard allows none; the text explains it.

    Attributes:
        misses: the misses that were too many, each explained, in order.
    """

    def __init__(self, text: str, misses: Sequence[Any] = ()) -> None:
        super().__init__(text)
        self.misses = list(misses)


class ExceededError(MissError, AssertionError):
    """More misses than an assertion allows, told at the end of its block."""


class CannotTellError(RetraceError, AssertionError):
    """A guard found nothing to object to, and cannot know whether there was anything.

    Recording does not work on this JAX or Python, or only in part, or it was cut off.
    """


class DisagreementError(RetraceError):
    """Another process of the job compiles another program at the same place."""


class RetraceWarning(UserWarning):
    """A miss that a guard only warns of, or a guard that guards nothing."""

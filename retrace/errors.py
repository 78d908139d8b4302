"""The errors that retrace raises; each message says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class RetraceError(Exception):
    """Base class of all errors of retrace."""


class UsageError(RetraceError):
    """Wrong usage of a command or a function."""


class UnreadableError(RetraceError):
    """A recording that cannot be read."""


class MissError(RetraceError):
    """A miss that a guard does not allow; the text explains it.

    Attributes:
        misses: the misses that exceed the limit, each explained, in order.
    """

    def __init__(self, text: str, misses: Sequence[Any] = ()) -> None:
        super().__init__(text)
        self.misses = list(misses)


class ExceededError(MissError, AssertionError):
    """More misses than an assertion allows, raised at the end of its block."""


class CannotTellError(RetraceError, AssertionError):
    """A guard saw nothing wrong, but cannot know whether it would have seen a miss.

    Recording does not work fully on this JAX or Python, or it was cut off.
    """


class DisagreementError(RetraceError):
    """Another process of the job compiles a different program at the same place."""


class RetraceWarning(UserWarning):
    """A miss that a guard only warns about, or a guard that guards nothing."""

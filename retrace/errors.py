"""The errors that retrace raises; each says what to do."""

from __future__ import annotations


class RetraceError(Exception):
    """Base of all errors of retrace."""


class UsageError(RetraceError):
    """Wrong usage of a command or a function."""


class UnreadableError(RetraceError):
    """A recording that cannot be read."""

"""What a metric says of a miss: few enough values for any database of metrics."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from retrace.errors import UsageError
from retrace.inside.explained import ExplainedMiss

OTHER = "(other)"
_MAX_FUNCTIONS = 200
"""Each name is a series of its own; functions beyond this many share one."""


class Labels:
    """The names of functions, up to a bound."""

    def __init__(self) -> None:
        self._functions: set[str] = set()

    def function(self, miss: ExplainedMiss) -> str:
        """The name of its function."""
        name: str = miss["function"]["name"].encode(errors="replace").decode()
        if name not in self._functions:
            if len(self._functions) >= _MAX_FUNCTIONS:
                return OTHER
            self._functions.add(name)
        return name


def stages(miss: ExplainedMiss) -> dict[str, float]:
    """Seconds of each stage that ran; none of what lies inside another miss's seconds.

    So each second is counted once.
    """
    if miss["parent"] is not None and miss["derived"] is None:
        return {}
    return {stage: spent for stage, spent in miss["stages"].items() if spent is not None}


def package(name: str, extra: str) -> Any:
    """A package that is there only where it was asked for.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{name} is not here ({error}): install it with `pip install 'retrace-jax[{extra}]'`"
        ) from None
